//! Statements and their parameters, values, and rows while they are read, for both databases.

use std::{borrow::Cow, str::FromStr};

use crate::{Address, EntityId, EntityKind, Json, StoreError, Timestamp};

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
                let ids = ids.into_iter().map(Value::Id).collect();
                vec![Statement::of(many, vec![Param::Many(ids)])]
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

/// A parameter of a query.
#[derive(Debug)]
pub(crate) enum Param {
    One(Value<'static>),
    Text(String),
    Bytes(Vec<u8>),
    /// For PostgreSQL.
    Many(Vec<Value<'static>>),
}

impl<T: Into<Value<'static>>> From<T> for Param {
    fn from(it: T) -> Self {
        Param::One(it.into())
    }
}

impl From<String> for Param {
    fn from(it: String) -> Self {
        Param::Text(it)
    }
}

impl From<Vec<u8>> for Param {
    fn from(it: Vec<u8>) -> Self {
        Param::Bytes(it)
    }
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Id(EntityId),
}

macro_rules! integers {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Value<'_> {
            fn from(it: $kind) -> Self {
                Value::Int(it.into())
            }
        })*
    };
}
integers!(i64, i32, u32, u8, bool);

/// A limit: more rows than the databases can count are all rows.
impl From<usize> for Value<'_> {
    fn from(it: usize) -> Self {
        Value::Int(i64::try_from(it).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(it: Timestamp) -> Self {
        Value::Int(it.0)
    }
}

impl From<EntityId> for Value<'_> {
    fn from(it: EntityId) -> Self {
        Value::Id(it)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(it: &'a str) -> Self {
        Value::Text(it)
    }
}

impl<'a> From<&'a Json> for Value<'a> {
    fn from(it: &'a Json) -> Self {
        Value::Text(it.as_str())
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(it: &'a [u8]) -> Self {
        Value::Bytes(it)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(it: Option<T>) -> Self {
        it.map_or(Value::Null, T::into)
    }
}

/// The columns of a row, by index.
pub(crate) trait Fields {
    fn maybe_int(&self, index: usize) -> Result<Option<i64>, StoreError>;
    fn maybe_text(&self, index: usize) -> Result<Option<String>, StoreError>;
    fn maybe_bytes(&self, index: usize) -> Result<Option<Vec<u8>>, StoreError>;
}

/// Reads the columns of a row one after the other.
pub(crate) struct RowReader<'a> {
    fields: &'a dyn Fields,
    next: usize,
}

impl<'a> RowReader<'a> {
    pub(crate) fn new(fields: &'a dyn Fields) -> Self {
        Self { fields, next: 0 }
    }

    fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn skip(&mut self, columns: usize) {
        self.next += columns;
    }

    /// Reads the rest of the row, or nothing if its first column, a number, is empty.
    pub(crate) fn rest<T>(
        &mut self,
        read: fn(&mut Self) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.fields.maybe_int(self.next)?.map(|_| read(self)).transpose()
    }

    fn found<T>(&self, value: Option<T>) -> Result<T, StoreError> {
        value.ok_or_else(|| StoreError::corrupt(format!("column {} is empty", self.next - 1)))
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>, StoreError> {
        self.fields.maybe_int(self.advance())
    }

    pub(crate) fn int(&mut self) -> Result<i64, StoreError> {
        let found = self.maybe_int()?;
        self.found(found)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, StoreError> {
        self.int().map(|it| it != 0)
    }

    pub(crate) fn count(&mut self) -> Result<u32, StoreError> {
        let number = self.int()?;
        u32::try_from(number).map_err(|_| StoreError::corrupt(format!("{number} is no count")))
    }

    pub(crate) fn small(&mut self) -> Result<i32, StoreError> {
        let number = self.int()?;
        i32::try_from(number).map_err(|_| StoreError::corrupt(format!("{number} is too large")))
    }

    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.maybe_int()?.map(Timestamp))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.int().map(Timestamp)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        self.fields.maybe_text(self.advance())
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        let found = self.maybe_text()?;
        self.found(found)
    }

    pub(crate) fn maybe_json(&mut self) -> Result<Option<Json>, StoreError> {
        Ok(self.maybe_text()?.map(|it| Json::stored(&it)))
    }

    pub(crate) fn json(&mut self) -> Result<Json, StoreError> {
        self.text().map(|it| Json::stored(&it))
    }

    /// A value that is stored as one of a few texts.
    pub(crate) fn tag<T: FromStr>(&mut self, what: &str) -> Result<T, StoreError> {
        let tag = self.text()?;
        tag.parse().map_err(|_| StoreError::corrupt(format!("unknown {what} `{tag}`")))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        let index = self.advance();
        let found = self.fields.maybe_bytes(index)?;
        self.found(found)
    }

    pub(crate) fn maybe_id(&mut self) -> Result<Option<EntityId>, StoreError> {
        let index = self.advance();
        let Some(bytes) = self.fields.maybe_bytes(index)? else { return Ok(None) };
        let id = EntityId::from_bytes(&bytes);
        id.map(Some).ok_or_else(|| StoreError::corrupt(format!("id of {} bytes", bytes.len())))
    }

    pub(crate) fn id(&mut self) -> Result<EntityId, StoreError> {
        let found = self.maybe_id()?;
        self.found(found)
    }

    /// The class and the name of an entity of a kind.
    pub(crate) fn named(&mut self, kind: EntityKind) -> Result<Address, StoreError> {
        let address = Address::new(kind, &self.text()?, &self.text()?);
        address.map_err(|error| StoreError::corrupt(error.to_string()))
    }

    /// The kind, the class and the name of an entity.
    pub(crate) fn address(&mut self) -> Result<Address, StoreError> {
        let kind = self.tag("kind")?;
        self.named(kind)
    }
}
