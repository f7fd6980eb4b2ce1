//! SQLite's temporary files, in memory: large sorts, temporary tables, the copy that VACUUM makes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::image::Refusal;
use parking_lot::Mutex;

const CHUNK: usize = 4096;

/// The budget that all temporary files of one connection share.
pub(crate) struct Budget {
    used: AtomicUsize,
    max: usize,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), max })
    }

    fn take(&self, bytes: usize) -> bool {
        let taken = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// One temporary file. Locked, because a sort with `PRAGMA threads` reads and writes it from
/// several threads.
pub(crate) struct TempFile {
    content: Mutex<Content>,
    budget: Arc<Budget>,
}

#[derive(Default)]
struct Content {
    /// A chunk that was never written is zeros and takes no memory.
    chunks: Vec<Option<Box<[u8; CHUNK]>>>,
    size: usize,
}

impl TempFile {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { content: Mutex::default(), budget }
    }

    pub(crate) fn size(&self) -> u64 {
        self.content.lock().size as u64
    }

    /// Fills `out`, with zeros beyond the end. Returns whether the file had all of it.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let content = self.content.lock();
        let there = (content.size as u64).saturating_sub(offset);
        let (filled, beyond) = out.split_at_mut(out.len().min(there as usize));
        beyond.fill(0);
        let (mut at, mut out) = (offset as usize, filled);
        while !out.is_empty() {
            let (within, room) = (at % CHUNK, CHUNK - at % CHUNK);
            let (part, rest) = out.split_at_mut(out.len().min(room));
            match content.chunks.get(at / CHUNK).and_then(Option::as_ref) {
                Some(chunk) => part.copy_from_slice(&chunk[within..within + part.len()]),
                None => part.fill(0),
            }
            at += part.len();
            out = rest;
        }
        beyond.is_empty()
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Refusal::Full)?;
        let end = usize::try_from(end).map_err(|_| Refusal::Full)?;
        // The list of chunks is memory too, so a hole may not exceed the budget either.
        if end > self.budget.max {
            return Err(Refusal::Full);
        }
        let mut content = self.content.lock();
        let chunks = content.chunks.len().max(end.div_ceil(CHUNK));
        content.chunks.resize_with(chunks, || None);
        let mut bytes = bytes;
        let mut at = offset as usize;
        while !bytes.is_empty() {
            let within = at % CHUNK;
            let (part, rest) = bytes.split_at(bytes.len().min(CHUNK - within));
            let place = &mut content.chunks[at / CHUNK];
            if place.is_none() && !self.budget.take(CHUNK) {
                return Err(Refusal::Full);
            }
            let chunk = place.get_or_insert_with(|| Box::new([0; CHUNK]));
            chunk[within..within + part.len()].copy_from_slice(part);
            at += part.len();
            bytes = rest;
            content.size = content.size.max(at);
        }
        Ok(())
    }

    pub(crate) fn truncate(&self, size: u64) {
        let mut content = self.content.lock();
        let size = (content.size as u64).min(size) as usize;
        let kept = size.div_ceil(CHUNK).min(content.chunks.len());
        let dropped = content.chunks.split_off(kept);
        if let Some(Some(last)) = content.chunks.get_mut(size / CHUNK) {
            last[size % CHUNK..].fill(0);
        }
        content.size = size;
        self.budget.give_back(dropped.iter().flatten().count() * CHUNK);
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        self.truncate(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain vector, around the ends of chunks.
    #[test]
    fn a_temporary_file_reads_back_written_bytes_with_zeros_in_its_holes() {
        let file = TempFile::new(Budget::new(100 * CHUNK));
        let mut model = Vec::new();
        let mut state = 1_u64;
        for step in 0..3_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let random = (state >> 33) as usize;
            let (at, length) = (random % 9 * CHUNK + random / 9 % 7, random / 63 % (3 * CHUNK));
            match random / 31 % 8 {
                0 => {
                    file.truncate(at as u64);
                    model.truncate(at);
                }
                1..4 => {
                    let bytes = vec![step as u8 | 1; length];
                    file.write(at as u64, &bytes).unwrap();
                    if length > 0 {
                        model.resize(model.len().max(at + length), 0);
                        model[at..at + length].copy_from_slice(&bytes);
                    }
                }
                _ => {
                    let mut out = vec![0xEE; length];
                    let complete = file.read(at as u64, &mut out);
                    let there: Vec<u8> = model.iter().skip(at).take(length).copied().collect();
                    assert_eq!(complete, there.len() == length, "step {step}");
                    assert!(out[..there.len()] == there, "step {step}");
                    assert!(out[there.len()..].iter().all(|byte| *byte == 0), "step {step}");
                }
            }
            assert_eq!(file.size(), model.len() as u64, "step {step}");
        }
    }

    #[test]
    fn the_budget_of_a_file_is_released_when_it_shrinks_or_is_dropped() {
        let budget = Budget::new(4 * CHUNK);
        let (first, second) = (TempFile::new(budget.clone()), TempFile::new(budget));
        first.write(0, &[1; 3 * CHUNK]).unwrap();
        assert_eq!(second.write(0, &[1; 2 * CHUNK]), Err(Refusal::Full));
        first.truncate(CHUNK as u64 + 1);
        second.write(0, &[1; 2 * CHUNK]).unwrap();
        assert_eq!(second.write(u64::MAX, &[1]), Err(Refusal::Full));
        drop(first);
        second.write(0, &[1; 4 * CHUNK]).unwrap();
    }
}
