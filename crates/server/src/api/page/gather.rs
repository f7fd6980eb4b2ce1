//! Collects a page of messages, bounded in rows and in bytes.

use steadfast_store::{Recorded, StoreError};

/// Bytes of messages in one page, unless the first alone is larger: a thousand messages may have a
/// gigabyte.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Rows of one read, so that what is read in vain stays small.
const READ_ROWS: usize = 50;

/// A page and whether something comes behind it.
pub(crate) struct Gathered {
    /// The messages.
    pub(crate) items: Vec<Recorded>,
    /// Whether there are more.
    pub(crate) more: bool,
}

/// Reads up to `limit` messages behind `after` through `read`, which takes the key reached and how
/// many rows are wanted.
pub(crate) async fn gather<F: Future<Output = Result<Vec<Recorded>, StoreError>> + Send>(
    limit: usize,
    mut after: i64,
    key: fn(&Recorded) -> i64,
    read: impl Fn(i64, usize) -> F + Send,
) -> Result<Gathered, StoreError> {
    let mut items = Vec::new();
    let mut bytes = 0;
    loop {
        let wanted = (limit + 1 - items.len()).min(READ_ROWS);
        let rows = read(after, wanted).await?;
        let last = rows.len() < wanted;
        for row in rows {
            after = key(&row);
            bytes += row.data.as_str().len() + row.metadata.as_str().len();
            if items.len() == limit || (!items.is_empty() && PAGE_BYTES_MAX < bytes) {
                return Ok(Gathered { items, more: true });
            }
            items.push(row);
        }
        if last {
            return Ok(Gathered { items, more: false });
        }
    }
}
