//! When and how the pages of an object are written as images, so that a load need not apply all its
//! turns.

use std::collections::BTreeSet;

use steadfast_store::{Complete, EntityId, Images, PageImage};
use steadfast_vfs::{PAGE_SIZE, Page, checksum, pack};

/// Maximum turns since the images.
const TURNS_MAX: i64 = 256;

/// Maximum bytes of turns since the images: a quarter of the database, between these bounds.
const BYTES_MIN: i64 = 64 << 10;
const BYTES_MAX: i64 = 4 << 20;

/// Bytes of images in one commit.
const CHUNK_BYTES: usize = 4 << 20;

/// Images in one commit.
const CHUNK_PAGES: usize = 2_000;

/// The changes since the last images.
#[derive(Debug, Default)]
pub(in crate::object) struct CheckpointTail {
    turns: i64,
    bytes: i64,
    /// Pages that changed since their last image.
    stale: BTreeSet<u32>,
    /// Pages up to here have images.
    base_pages: u32,
}

impl CheckpointTail {
    pub(in crate::object) fn new(
        turns: i64,
        bytes: i64,
        stale: BTreeSet<u32>,
        base_pages: u32,
    ) -> Self {
        Self { turns, bytes, stale, base_pages }
    }

    pub(in crate::object) fn add(&mut self, touched: &[u32], bytes: usize) {
        self.turns += 1;
        self.bytes += i64::try_from(bytes).unwrap_or(i64::MAX);
        self.stale.extend(touched);
    }

    pub(in crate::object) fn is_long(&self, pages: u32) -> bool {
        let quarter = i64::from(pages) * PAGE_SIZE as i64 / 4;
        TURNS_MAX <= self.turns || quarter.clamp(BYTES_MIN, BYTES_MAX) < self.bytes
    }

    /// Images of all changed pages, in chunks that fit a commit.
    pub(in crate::object) fn images<E>(
        &mut self,
        entity: EntityId,
        pages: u32,
        page: impl Fn(u32) -> Result<Option<Page>, E>,
    ) -> Result<Vec<Images>, E> {
        let mut stale = std::mem::take(&mut self.stale);
        // Every page has an image, even a page of zeros: this detects a missing one.
        stale.extend(self.base_pages + 1..=pages);
        self.base_pages = pages;
        let complete = Complete { pages, tail_bytes: self.bytes };
        (self.turns, self.bytes) = (0, 0);
        // A page that was removed has no image: the complete chunk removes the old one.
        let images = stale.into_iter().filter_map(|number| {
            let page = page(number).transpose()?;
            Some(page.map(|page| image(number, &page)))
        });
        parts(entity, images, complete)
    }
}

fn image(page: u32, data: &[u8; PAGE_SIZE]) -> PageImage {
    // The store sets the turn.
    PageImage { page, seq: 0, crc: checksum(data), data: pack(data).into() }
}

/// Chunks that each fit a commit; the last one marks the images as complete.
fn parts<E>(
    entity: EntityId,
    images: impl Iterator<Item = Result<PageImage, E>>,
    complete: Complete,
) -> Result<Vec<Images>, E> {
    let empty = |part: usize| {
        let part = i64::try_from(part).unwrap_or(i64::MAX);
        Images { entity, part, images: Vec::new(), complete: None }
    };
    let mut parts = vec![empty(0)];
    let mut bytes = 0;
    for image in images {
        let image = image?;
        bytes += image.data.len();
        if let Some(last) = parts.last_mut() {
            last.images.push(image);
            if CHUNK_BYTES < bytes || CHUNK_PAGES <= last.images.len() {
                bytes = 0;
                parts.push(empty(parts.len()));
            }
        }
    }
    if let Some(last) = parts.last_mut() {
        last.complete = Some(complete);
    }
    Ok(parts)
}
