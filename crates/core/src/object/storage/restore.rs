//! Loads an object from the store: images of its pages, and the turns since. Everything is checked;
//! a mismatch is reported as damage.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use steadfast_store::{self as store, Head, PageImage, RecordedTurn, Store};
use steadfast_vfs::{PAGE_SIZE, Page, apply_to, checksum, pages_after, touched, unpack};

use crate::object::CallError;

/// A database of at most this many pages is read whole.
const SMALL: u32 = 64;

/// Pages of a larger one that are read at once when one of them is needed.
const GROUP: u32 = 16;

/// An object as it was loaded.
pub(in crate::object) struct Restored {
    /// `None` for a page that was not read. No turn since the images has changed it, so its image
    /// is current.
    pub(in crate::object) pages: Vec<Option<Page>>,
    /// Its head; `None` if it does not exist.
    pub(in crate::object) head: Option<Head>,
    /// Pages that turns have changed since their images. They were read.
    pub(in crate::object) stale: BTreeSet<u32>,
    /// Bytes of the turns since the images.
    pub(in crate::object) tail_bytes: i64,
}

/// The extent of a read of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::object) enum Extent {
    /// All pages.
    Whole,
    /// The first ones, and those that turns have changed since the images; all of a small one.
    Needed,
}

/// The checksum of a turn, chained over all turns.
pub(in crate::object) fn chain(chk: u32, seq: i64, delta: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chk.to_le_bytes());
    hasher.update(&seq.to_le_bytes());
    hasher.update(delta);
    hasher.finalize()
}

/// Reads an object. A sweep may change it between the reads: then it is read again.
pub(in crate::object) async fn restore(
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
pub(in crate::object) fn open(image: &PageImage) -> Result<Page, String> {
    let page = unpack(&image.data).map_err(|error| format!("page {}: {error}", image.page))?;
    if checksum(&page) != image.crc {
        return Err(format!("the image of page {} has a wrong checksum", image.page));
    }
    Ok(page)
}
