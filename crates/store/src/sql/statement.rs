//! A statement and its parameters, for both databases.

use std::borrow::Cow;

use super::row::RowReader;
use crate::{EntityId, StoreError, Timestamp};

/// Converts values to parameters.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::sql::Param::from($value)),*]
    };
}
pub(super) use params;

/// Statements that are made when they are first used, because they list the columns of tables.
macro_rules! statements {
    ($($(#[$meta:meta])* $visibility:vis $name:ident = $sql:expr;)*) => {
        $(
            $(#[$meta])*
            $visibility static $name: std::sync::LazyLock<String> =
                std::sync::LazyLock::new(|| $sql);
        )*
    };
}
pub(super) use statements;

/// A statement and its parameters.
pub(super) type Select = (&'static str, Vec<Param>);

/// The dialect of a store, where the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// The same query for many entities: SQLite one by one, PostgreSQL in one round trip.
    pub(super) fn each(
        self,
        ids: Vec<EntityId>,
        one: &'static str,
        many: &'static str,
    ) -> Vec<Statement> {
        match self {
            Dialect::Sqlite => ids.into_iter().map(|id| Statement::of(one, params![id])).collect(),
            Dialect::Postgres => {
                let ids = ids.into_iter().map(|it| it.0.to_vec()).collect();
                vec![Statement::of(many, vec![Param::ManyBytes(ids)])]
            }
        }
    }
}

/// Makes a text of a row.
pub(crate) type Text = fn(&mut RowReader<'_>) -> Result<String, StoreError>;

/// A statement, its parameters, and the conversion of its rows to texts.
pub(crate) struct Statement {
    pub(crate) sql: Cow<'static, str>,
    pub(crate) params: Vec<Param>,
    pub(crate) text: Text,
}

impl Statement {
    pub(crate) fn of(sql: impl Into<Cow<'static, str>>, params: Vec<Param>) -> Self {
        Self { sql: sql.into(), params, text: |row| row.text() }
    }
}

/// A parameter of a statement.
#[derive(Debug)]
pub(crate) enum Param {
    Int(i64),
    Text(Cow<'static, str>),
    Bytes(Vec<u8>),
    /// For PostgreSQL.
    ManyInts(Vec<i64>),
    /// For PostgreSQL.
    ManyBytes(Vec<Vec<u8>>),
}

impl From<i64> for Param {
    fn from(it: i64) -> Self {
        Param::Int(it)
    }
}

/// A limit: more rows than the databases can count are all rows.
impl From<usize> for Param {
    fn from(it: usize) -> Self {
        Param::Int(i64::try_from(it).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for Param {
    fn from(it: Timestamp) -> Self {
        Param::Int(it.0)
    }
}

impl From<EntityId> for Param {
    fn from(it: EntityId) -> Self {
        Param::Bytes(it.0.to_vec())
    }
}

impl From<Vec<u8>> for Param {
    fn from(it: Vec<u8>) -> Self {
        Param::Bytes(it)
    }
}

impl From<String> for Param {
    fn from(it: String) -> Self {
        Param::Text(it.into())
    }
}

impl From<&'static str> for Param {
    fn from(it: &'static str) -> Self {
        Param::Text(it.into())
    }
}
