//! Rows of PostgreSQL.

use tokio_postgres::{
    Row,
    types::{FromSql, Type},
};

use super::batch_error;
use crate::{StoreError, sql::Fields};

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
