//! The change of a bucket by each numbered deed: the victim makes it, the killer checks it.

/// Concurrent deeds, each on keys of its own.
pub(crate) const WRITERS: u64 = 4;

/// The queue that all events go to.
pub(crate) const EVENTS: &str = "shots";

/// The next sweep deletes blobs with this prefix.
pub(crate) const OLD: &str = "old/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Put,
    /// Of another key, which may not exist.
    Copy,
    /// In parts, of which one is sent twice and one is not used.
    Upload,
    /// An upload that is aborted.
    Abort,
    Delete,
}

impl Deed {
    pub(crate) fn of(number: u64) -> Self {
        match number / WRITERS % 8 {
            0 | 1 | 5 => Deed::Put,
            2 => Deed::Copy,
            3 => Deed::Upload,
            4 => Deed::Delete,
            6 => Deed::Abort,
            _ => Deed::Put,
        }
    }
}

/// The key that a deed changes.
pub(crate) fn key_of(number: u64) -> String {
    let writer = number % WRITERS;
    let at = number / WRITERS;
    let old = if at % 8 == 1 || at % 8 == 7 { OLD } else { "" };
    format!("{old}{writer}/{}", at / 8 % 3)
}

/// The key that it copies.
pub(crate) fn source_of(number: u64) -> String {
    format!("{}/{}", number % WRITERS, (number / WRITERS / 8 + 1) % 3)
}

/// The bytes that it puts. They identify the deed.
pub(crate) fn bytes_of(number: u64) -> Vec<u8> {
    let len = if number % 61 == 7 { 1_300_000 } else { 8 + (number % 5) as usize * 3_000 };
    number.to_be_bytes().into_iter().cycle().take(len).collect()
}
