//! The difference of two states of a database, readable in both directions.
//!
//! A version byte, the page counts before and after, then for every page that differs, ascending:
//! the step from the previous page's number, the CRC-32 of the page after, and its [`runs`]. A page
//! that does not exist counts as zeros.

use std::sync::Arc;

use crate::{
    page::{Bytes, Page, ZERO, checksum, zero},
    runs::{self, DeltaError, Reader, write_number},
};

const VERSION: u8 = 1;

/// Maximum pages of a database, so that a malformed delta cannot exhaust memory.
pub(crate) const PAGES_MAX: u32 = 4 << 20;

/// Builds a delta, page by page in ascending order.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    touched: Vec<u32>,
}

impl Writer {
    pub(crate) fn new(pages_before: u32, pages_after: u32) -> Self {
        // The size of an ordinary turn: a counter or a small row.
        let mut bytes = Vec::with_capacity(128);
        bytes.push(VERSION);
        write_number(pages_before, &mut bytes);
        write_number(pages_after, &mut bytes);
        Self { bytes, touched: Vec::new() }
    }

    pub(crate) fn page(&mut self, number: u32, old: &Bytes, new: &Bytes) {
        let start = self.bytes.len();
        write_number(number - self.touched.last().copied().unwrap_or(0), &mut self.bytes);
        let checksum_at = self.bytes.len();
        self.bytes.extend([0; 4]);
        if runs::write(old, new, &mut self.bytes) {
            let sum = checksum(new).to_le_bytes();
            self.bytes[checksum_at..checksum_at + 4].copy_from_slice(&sum);
            self.touched.push(number);
        } else {
            self.bytes.truncate(start);
        }
    }

    /// The delta, and the numbers of the pages that differ.
    pub(crate) fn finish(self) -> (Vec<u8>, Vec<u32>) {
        (self.bytes, self.touched)
    }
}

/// Reads a delta. After each page the caller takes its runs off the reader.
struct Walk<'a> {
    reader: Reader<'a>,
    before: u32,
    after: u32,
    previous: u32,
}

impl<'a> Walk<'a> {
    fn new(delta: &'a [u8]) -> Result<Self, DeltaError> {
        let mut reader = Reader::new(delta);
        if reader.bytes(1)? != [VERSION] {
            return Err(DeltaError::Malformed("not version 1"));
        }
        let (before, after) = (reader.number()?, reader.number()?);
        if before.max(after) > PAGES_MAX {
            return Err(DeltaError::Malformed("too many pages"));
        }
        Ok(Self { reader, before, after, previous: 0 })
    }

    /// The next page's number and its checksum after.
    fn next(&mut self) -> Result<Option<(u32, u32)>, DeltaError> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let step = self.reader.number()?;
        let number = self.previous.saturating_add(step);
        if step == 0 || number > self.before.max(self.after) {
            return Err(DeltaError::Malformed("a page out of order or out of range"));
        }
        self.previous = number;
        Ok(Some((number, self.reader.checksum()?)))
    }

    /// The new page, from the old one.
    fn forward(&mut self, old: Page, number: u32, sum: u32) -> Result<Page, DeltaError> {
        let mut page = old;
        runs::xor(&mut self.reader, Arc::make_mut(&mut page))?;
        if checksum(&page) == sum && (number <= self.after || *page == ZERO) {
            Ok(page)
        } else {
            Err(DeltaError::Checksum { page: number })
        }
    }

    /// The old page, from the new one.
    fn backward(&mut self, new: Page, number: u32, sum: u32) -> Result<Page, DeltaError> {
        if checksum(&new) != sum {
            return Err(DeltaError::Checksum { page: number });
        }
        let mut page = new;
        runs::xor(&mut self.reader, Arc::make_mut(&mut page))?;
        if number <= self.before || *page == ZERO {
            Ok(page)
        } else {
            Err(DeltaError::Checksum { page: number })
        }
    }
}

fn at(pages: &[Page], number: u32) -> Page {
    pages.get(number as usize - 1).map_or_else(zero, Arc::clone)
}

fn expect_length(pages: &[Page], expected: u32) -> Result<(), DeltaError> {
    if pages.len() == expected as usize {
        Ok(())
    } else {
        Err(DeltaError::Length { expected, actual: pages.len() })
    }
}

/// Replaces the pages; those beyond the end are dropped.
fn install(pages: &mut [Page], changed: Vec<(u32, Page)>) {
    for (number, page) in changed {
        if let Some(place) = pages.get_mut(number as usize - 1) {
            *place = page;
        }
    }
}

/// The numbers of the pages that a delta changes, ascending; those it removes are among them.
pub fn touched(delta: &[u8]) -> Result<Vec<u32>, DeltaError> {
    let mut walk = Walk::new(delta)?;
    let mut numbers = Vec::new();
    while let Some((number, _)) = walk.next()? {
        runs::skip(&mut walk.reader)?;
        numbers.push(number);
    }
    Ok(numbers)
}

/// The number of pages the database has after a delta.
pub fn pages_after(delta: &[u8]) -> Result<u32, DeltaError> {
    Ok(Walk::new(delta)?.after)
}

/// Applies a delta to a database. On an error nothing is changed.
pub fn apply(pages: &mut Vec<Page>, delta: &[u8]) -> Result<(), DeltaError> {
    let mut walk = Walk::new(delta)?;
    expect_length(pages, walk.before)?;
    let mut changed = Vec::new();
    while let Some((number, sum)) = walk.next()? {
        changed.push((number, walk.forward(at(pages, number), number, sum)?));
    }
    pages.resize_with(walk.after as usize, zero);
    install(pages, changed);
    Ok(())
}

/// Applies a delta to only the wanted pages; the others are already at a later state.
///
/// For a database that is assembled from pages of different turns. It grows to the length of the
/// delta, but never shrinks: a page beyond that length may be from a later turn. Wanted pages that
/// the delta removes become zeros, which is the base of a later delta that adds them again. After
/// the last delta the caller truncates to its [`pages_after`]. On an error nothing is changed.
pub fn apply_to(
    pages: &mut Vec<Page>,
    delta: &[u8],
    wanted: impl Fn(u32) -> bool,
) -> Result<(), DeltaError> {
    let mut walk = Walk::new(delta)?;
    let mut changed = Vec::new();
    while let Some((number, sum)) = walk.next()? {
        if wanted(number) {
            changed.push((number, walk.forward(at(pages, number), number, sum)?));
        } else {
            runs::skip(&mut walk.reader)?;
        }
    }
    pages.resize_with(pages.len().max(walk.after as usize), zero);
    install(pages, changed);
    Ok(())
}

/// Reverts a delta of a database. On an error nothing is changed.
pub fn revert(pages: &mut Vec<Page>, delta: &[u8]) -> Result<(), DeltaError> {
    let mut walk = Walk::new(delta)?;
    expect_length(pages, walk.after)?;
    let mut changed = Vec::new();
    while let Some((number, sum)) = walk.next()? {
        changed.push((number, walk.backward(at(pages, number), number, sum)?));
    }
    pages.resize_with(walk.before as usize, zero);
    install(pages, changed);
    Ok(())
}
