//! Lists of keys in byte order, with common prefixes up to a delimiter.

use steadfast_store::{EntryRange, behind};

use crate::{Blob, BucketError, BucketName, Buckets};

/// Maximum number of entries per page.
pub const LIST_MAX: usize = 1_000;

/// Rows of the first read with a delimiter, and of each read after a common prefix. Each read
/// without a common prefix doubles them.
const FIRST_ROWS: usize = 4;

/// Options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Keys that contain this after the prefix are grouped under their common prefix up to it.
    pub delimiter: String,
    /// Only entries after this key or common prefix.
    pub after: Option<String>,
    /// Maximum number of entries; at most 1,000.
    pub limit: Option<usize>,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Blobs, in the order of their keys.
    pub blobs: Vec<Blob>,
    /// Common prefixes up to the delimiter.
    pub prefixes: Vec<String>,
    /// Value of `after` for the next page; `None` at the end.
    pub next: Option<String>,
}

impl Buckets {
    /// Lists blobs.
    #[steadfast_store::boxed]
    pub async fn list(
        &self,
        bucket: &BucketName,
        list: &ListOptions,
    ) -> Result<Listing, BucketError> {
        self.shared.bucket(bucket).await?;
        let limit = list.limit.unwrap_or(LIST_MAX).min(LIST_MAX);
        let mut shown = Listing::default();
        if limit == 0 {
            return Ok(shown);
        }
        let after = list.after.as_deref();
        let mut range = EntryRange::prefix(list.prefix.as_bytes());
        if let Some(after) = after {
            range = range.after(after.as_bytes());
        }
        let (space, mut count, mut last) = (bucket.blobs(), 0, None);
        let mut rows = FIRST_ROWS;
        loop {
            let page = if list.delimiter.is_empty() { limit - count + 1 } else { rows };
            let entries = self.shared.store.entries(&space, range.clone(), page).await?;
            let is_last = entries.len() < page;
            // Most keys of a page may share one prefix: then the next read is short.
            rows = (2 * rows).min(LIST_MAX);
            for entry in entries {
                range = range.after(entry.entry.key());
                let Some(blob) = Blob::read(&entry)? else { continue };
                let common = common(blob.key.as_str(), list);
                if let Some(common) = &common {
                    // The next read skips the other keys with this prefix.
                    range = behind(common.as_bytes()).map_or(range.clone(), |it| range.from(it));
                    rows = FIRST_ROWS;
                    let shown = shown.prefixes.last().map(String::as_str);
                    if Some(common.as_str()) <= after.max(shown) {
                        continue;
                    }
                }
                if count == limit {
                    shown.next = last;
                    return Ok(shown);
                }
                count += 1;
                match common {
                    Some(common) => {
                        last = Some(common.clone());
                        shown.prefixes.push(common);
                    }
                    None => {
                        last = Some(blob.key.to_string());
                        shown.blobs.push(blob);
                    }
                }
            }
            if is_last {
                return Ok(shown);
            }
        }
    }
}

/// The common prefix of a key, if the key contains the delimiter.
fn common(key: &str, list: &ListOptions) -> Option<String> {
    if list.delimiter.is_empty() {
        return None;
    }
    let rest = key.strip_prefix(list.prefix.as_str())?;
    let end = rest.find(&list.delimiter)? + list.delimiter.len();
    Some(format!("{}{}", list.prefix, &rest[..end]))
}
