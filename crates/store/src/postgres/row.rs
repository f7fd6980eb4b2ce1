//! Rows and values of PostgreSQL.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::{
    Row,
    types::{FromSql, IsNull, ToSql, Type, to_sql_checked},
};

use super::batch_error;
use crate::{
    StoreError,
    sql::{Fields, Value},
};

fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|error| StoreError::corrupt(batch_error::text(&error)))
}

impl Fields for Row {
    fn maybe_int(&self, index: usize) -> Result<Option<i64>, StoreError> {
        match *self.columns()[index].type_() {
            Type::INT2 => Ok(get::<Option<i16>>(self, index)?.map(i64::from)),
            Type::INT4 => Ok(get::<Option<i32>>(self, index)?.map(i64::from)),
            Type::BOOL => Ok(get::<Option<bool>>(self, index)?.map(i64::from)),
            _ => get(self, index),
        }
    }

    fn maybe_text(&self, index: usize) -> Result<Option<String>, StoreError> {
        get(self, index)
    }

    fn maybe_bytes(&self, index: usize) -> Result<Option<Vec<u8>>, StoreError> {
        get(self, index)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self, kind) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Int(it), &Type::INT2) => i16::try_from(*it)?.to_sql(kind, out),
            (Value::Int(it), &Type::INT4) => i32::try_from(*it)?.to_sql(kind, out),
            (Value::Int(it), &Type::BOOL) => (*it != 0).to_sql(kind, out),
            (Value::Int(it), _) => it.to_sql(kind, out),
            (Value::Text(it), _) => it.to_sql(kind, out),
            (Value::Bytes(it), _) => it.to_sql(kind, out),
            (Value::Id(it), _) => it.0.as_slice().to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(
            *kind,
            Type::INT2 | Type::INT4 | Type::INT8 | Type::BOOL | Type::TEXT | Type::BYTEA
        )
    }

    to_sql_checked!();
}
