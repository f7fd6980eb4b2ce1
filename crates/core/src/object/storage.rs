//! Objects in the store. An object is loaded from images of its pages and the turns since;
//! everything is checked, and a mismatch is reported as damage. Nothing here runs a turn.
//!
//! Pages that were not loaded with their object are read when a turn needs them. Such a page has an
//! image that is current, and no other one is written while the page is not in memory: images are
//! written of pages that turns have changed since the last ones, and a turn that changes a page
//! reads it first. This holds for images that the object writes and for those of a concurrent
//! sweep. Its image is therefore not newer than the base that the object was loaded with; a newer
//! one shows that another owner has changed the object.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    slice::from_ref,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use steadfast_store::{
    self as store, Base, Complete, EntityId, Head, Images, PageImage, RecordedTurn, Store,
    StoreError,
};
use steadfast_vfs::{
    PAGE_SIZE, Page, Source, apply_to, checksum, pack, pages_after, touched, unpack,
};
use tokio::runtime::Handle as Tokio;

use super::CallError;

/// A database of at most this many pages is read whole.
const SMALL: u32 = 64;

/// Pages of a larger one that are read at once when one of them is needed.
const GROUP: u32 = 16;

/// An object as it was loaded.
pub(super) struct Restored {
    /// `None` for a page that was not read. No turn since the images has changed it, so its image
    /// is current.
    pub(super) pages: Vec<Option<Page>>,
    /// Its head; `None` if it does not exist.
    pub(super) head: Option<Head>,
    /// Pages that turns have changed since their images. They were read.
    pub(super) stale: BTreeSet<u32>,
    /// Bytes of the turns since the images.
    pub(super) tail_bytes: i64,
}

/// The extent of a read of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All pages.
    Whole,
    /// The first ones, and those that turns have changed since the images; all of a small one.
    Needed,
}

/// The checksum of a turn, chained over all turns.
pub(super) fn chain(chk: u32, seq: i64, delta: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chk.to_le_bytes());
    hasher.update(&seq.to_le_bytes());
    hasher.update(delta);
    hasher.finalize()
}

/// Reads an object. A sweep may change it between the reads: then it is read again.
pub(super) async fn restore(
    store: &dyn Store,
    object: &store::Address,
    extent: Extent,
) -> Result<Restored, CallError> {
    loop {
        let Some(head) = store.head(object.id()).await? else {
            let (pages, stale) = (Vec::new(), BTreeSet::new());
            return Ok(Restored { pages, head: None, stale, tail_bytes: 0 });
        };
        let lacking = usize::try_from(head.seq - head.base.seq).unwrap_or(0);
        let turns = match lacking {
            0 => Vec::new(),
            _ => store.turns_back(head.position, lacking).await?,
        };
        let restored = match Turns::check(&head, &turns) {
            Ok(turns) => {
                let wanted = turns.wanted(extent);
                let images = match wanted.is_empty() {
                    true => Vec::new(),
                    false => store.images(object.id(), &wanted).await?,
                };
                turns.assemble(&images, &wanted)
            }
            Err(detail) => Err(detail),
        };
        match restored {
            Ok(restored) => return Ok(restored),
            Err(_) if store.head(object.id()).await? != Some(head) => {}
            Err(detail) => {
                let object = object.to_string();
                tracing::error!(object, error = %detail, "object is damaged and out of service");
                return Err(CallError::Corrupt { object, detail });
            }
        }
    }
}

/// The turns since the images: a chain without a gap from them to the head.
struct Turns<'a> {
    head: &'a Head,
    /// The oldest first, without those that changed no page; with the numbers of the pages they
    /// changed.
    turns: Vec<(&'a RecordedTurn, Vec<u32>)>,
    bytes: i64,
    /// The number of pages after them.
    length: usize,
}

impl<'a> Turns<'a> {
    /// `tail` has the newest first.
    fn check(head: &'a Head, tail: &'a [RecordedTurn]) -> Result<Self, String> {
        let (mut seq, mut chk) = (head.base.seq, head.base.chk);
        let (mut turns, mut bytes) = (Vec::new(), 0);
        let mut length = head.base.pages as usize;
        for turn in tail.iter().rev() {
            seq += 1;
            chk = chain(chk, seq, &turn.delta);
            if turn.seq != seq || turn.chk != chk {
                return Err(format!("turn {seq} is missing or has a wrong checksum"));
            }
            bytes += turn.delta.len() as i64;
            if !turn.delta.is_empty() {
                let wrong = |error| format!("turn {seq}: {error}");
                length = pages_after(&turn.delta).map_err(wrong)? as usize;
                turns.push((turn, touched(&turn.delta).map_err(wrong)?));
            }
        }
        if (seq, chk) != (head.seq, head.chk) {
            return Err(format!("turns end at {seq}, expected {}", head.seq));
        }
        Ok(Self { head, turns, bytes, length })
    }

    /// The pages whose images must be read: some turns apply to them, and SQLite begins with the
    /// first. Beyond the base a page begins as zeros and needs no image.
    fn wanted(&self, extent: Extent) -> Vec<RangeInclusive<u32>> {
        let pages = self.head.base.pages;
        let whole = if pages == 0 { Vec::new() } else { vec![1..=pages] };
        if extent == Extent::Whole || pages <= SMALL {
            return whole;
        }
        let touched = self.turns.iter().flat_map(|(_, touched)| touched).copied();
        let numbers = touched.filter(|it| (1..=pages).contains(it)).chain([1]);
        let groups: BTreeSet<u32> = numbers.map(|it| (it - 1) / GROUP).collect();
        if pages / 2 < groups.len() as u32 * GROUP {
            return whole;
        }
        let mut wanted: Vec<RangeInclusive<u32>> = Vec::new();
        for group in groups {
            let (first, last) = (group * GROUP + 1, ((group + 1) * GROUP).min(pages));
            match wanted.last_mut() {
                Some(before) if *before.end() + 1 == first => *before = *before.start()..=last,
                _ => wanted.push(first..=last),
            }
        }
        wanted
    }

    /// Applies the turns to the images.
    fn assemble(
        &self,
        images: &[PageImage],
        wanted: &[RangeInclusive<u32>],
    ) -> Result<Restored, String> {
        let head = self.head;
        let zeros = Page::new([0; PAGE_SIZE]);
        let mut pages = vec![zeros.clone(); head.base.pages as usize];
        let mut known: BTreeMap<u32, i64> = BTreeMap::new();
        for image in images {
            let number = image.page;
            let index = number.checked_sub(1).map_or(usize::MAX, |it| it as usize);
            let place = pages.get_mut(index);
            *place.ok_or_else(|| format!("there is an image of page {number}"))? = open(image)?;
            if head.seq < image.seq {
                return Err(format!("page {number} is of a later turn"));
            }
            known.insert(number, image.seq);
        }
        if let Some(page) = wanted.iter().cloned().flatten().find(|it| !known.contains_key(it)) {
            return Err(format!("the image of page {page} is missing"));
        }
        let mut stale = BTreeSet::new();
        for (turn, touched) in &self.turns {
            let seq = turn.seq;
            let lacks = |page: u32| known.get(&page).is_none_or(|it| *it < seq);
            apply_to(&mut pages, &turn.delta, lacks).map_err(|it| format!("turn {seq}: {it}"))?;
            stale.extend(touched.iter().copied().filter(|page| lacks(*page)));
        }
        // No turn need have changed a page of zeros.
        pages.resize(self.length, zeros);
        let is_there = |number: u32| head.base.pages < number || known.contains_key(&number);
        let pages = (1..).zip(pages).map(|(number, page)| is_there(number).then_some(page));
        let (pages, head) = (pages.collect(), Some(*head));
        Ok(Restored { pages, head, stale, tail_bytes: self.bytes })
    }
}

/// The page of an image, checked.
pub(super) fn open(image: &PageImage) -> Result<Page, String> {
    let page = unpack(&image.data).map_err(|error| format!("page {}: {error}", image.page))?;
    if checksum(&page) != image.crc {
        return Err(format!("the image of page {} has a wrong checksum", image.page));
    }
    Ok(page)
}

/// Maximum wait of a turn for a page: the turn blocks its thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads the pages of an object that are not in memory.
pub(super) struct StoredPages {
    store: Arc<dyn Store>,
    tokio: Tokio,
    object: store::Address,
    /// The base of the images when the object was loaded.
    base: Base,
    fault: Mutex<Option<CallError>>,
}

impl StoredPages {
    /// `None` if all pages of an object are in memory.
    pub(super) fn of(
        store: &Arc<dyn Store>,
        tokio: &Tokio,
        object: &store::Address,
        restored: &Restored,
    ) -> Option<Arc<Self>> {
        let head = restored.head.filter(|_| restored.pages.iter().any(Option::is_none))?;
        let (store, tokio) = (store.clone(), tokio.clone());
        let (object, base, fault) = (object.clone(), head.base, Mutex::default());
        Some(Arc::new(Self { store, tokio, object, base, fault }))
    }

    /// Why a page could not be read, if one could not.
    pub(super) fn fault(&self) -> Option<CallError> {
        self.fault.lock().clone()
    }

    async fn read(&self, pages: RangeInclusive<u32>) -> Result<Vec<Page>, CallError> {
        let images = self.store.images(self.object.id(), from_ref(&pages)).await?;
        let detail = match self.check(&images, pages) {
            Ok(pages) => return Ok(pages),
            Err(detail) => detail,
        };
        let object = self.object.to_string();
        let newest = images.iter().map(|it| it.seq).max().unwrap_or(0);
        let is_ours = |head: store::Head| {
            head.base.number == self.base.number && (newest <= self.base.seq || head.seq < newest)
        };
        if self.store.head(self.object.id()).await?.is_some_and(is_ours) {
            tracing::error!(object, error = %detail, "object is damaged and out of service");
            return Err(CallError::Corrupt { object, detail });
        }
        Err(CallError::Lost { object, detail: format!("another owner changed it ({detail})") })
    }

    fn check(&self, images: &[PageImage], pages: RangeInclusive<u32>) -> Result<Vec<Page>, String> {
        let mut images = images.iter();
        let next = |number: u32| {
            let image = images.next().filter(|it| it.page == number);
            let image = image.ok_or_else(|| format!("the image of page {number} is missing"))?;
            if self.base.seq < image.seq {
                return Err(format!("page {number} is of a later turn"));
            }
            open(image)
        };
        pages.map(next).collect()
    }
}

impl Source for StoredPages {
    fn load(&self, pages: RangeInclusive<u32>) -> Result<Vec<Page>, String> {
        // Threads that run turns may block. A thread that runs async tasks may not, and never calls
        // this.
        let read = match Tokio::try_current() {
            Err(_) => self.tokio.block_on(async {
                let read = tokio::time::timeout(PATIENCE, self.read(pages)).await;
                let late = || StoreError::Unavailable { reason: "it does not answer".into() };
                read.unwrap_or_else(|_| Err(late().into()))
            }),
            Ok(_) => {
                Err(StoreError::Unavailable { reason: "read on an async thread".into() }.into())
            }
        };
        read.map_err(|error: CallError| {
            let text = error.to_string();
            self.fault.lock().get_or_insert(error);
            text
        })
    }
}

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
pub(super) struct CheckpointTail {
    turns: i64,
    bytes: i64,
    /// Pages that changed since their last image.
    stale: BTreeSet<u32>,
    /// Pages up to here have images.
    base_pages: u32,
}

impl CheckpointTail {
    pub(super) fn new(turns: i64, bytes: i64, stale: BTreeSet<u32>, base_pages: u32) -> Self {
        Self { turns, bytes, stale, base_pages }
    }

    pub(super) fn add(&mut self, touched: &[u32], bytes: usize) {
        self.turns += 1;
        self.bytes += i64::try_from(bytes).unwrap_or(i64::MAX);
        self.stale.extend(touched);
    }

    pub(super) fn is_long(&self, pages: u32) -> bool {
        let quarter = i64::from(pages) * PAGE_SIZE as i64 / 4;
        TURNS_MAX <= self.turns || quarter.clamp(BYTES_MIN, BYTES_MAX) < self.bytes
    }

    /// Images of all changed pages, in chunks that fit a commit.
    pub(super) fn images<E>(
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
