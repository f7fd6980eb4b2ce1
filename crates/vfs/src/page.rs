//! One page: its checksum and its packed form.

use std::sync::{Arc, LazyLock};

use crate::{
    delta::DeltaError,
    runs::{self, Reader},
};

/// The bytes in a page of every database.
pub const PAGE_SIZE: usize = 4096;

/// One page, shared between all who only read it.
pub type Page = Arc<[u8; PAGE_SIZE]>;

pub(crate) type Bytes = [u8; PAGE_SIZE];

/// What a page that does not exist counts as.
pub(crate) static ZERO: Bytes = [0; PAGE_SIZE];

static SHARED_ZERO: LazyLock<Page> = LazyLock::new(|| Arc::new(ZERO));

/// The page of zeros, shared, so that growing a database costs no memory until it is written.
pub(crate) fn zero() -> Page {
    Arc::clone(&SHARED_ZERO)
}

/// The CRC-32 of a page.
pub fn checksum(page: &[u8; PAGE_SIZE]) -> u32 {
    crc32fast::hash(page)
}

/// A page without its zeros: the runs of a delta that starts from a page of zeros.
pub fn pack(page: &[u8; PAGE_SIZE]) -> Vec<u8> {
    let mut packed = Vec::new();
    if !runs::write(&ZERO, page, &mut packed) {
        packed.push(0);
    }
    packed
}

/// The page that [`pack`] packed. Refuses anything that is not one whole packed page.
pub fn unpack(bytes: &[u8]) -> Result<Page, DeltaError> {
    if bytes == [0] {
        return Ok(zero());
    }
    let mut reader = Reader::new(bytes);
    let mut page = zero();
    runs::xor(&mut reader, Arc::make_mut(&mut page))?;
    if reader.is_empty() { Ok(page) } else { Err(DeltaError::Malformed("bytes after the page")) }
}
