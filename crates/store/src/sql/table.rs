//! The description of a table, and the statements that follow from it in both databases.

use std::fmt::Write as _;

use super::statement::{RowReader, Value};
use crate::StoreError;

/// A row of a table: [`super::tables`] has them all.
pub(crate) trait Stored: Sized + 'static {
    const TABLE: &'static str;
    /// In the order in which rows are written and read.
    const COLUMNS: &'static [Column<Self>];

    /// Reads the columns of [`list`].
    fn read(row: &mut RowReader<'_>) -> Result<Self, StoreError>;
}

/// A column of a table whose rows are `R`.
pub(crate) struct Column<R> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) role: Role,
    pub(super) is_read: bool,
    value: Get<R>,
}

/// Makes a value of a row.
pub(super) type Get<R> = fn(&R) -> Value<'_>;

/// The type of a column in PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    BigInt,
    Integer,
    SmallInt,
    Boolean,
    Text,
    Bytes,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::BigInt => "bigint",
            Kind::Integer => "integer",
            Kind::SmallInt => "smallint",
            Kind::Boolean => "boolean",
            Kind::Text => "text",
            Kind::Bytes => "bytea",
        }
    }
}

/// The effect of a write on a column of a row that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Key,
    /// It is kept.
    Fixed,
    /// It is replaced.
    Plain,
    /// It is replaced, and every change of the row changes a guard, if the table has one. So if the
    /// key and the guards of a row are as they were read, the row is unchanged.
    Guard,
    /// It is increased: rows are written as differences.
    Sum,
}

/// A column of the key.
pub(super) const fn key<R>(name: &'static str, kind: Kind, value: Get<R>) -> Column<R> {
    Column { name, kind, role: Role::Key, is_read: true, value }
}

pub(super) const fn fixed<R>(name: &'static str, kind: Kind, value: Get<R>) -> Column<R> {
    Column { role: Role::Fixed, ..key(name, kind, value) }
}

pub(super) const fn plain<R>(name: &'static str, kind: Kind, value: Get<R>) -> Column<R> {
    Column { role: Role::Plain, ..key(name, kind, value) }
}

pub(super) const fn guard<R>(name: &'static str, kind: Kind, value: Get<R>) -> Column<R> {
    Column { role: Role::Guard, ..key(name, kind, value) }
}

pub(super) const fn sum<R>(name: &'static str, kind: Kind, value: Get<R>) -> Column<R> {
    Column { role: Role::Sum, ..key(name, kind, value) }
}

/// A column that follows from others, so that rows are read without it.
pub(super) const fn derived<R>(column: Column<R>) -> Column<R> {
    Column { is_read: false, ..column }
}

/// A statement: for one row or key with the parameters `?1`, `?2` in SQLite, for arrays of them in
/// PostgreSQL.
pub(crate) struct Sql {
    pub(crate) sqlite: String,
    pub(crate) postgres: String,
}

/// Lists texts with commas or another word between them.
fn joined(texts: impl Iterator<Item = String>, between: &str) -> String {
    let mut all = String::new();
    for text in texts {
        let before = if all.is_empty() { "" } else { between };
        let _ = write!(all, "{before}{text}");
    }
    all
}

/// The columns that are read, each with a prefix such as `m.`.
pub(super) fn list<R: Stored>(prefix: &str) -> String {
    let read = R::COLUMNS.iter().filter(|it| it.is_read);
    joined(read.map(|it| format!("{prefix}{}", it.name)), ", ")
}

/// Reads the rows that the rest of the statement finds.
pub(super) fn select<R: Stored>(rest: &str) -> String {
    format!("SELECT {} FROM {} {rest}", list::<R>(""), R::TABLE)
}

fn keys<R: Stored>() -> Vec<&'static str> {
    R::COLUMNS.iter().filter(|it| it.role == Role::Key).map(|it| it.name).collect()
}

fn kind<R: Stored>(column: &str) -> &'static str {
    let found = R::COLUMNS.iter().find(|it| it.name == column);
    found.expect("a statement names columns of its table").kind.name()
}

/// `unnest($1::bytea[], $2::bigint[])`
fn unnest<R: Stored>(columns: &[&str]) -> String {
    let arrays = columns.iter().zip(1..).map(|(it, at)| format!("${at}::{}[]", kind::<R>(it)));
    format!("unnest({})", joined(arrays, ", "))
}

/// `t.scope = g.scope AND t.key = g.key`
fn same(columns: &[&str]) -> String {
    joined(columns.iter().map(|it| format!("t.{it} = g.{it}")), " AND ")
}

/// `scope = ?1 AND key = ?2`
fn equal(columns: &[&str]) -> String {
    joined(columns.iter().zip(1..).map(|(it, at)| format!("{it} = ?{at}")), " AND ")
}

/// Adds rows.
pub(super) fn insert<R: Stored>() -> Sql {
    let columns: Vec<&str> = R::COLUMNS.iter().map(|it| it.name).collect();
    let into = format!("INSERT INTO {} ({})", R::TABLE, columns.join(", "));
    let values = joined((1..=columns.len()).map(|it| format!("?{it}")), ", ");
    Sql {
        sqlite: format!("{into} VALUES ({values})"),
        postgres: format!("{into} SELECT * FROM {}", unnest::<R>(&columns)),
    }
}

/// Adds rows, or changes those that exist.
pub(super) fn put<R: Stored>() -> Sql {
    let set = R::COLUMNS.iter().filter_map(|Column { name, role, .. }| match role {
        Role::Key | Role::Fixed => None,
        Role::Plain | Role::Guard => Some(format!("{name} = excluded.{name}")),
        Role::Sum => Some(format!("{name} = {}.{name} + excluded.{name}", R::TABLE)),
    });
    let set = joined(set, ", ");
    let otherwise = if set.is_empty() { "NOTHING".into() } else { format!("UPDATE SET {set}") };
    let conflict = format!(" ON CONFLICT ({}) DO {otherwise}", keys::<R>().join(", "));
    let insert = insert::<R>();
    Sql { sqlite: insert.sqlite + &conflict, postgres: insert.postgres + &conflict }
}

/// Changes one column of rows that exist: the parameters are the key and the new value.
pub(super) fn update<R: Stored>(column: &str) -> Sql {
    let (keys, table) = (keys::<R>(), R::TABLE);
    let all = [&*keys, &[column]].concat();
    Sql {
        sqlite: format!("UPDATE {table} SET {column} = ?{} WHERE {}", all.len(), equal(&keys)),
        postgres: format!(
            "UPDATE {table} t SET {column} = g.{column} FROM {} AS g ({}) WHERE {}",
            unnest::<R>(&all),
            all.join(", "),
            same(&keys)
        ),
    }
}

/// Deletes the rows with these values in these columns; without columns, by their keys.
pub(super) fn delete<R: Stored>(columns: &[&str]) -> Sql {
    let (all, table) = (keys::<R>(), R::TABLE);
    let columns = if columns.is_empty() { &*all } else { columns };
    let postgres = match columns {
        [one] => format!("DELETE FROM {table} WHERE {one} = ANY ($1::{}[])", kind::<R>(one)),
        _ => format!(
            "DELETE FROM {table} t USING {} AS g ({}) WHERE {}",
            unnest::<R>(columns),
            columns.join(", "),
            same(columns)
        ),
    };
    Sql { sqlite: format!("DELETE FROM {table} WHERE {}", equal(columns)), postgres }
}

/// Reads rows by their keys.
pub(super) fn by_key<R: Stored>() -> Sql {
    let keys = keys::<R>();
    let postgres = match &*keys {
        [one] => select::<R>(&format!("WHERE {one} = ANY ($1::{}[])", kind::<R>(one))),
        _ => format!(
            "SELECT {} FROM {} AS g ({}) JOIN {} t ON {}",
            list::<R>("t."),
            unnest::<R>(&keys),
            keys.join(", "),
            R::TABLE,
            same(&keys)
        ),
    };
    Sql { sqlite: select::<R>(&format!("WHERE {}", equal(&keys))), postgres }
}

/// The parameters of a statement that is run for many rows or keys of `P`.
pub(crate) trait Parameters<P>: Send + Sync {
    /// The number of rows.
    fn len(&self, of: &P) -> usize;

    /// Sets the first values to those of a row, and returns their number.
    fn row<'a>(&self, of: &'a P, row: usize, values: &mut Values<'a>) -> usize;

    /// The values of each column.
    fn arrays<'a>(&self, of: &'a P) -> Vec<Vec<Value<'a>>>;
}

/// Maximum columns of a table.
const COLUMNS_MAX: usize = 16;

/// The values of a row.
pub(crate) type Values<'a> = [Value<'a>; COLUMNS_MAX];

struct Rows<P: 'static, T: 'static> {
    rows: fn(&P) -> &[T],
    columns: Vec<Get<T>>,
}

impl<P, T> Parameters<P> for Rows<P, T> {
    fn len(&self, of: &P) -> usize {
        (self.rows)(of).len()
    }

    fn row<'a>(&self, of: &'a P, row: usize, values: &mut Values<'a>) -> usize {
        let row = &(self.rows)(of)[row];
        for (value, get) in values.iter_mut().zip(&self.columns) {
            *value = get(row);
        }
        self.columns.len()
    }

    fn arrays<'a>(&self, of: &'a P) -> Vec<Vec<Value<'a>>> {
        let rows = (self.rows)(of);
        self.columns.iter().map(|get| rows.iter().map(get).collect()).collect()
    }
}

/// Whole rows.
pub(super) fn rows<P: 'static, R: Stored>(rows: fn(&P) -> &[R]) -> Box<dyn Parameters<P>> {
    const { assert!(R::COLUMNS.len() <= COLUMNS_MAX) };
    Box::new(Rows { rows, columns: R::COLUMNS.iter().map(|it| it.value).collect() })
}

/// Values of anything else.
pub(super) fn values<P: 'static, T: 'static>(
    rows: fn(&P) -> &[T],
    columns: &[Get<T>],
) -> Box<dyn Parameters<P>> {
    Box::new(Rows { rows, columns: columns.to_vec() })
}
