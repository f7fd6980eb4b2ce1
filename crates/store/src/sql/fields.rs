//! Access to the columns of a row of either database.

use crate::{EntityId, StoreError, Timestamp};

/// The columns of a row, by index.
pub(crate) trait Fields {
    fn maybe_int(&self, index: usize) -> Result<Option<i64>, StoreError>;
    fn maybe_text(&self, index: usize) -> Result<Option<String>, StoreError>;
    fn maybe_bytes(&self, index: usize) -> Result<Option<Vec<u8>>, StoreError>;

    fn int(&self, index: usize) -> Result<i64, StoreError> {
        self.maybe_int(index)?.ok_or_else(|| missing(index))
    }

    fn text(&self, index: usize) -> Result<String, StoreError> {
        self.maybe_text(index)?.ok_or_else(|| missing(index))
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, StoreError> {
        self.maybe_bytes(index)?.ok_or_else(|| missing(index))
    }

    fn count(&self, index: usize) -> Result<u32, StoreError> {
        let number = self.int(index)?;
        u32::try_from(number).map_err(|_| StoreError::corrupt(format!("{number} is no count")))
    }

    fn small(&self, index: usize) -> Result<i32, StoreError> {
        let number = self.int(index)?;
        i32::try_from(number).map_err(|_| StoreError::corrupt(format!("{number} is too large")))
    }

    fn time(&self, index: usize) -> Result<Timestamp, StoreError> {
        self.int(index).map(Timestamp)
    }

    fn maybe_id(&self, index: usize) -> Result<Option<EntityId>, StoreError> {
        let Some(bytes) = self.maybe_bytes(index)? else { return Ok(None) };
        let id = EntityId::from_bytes(&bytes);
        id.map(Some).ok_or_else(|| StoreError::corrupt(format!("id of {} bytes", bytes.len())))
    }

    fn id(&self, index: usize) -> Result<EntityId, StoreError> {
        self.maybe_id(index)?.ok_or_else(|| missing(index))
    }
}

fn missing(index: usize) -> StoreError {
    StoreError::corrupt(format!("column {index} is empty"))
}
