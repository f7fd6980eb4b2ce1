//! Past states: an object after an earlier turn, and the retention of turns.

use std::{collections::BTreeSet, time::Duration};

use rusqlite::Connection;
use steadfast_store::{
    self as store, Commit, EntityId, Expect, Outcome, Position, Store, StoreError, Write,
};
use steadfast_vfs::{Image, Limits, PAGE_SIZE, Page, revert};

use super::{
    CallError,
    storage::{CheckpointTail, Extent, chain, restore},
};
use crate::places::Place;

/// Turns read at once on the way back. One may have 16 MiB.
const PAGE: usize = 32;

/// Turns deleted in one commit of a sweep.
const SWEEP: usize = 500;

/// Why a past state cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HistoryError {
    /// It has no such turn.
    #[error("`{object}` has no turn {turn}; its last is {last}")]
    NoTurn {
        /// The object.
        object: String,
        /// The requested turn.
        turn: i64,
        /// The last turn; 0 if it does not exist.
        last: i64,
    },
    /// The turn was deleted by retention.
    #[error("turn {turn} of `{object}` was deleted by retention; the oldest available is {oldest}")]
    Forgotten {
        /// The object.
        object: String,
        /// The requested turn.
        turn: i64,
        /// The oldest turn whose state can be read.
        oldest: i64,
    },
    /// It cannot be read.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl From<StoreError> for HistoryError {
    fn from(error: StoreError) -> Self {
        CallError::from(error).into()
    }
}

/// A past state of an object.
pub struct Past {
    /// The turn after which it was taken.
    pub turn: i64,
    pages: Vec<Page>,
    /// Its place, if past states in memory are bounded.
    place: Option<Place>,
}

impl Past {
    /// Its database. Writes to it are not stored.
    pub fn open(self) -> rusqlite::Result<Connection> {
        Image::new(self.pages, Limits::default()).connect()
    }

    /// The state before the first turn: empty.
    pub(super) fn nothing() -> Self {
        Self { turn: 0, pages: Vec::new(), place: None }
    }

    /// Its size in bytes.
    pub fn bytes_len(&self) -> usize {
        self.pages.len() * PAGE_SIZE
    }

    /// The bytes of its pages, one after the other: an ordinary SQLite file.
    pub fn into_pages(self) -> impl Iterator<Item = Page> + Send {
        let place = self.place;
        self.pages.into_iter().inspect(move |_| {
            let _ = &place;
        })
    }

    /// Holds a place until the last of its pages is dropped.
    pub(super) fn held(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// An ordinary SQLite file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes_len());
        self.pages.iter().for_each(|page| bytes.extend_from_slice(page.as_slice()));
        bytes
    }
}

/// An object after a turn; without a turn, its current state. It is read from the store, so only
/// durable state is visible.
#[steadfast_store::boxed]
pub async fn pages_at(
    store: &dyn Store,
    object: &store::Address,
    turn: Option<i64>,
) -> Result<Past, HistoryError> {
    let restored = restore(store, object, Extent::Whole).await?;
    let last = restored.head.map_or(0, |it| it.seq);
    let wanted = turn.unwrap_or(last);
    let name = || object.to_string();
    let Some(head) = restored.head.filter(|_| (1..=last).contains(&wanted)) else {
        return Err(HistoryError::NoTurn { object: name(), turn: wanted, last });
    };
    let mut pages: Vec<Page> = restored.pages.into_iter().flatten().collect();
    let (mut seq, mut chk, mut position) = (head.seq, head.chk, head.position);
    while wanted < seq {
        let turns = store.turns_back(position, PAGE).await?;
        if turns.is_empty() {
            return Err(HistoryError::Forgotten { object: name(), turn: wanted, oldest: seq });
        }
        // The checksum of a turn is chained to that of the one before, which is read as well.
        for (index, it) in turns.iter().enumerate() {
            if seq == wanted {
                break;
            }
            let before = turns.get(index + 1);
            let fits = it.seq == seq
                && it.chk == chk
                && before.is_none_or(|before| chain(before.chk, seq, &it.delta) == chk);
            let undone = if it.delta.is_empty() { Ok(()) } else { revert(&mut pages, &it.delta) };
            if let (false, _) | (_, Err(_)) = (fits, &undone) {
                let detail = match undone {
                    Err(error) => format!("turn {seq}: {error}"),
                    Ok(()) => format!("turn {seq} has a wrong checksum"),
                };
                return Err(CallError::Corrupt { object: name(), detail }.into());
            }
            (seq, position) = (seq - 1, it.prev);
            match before {
                Some(before) => chk = before.chk,
                // The others are read with the next page.
                None if wanted < seq => match store.turns_back(position, 1).await?.first() {
                    Some(before) => chk = before.chk,
                    None => {
                        let object = name();
                        return Err(HistoryError::Forgotten { object, turn: wanted, oldest: seq });
                    }
                },
                None => {}
            }
        }
    }
    Ok(Past { turn: wanted, pages, place: None })
}

/// The retention of turns that page images already contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRetention {
    /// Minimum age of a turn that may be deleted.
    pub keep: Duration,
    /// Maximum bytes of turns for one object; beyond it the oldest are deleted.
    pub bytes_max: u64,
}

impl HistoryRetention {
    /// A week, and a gigabyte for one object.
    pub const DEFAULT: HistoryRetention =
        HistoryRetention { keep: Duration::from_hours(7 * 24), bytes_max: 1 << 30 };
}

/// Deletes turns that are older than `retention` allows, and returns their number. Turns that a
/// load needs stay: images are written before they are deleted.
#[steadfast_store::boxed]
pub async fn sweep_history(
    store: &dyn Store,
    retention: HistoryRetention,
) -> Result<usize, StoreError> {
    let mut forgotten = sweep_by_age(store, retention.keep).await?;
    let over = i64::try_from(retention.bytes_max).unwrap_or(i64::MAX);
    let mut after = 0;
    loop {
        let heads = store.heads(over, after, 100).await?;
        let Some(last) = heads.last() else { return Ok(forgotten) };
        after = last.base.number;
        for head in &heads {
            compact(store, head.base.entity).await?;
            forgotten += sweep_by_bytes(store, head.base.entity, over).await?;
        }
    }
}

async fn sweep_by_age(store: &dyn Store, keep: Duration) -> Result<usize, StoreError> {
    let Some(now) = store.clock().deletion_time() else { return Ok(0) };
    let mut forgotten = 0;
    let mut after = 0;
    loop {
        let page = store.old_turns(after, SWEEP).await?;
        let old = page.iter().take_while(|it| it.at.after(keep) < now);
        let seen = old.clone().count();
        let needed: BTreeSet<EntityId> =
            old.clone().filter(|it| !it.is_history).map(|it| it.entity).collect();
        for entity in needed {
            compact(store, entity).await?;
        }
        forgotten += forget(store, old.map(|it| it.position).collect()).await?;
        match page.last() {
            Some(last) if seen == SWEEP => after = last.position,
            _ => return Ok(forgotten),
        }
    }
}

async fn sweep_by_bytes(
    store: &dyn Store,
    entity: EntityId,
    max: i64,
) -> Result<usize, StoreError> {
    let Some(head) = store.head(entity).await? else { return Ok(0) };
    // All turns are read, so delete an eighth at once instead of a little each time.
    let max = max - max / 8;
    let (mut position, mut kept, mut forgotten) = (head.position, 0, 0);
    loop {
        let turns = store.turn_summaries(position, SWEEP).await?;
        let Some(last) = turns.last() else { return Ok(forgotten) };
        position = last.prev;
        let beyond = turns.iter().filter(|turn| {
            kept += turn.bytes;
            max < kept
        });
        forgotten += forget(store, beyond.map(|turn| turn.position).collect()).await?;
    }
}

async fn forget(store: &dyn Store, positions: Vec<Position>) -> Result<usize, StoreError> {
    if positions.is_empty() {
        return Ok(0);
    }
    match store.commit(Commit::of(Write::ForgetTurns { positions })).await? {
        Outcome::Committed(receipt) => Ok(receipt.forgotten),
        Outcome::Duplicate(_) | Outcome::Rejected(_) => Ok(0),
    }
}

/// Writes images of the pages that the turns of an object changed, so that a load does not need
/// those turns. An object that changes meanwhile is skipped: it writes images itself.
async fn compact(store: &dyn Store, entity: EntityId) -> Result<(), StoreError> {
    let addresses = store.addresses(&[entity]).await?;
    let Some(object) = addresses.get(&entity) else { return Ok(()) };
    let restored = match restore(store, object, Extent::Needed).await {
        Ok(restored) => restored,
        Err(CallError::Store(error)) => return Err(error),
        // The damage was reported; the turns stay.
        Err(_) => return Ok(()),
    };
    let Some(head) = restored.head.filter(|it| it.base.seq < it.seq) else { return Ok(()) };
    let length = u32::try_from(restored.pages.len()).unwrap_or(u32::MAX);
    let page = |number: u32| match restored.pages.get(number as usize - 1) {
        Some(Some(page)) => Ok(Some(page.clone())),
        Some(None) => Err(StoreError::Corrupt { reason: format!("page {number} was not read") }),
        None => Ok(None),
    };
    let turns = head.seq - head.base.seq;
    let mut tail = CheckpointTail::new(turns, restored.tail_bytes, restored.stale, head.base.pages);
    for part in tail.images(entity, length, page)? {
        let expect = Expect::Head { entity, seq: head.seq, chk: head.chk };
        store.commit(Commit::of(Write::Images(part)).expect(expect)).await?;
    }
    Ok(())
}
