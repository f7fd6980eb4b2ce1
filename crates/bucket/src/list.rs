//! Lists: keys in the order of their bytes, and what they have in common up to a delimiter.

use steadfast_store::{EntryRange, behind};

use crate::{Blob, BucketError, BucketName, Buckets};

/// The most that a list shows at once.
pub const LIST_MAX: usize = 1_000;

/// Rows of the first read with a delimiter, and of each read behind a common prefix. A read without
/// one doubles them.
const FIRST_ROWS: usize = 4;

/// What a list shows.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Keys that begin with this.
    pub prefix: String,
    /// Keys that go on with this behind the prefix are shown as one, up to it.
    pub delimiter: String,
    /// Only what comes behind this: a key, or a common prefix.
    pub after: Option<String>,
    /// So many; at most 1,000.
    pub limit: Option<usize>,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Blobs, in the order of their keys.
    pub blobs: Vec<Blob>,
    /// What keys have in common, up to the delimiter.
    pub prefixes: Vec<String>,
    /// Where the list goes on, if it does: what to set `after` to.
    pub next: Option<String>,
}

impl Buckets {
    /// Lists blobs.
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
            // Most keys of a page may have one prefix in common: then the next page is short.
            rows = (2 * rows).min(LIST_MAX);
            for entry in entries {
                range = range.after(entry.entry.key());
                let Some(blob) = Blob::read(&entry)? else { continue };
                let common = common(blob.key.as_str(), list);
                if let Some(common) = &common {
                    // The next page need not read the rest of them.
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

/// What a key has in common with others, if it goes on with the delimiter.
fn common(key: &str, list: &ListOptions) -> Option<String> {
    if list.delimiter.is_empty() {
        return None;
    }
    let rest = key.strip_prefix(list.prefix.as_str())?;
    let end = rest.find(&list.delimiter)? + list.delimiter.len();
    Some(format!("{}{}", list.prefix, &rest[..end]))
}
