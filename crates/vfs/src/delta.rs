//! The difference of two states of a database, readable in both directions.
//!
//! A version byte, the page counts before and after, then for every page that differs, ascending:
//! the step from the previous page's number, the CRC-32 of the page after, and its runs. A page
//! that does not exist counts as zeros.
//!
//! The difference of two pages are runs of (bytes to skip, length, old XOR new). The number of runs
//! comes first. Numbers are LEB128: seven bits a byte, the lowest first. A packed page is its
//! difference to zeros.

use std::sync::Arc;

use crate::source::{Bytes, PAGE_SIZE, Page, ZERO, checksum, zero};

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
        if write_runs(old, new, &mut self.bytes) {
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

    /// The new page from the old one, or the old one from the new one.
    fn turn(
        &mut self,
        page: Page,
        (number, sum): (u32, u32),
        is_forward: bool,
    ) -> Result<Page, DeltaError> {
        let mut turned = Arc::clone(&page);
        xor_runs(&mut self.reader, Arc::make_mut(&mut turned))?;
        let (new, pages) = match is_forward {
            true => (&turned, self.after),
            false => (&page, self.before),
        };
        if checksum(new) == sum && (number <= pages || *turned == ZERO) {
            Ok(turned)
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
        skip_runs(&mut walk.reader)?;
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
    let walk = Walk::new(delta)?;
    expect_length(pages, walk.before)?;
    apply_to(pages, delta, |_| true)?;
    pages.truncate(walk.after as usize);
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
            changed.push((number, walk.turn(at(pages, number), (number, sum), true)?));
        } else {
            skip_runs(&mut walk.reader)?;
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
        changed.push((number, walk.turn(at(pages, number), (number, sum), false)?));
    }
    pages.resize_with(walk.before as usize, zero);
    install(pages, changed);
    Ok(())
}

/// Why a delta could not be applied. The pages are unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// These bytes are not a delta, or not a packed page.
    #[error("a delta is malformed: {0}")]
    Malformed(&'static str),
    /// A page does not match the delta.
    #[error("page {page} does not have the checksum that its delta says")]
    Checksum {
        /// The number of the page, from 1.
        page: u32,
    },
    /// The database has another length than the one the delta starts from.
    #[error("a delta expects {expected} pages, the database has {actual}")]
    Length {
        /// The expected number of pages.
        expected: u32,
        /// The actual number of pages.
        actual: usize,
    },
}

/// A new run costs two or three bytes, so fewer equal bytes than this do not end one.
const GAP: usize = 4;

/// Bytes compared in one go while nothing differs.
const BLOCK: usize = 64;

/// Appends the difference of `new` and `old`. Appends nothing and returns `false` if they are
/// equal.
pub(crate) fn write_runs(old: &Bytes, new: &Bytes, out: &mut Vec<u8>) -> bool {
    let Some(mut start) = next_difference(old, new, 0) else { return false };
    let count_at = out.len();
    out.push(0);
    let (mut count, mut previous_end) = (0_u32, 0);
    loop {
        let end = run_end(old, new, start);
        write_number((start - previous_end) as u32, out);
        write_number((end - start) as u32, out);
        out.extend(old[start..end].iter().zip(&new[start..end]).map(|(old, new)| old ^ new));
        count += 1;
        previous_end = end;
        match next_difference(old, new, end) {
            Some(next) => start = next,
            None => break,
        }
    }
    if count < 0x80 {
        out[count_at] = count as u8;
    } else {
        let mut number = Vec::new();
        write_number(count, &mut number);
        out.splice(count_at..=count_at, number);
    }
    true
}

/// Reads the runs of one page and XORs them into it.
fn xor_runs(reader: &mut Reader<'_>, page: &mut Bytes) -> Result<(), DeltaError> {
    each(reader, |at, bytes| {
        page[at..at + bytes.len()].iter_mut().zip(bytes).for_each(|(page, byte)| *page ^= byte);
    })
}

/// Reads the runs of one page and does nothing with them.
pub(crate) fn skip_runs(reader: &mut Reader<'_>) -> Result<(), DeltaError> {
    each(reader, |_, _| ())
}

/// A page without its zeros: the runs of a delta that starts from a page of zeros.
pub fn pack(page: &[u8; PAGE_SIZE]) -> Vec<u8> {
    let mut packed = Vec::new();
    if !write_runs(&ZERO, page, &mut packed) {
        packed.push(0);
    }
    packed
}

/// The page that [`pack`] packed. Rejects everything that is not one whole packed page.
pub fn unpack(bytes: &[u8]) -> Result<Page, DeltaError> {
    if bytes == [0] {
        return Ok(zero());
    }
    let mut reader = Reader::new(bytes);
    let mut page = zero();
    xor_runs(&mut reader, Arc::make_mut(&mut page))?;
    if reader.is_empty() { Ok(page) } else { Err(DeltaError::Malformed("bytes after the page")) }
}

/// Calls `run` with ranges inside a page.
fn each(reader: &mut Reader<'_>, mut run: impl FnMut(usize, &[u8])) -> Result<(), DeltaError> {
    let count = reader.number()?;
    if count == 0 {
        return Err(DeltaError::Malformed("a page without a change"));
    }
    let mut at = 0_usize;
    for _ in 0..count {
        at = at.saturating_add(reader.number()? as usize);
        let length = reader.number()? as usize;
        if length == 0 || at >= PAGE_SIZE || length > PAGE_SIZE - at {
            return Err(DeltaError::Malformed("a run outside its page"));
        }
        run(at, reader.bytes(length)?);
        at += length;
    }
    Ok(())
}

/// The first byte from `from` on that differs.
fn next_difference(old: &Bytes, new: &Bytes, from: usize) -> Option<usize> {
    let (old, new) = (old.as_chunks::<BLOCK>().0, new.as_chunks::<BLOCK>().0);
    let mut block = from / BLOCK;
    let mut within = from % BLOCK;
    while let (Some(old), Some(new)) = (old.get(block), new.get(block)) {
        // Comparing whole blocks is what makes this fast: nearly all of them are equal.
        if old != new
            && let Some(at) = (within..BLOCK).find(|at| old[*at] != new[*at])
        {
            return Some(block * BLOCK + at);
        }
        (block, within) = (block + 1, 0);
    }
    None
}

/// The end of the run that starts with the difference at `start`.
fn run_end(old: &Bytes, new: &Bytes, start: usize) -> usize {
    let mut end = start + 1;
    let mut at = end;
    while at < PAGE_SIZE && at - end < GAP {
        if let (Some(old), Some(new)) = (old[at..].first_chunk(), new[at..].first_chunk()) {
            let word = u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new);
            if !has_zero_byte(word) {
                at += 8;
                end = at;
                continue;
            }
        }
        if old[at] != new[at] {
            end = at + 1;
        }
        at += 1;
    }
    end
}

fn has_zero_byte(word: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
}

/// Appends a number.
fn write_number(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes numbers and bytes off the front of a delta.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Result<&'a [u8], DeltaError> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(DeltaError::Malformed("it ends too early"));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Result<u32, DeltaError> {
        let mut number = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = self.bytes(1)?[0];
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return u32::try_from(number)
                    .map_err(|_| DeltaError::Malformed("too large a number"));
            }
        }
        Err(DeltaError::Malformed("too long a number"))
    }

    pub(crate) fn checksum(&mut self) -> Result<u32, DeltaError> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }
}
