//! Collects a page of messages, bounded in rows and bytes.

/// Maximum bytes of messages in a page, unless the first alone is larger: a thousand messages may
/// have a gigabyte.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// Rows per read, to bound the rows that are read and not used.
const READ_ROWS: usize = 50;

/// A page, and whether more rows follow.
pub(crate) struct MessagePage<T> {
    /// The messages.
    pub(crate) items: Vec<T>,
    /// Whether more rows follow.
    pub(crate) more: bool,
}

/// Reads up to `limit` rows after `after` through `read`, which takes the last key and the number
/// of rows. `measure` returns the key and the bytes of a row.
pub(crate) async fn collect<T, K, E, F>(
    limit: usize,
    mut after: K,
    measure: fn(&T) -> (K, usize),
    read: impl Fn(K, usize) -> F + Send,
) -> Result<MessagePage<T>, E>
where
    T: Send,
    K: Clone + Send,
    F: Future<Output = Result<Vec<T>, E>> + Send,
{
    let mut items = Vec::new();
    let mut bytes = 0;
    loop {
        let wanted = (limit + 1 - items.len()).min(READ_ROWS);
        let rows = read(after.clone(), wanted).await?;
        let last = rows.len() < wanted;
        for row in rows {
            let (key, len) = measure(&row);
            (after, bytes) = (key, bytes + len);
            if items.len() == limit || (!items.is_empty() && PAGE_BYTES_MAX < bytes) {
                return Ok(MessagePage { items, more: true });
            }
            items.push(row);
        }
        if last {
            return Ok(MessagePage { items, more: false });
        }
    }
}
