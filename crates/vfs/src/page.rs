//! One page and its checksum.

use std::sync::{Arc, LazyLock};

/// The bytes in a page of every database.
pub const PAGE_SIZE: usize = 4096;

/// One page, shared between all readers.
pub type Page = Arc<[u8; PAGE_SIZE]>;

pub(crate) type Bytes = [u8; PAGE_SIZE];

/// The value of a page that does not exist.
pub(crate) static ZERO: Bytes = [0; PAGE_SIZE];

static SHARED_ZERO: LazyLock<Page> = LazyLock::new(|| Arc::new(ZERO));

/// The page of zeros, shared, so that growing a database takes no memory until it is written.
pub(crate) fn zero() -> Page {
    Arc::clone(&SHARED_ZERO)
}

/// The CRC-32 of a page.
pub fn checksum(page: &[u8; PAGE_SIZE]) -> u32 {
    crc32fast::hash(page)
}
