//! Putting an object together from what the store holds: images of its pages, and the turns that
//! they lack. Everything is checked; what does not fit is damage, and is said so.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_store::{self as store, Head, PageImage, RecordedTurn, Store};
use steadfast_vfs::{PAGE_SIZE, Page, apply_to, checksum, pages_after, touched, unpack};

use super::CallError;

/// No database has more pages: 16 GiB.
const PAGES_MAX: u32 = 1 << 22;

/// An object as the store holds it.
pub(super) struct Restored {
    pub(super) pages: Vec<Page>,
    /// Where it stands; `None` if it does not exist.
    pub(super) head: Option<Head>,
    /// Pages whose images are older than they are.
    pub(super) stale: BTreeSet<u32>,
    /// Bytes of the turns that the images lack.
    pub(super) tail_bytes: i64,
}

/// The checksum behind a turn, chained over all turns.
pub(super) fn chain(chk: u32, seq: i64, delta: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&chk.to_le_bytes());
    hasher.update(&seq.to_le_bytes());
    hasher.update(delta);
    hasher.finalize()
}

/// Reads an object. What is read in several steps may change between them, when history is swept:
/// then it is read again.
pub(super) async fn restore(
    store: &dyn Store,
    object: &store::Address,
) -> Result<Restored, CallError> {
    loop {
        let Some(head) = store.head(object.id()).await? else {
            let (pages, stale) = (Vec::new(), BTreeSet::new());
            return Ok(Restored { pages, head: None, stale, tail_bytes: 0 });
        };
        let images = store.images(object.id(), &[0..=u32::MAX]).await?;
        let lacking = usize::try_from(head.seq - head.base.seq).unwrap_or(0);
        let tail = match lacking {
            0 => Vec::new(),
            _ => store.turns_back(head.position, lacking).await?,
        };
        match assemble(&head, &images, &tail) {
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

/// Puts images and turns, newest first, together.
fn assemble(head: &Head, images: &[PageImage], tail: &[RecordedTurn]) -> Result<Restored, String> {
    let mut pages: Vec<Page> = Vec::new();
    let mut known: BTreeMap<u32, i64> = BTreeMap::new();
    for image in images {
        let page = unpack(&image.data).map_err(|error| format!("page {}: {error}", image.page))?;
        if checksum(&page) != image.crc {
            return Err(format!("the image of page {} has a wrong checksum", image.page));
        }
        if PAGES_MAX < image.page {
            return Err(format!("there is an image of page {}", image.page));
        }
        let index = image.page.checked_sub(1).ok_or("there is an image of page 0")? as usize;
        while pages.len() <= index {
            pages.push(zeros());
        }
        pages[index] = page;
        if head.seq < image.seq {
            return Err(format!("page {} is of a later turn", image.page));
        }
        known.insert(image.page, image.seq);
    }
    if let Some(page) = (1..=head.base.pages).find(|page| !known.contains_key(page)) {
        return Err(format!("the image of page {page} is missing"));
    }
    let mut stale = BTreeSet::new();
    let (mut seq, mut chk) = (head.base.seq, head.base.chk);
    let (mut length, mut tail_bytes) = (head.base.pages as usize, 0);
    for turn in tail.iter().rev() {
        seq += 1;
        chk = chain(chk, seq, &turn.delta);
        if turn.seq != seq || turn.chk != chk {
            return Err(format!("turn {seq} is missing or has a wrong checksum"));
        }
        tail_bytes += turn.delta.len() as i64;
        if turn.delta.is_empty() {
            continue;
        }
        length = pages_after(&turn.delta).map_err(|it| format!("turn {seq}: {it}"))? as usize;
        let wanted = |page: u32| known.get(&page).is_none_or(|it| *it < seq);
        apply_to(&mut pages, &turn.delta, wanted).map_err(|it| format!("turn {seq}: {it}"))?;
        let touched = touched(&turn.delta).map_err(|it| format!("turn {seq}: {it}"))?;
        stale.extend(touched.into_iter().filter(|page| wanted(*page)));
    }
    if (seq, chk) != (head.seq, head.chk) {
        return Err(format!("turns end at {seq}, expected was {}", head.seq));
    }
    // A page of zeros need not have been touched by any turn.
    pages.resize_with(length, zeros);
    Ok(Restored { pages, head: Some(*head), stale, tail_bytes })
}

fn zeros() -> Page {
    Page::new([0; PAGE_SIZE])
}
