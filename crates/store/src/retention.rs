//! Forgetting what is old and no longer needed, at a cost that depends on what is to be forgotten.
//!
//! The sweep walks the messages once, in order, behind a durable cursor. What it passes because it
//! is still needed comes into a list when it is not needed any more, as does what ends by itself:
//! those lists are all that is looked at again.

use std::time::Duration;

use futures_util::future::try_join_all;

use crate::{Commit, EntityId, Outcome, Position, Receipt, Store, StoreError, Timestamp, Write};

/// How long messages are kept once nothing is to be done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age from which a message may go, and the time after which what has ended may: objects
    /// that were deleted and processes that are complete.
    pub keep: Duration,
    /// How long a message that was given up is kept.
    pub keep_dead: Duration,
}

impl Retention {
    /// A month, and three for what was given up.
    pub const DEFAULT: Retention =
        Retention { keep: Duration::from_hours(30 * 24), keep_dead: Duration::from_hours(90 * 24) };
}

/// Which list of what the sweep is to look at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExpiryList {
    /// Messages that were given up.
    Dead,
    /// Entities that have ended, or that were only addressed so far.
    Ended,
    /// Messages that the sweep has passed and that are not needed since.
    Late,
}

impl ExpiryList {
    /// How it is stored.
    pub(crate) fn tag(self) -> &'static str {
        match self {
            ExpiryList::Dead => "dead",
            ExpiryList::Late => "late",
            ExpiryList::Ended => "ended",
        }
    }

    pub(crate) fn from_tag(tag: &str) -> Option<Self> {
        [Self::Dead, Self::Late, Self::Ended].into_iter().find(|it| it.tag() == tag)
    }
}

/// Something that the sweep is to look at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expiring {
    /// In which list.
    pub list: ExpiryList,
    /// Since when.
    pub since: Timestamp,
    /// Which message; 0: none.
    pub position: Position,
    /// Which entity; all zeros: none.
    pub entity: EntityId,
}

/// The name of a remembered key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName {
    /// Whose key.
    pub scope: EntityId,
    /// The key.
    pub key: Box<str>,
}

/// Rows looked at in one commit: a sweep must never hold up others for long.
const PAGE: usize = 500;

/// Entities erased at the same time.
const ERASED_AT_ONCE: usize = 8;

/// Forgets what is older than `retention` allows: messages that nothing needs, messages that were
/// given up, what is left of objects that were deleted and of processes that are complete, and keys
/// whose time is over. Returns how many messages went. What is pending stays, and so does the last
/// message of each stream, which holds its version. Nothing goes while the clock cannot be trusted.
pub async fn sweep(store: &dyn Store, retention: Retention) -> Result<usize, StoreError> {
    let Some(now) = store.clock().deletion_time() else { return Ok(0) };
    let (old, dead) = (now.before(retention.keep), now.before(retention.keep_dead));
    let mut forgotten = sweep_log(store, old).await?;
    forgotten += sweep_list(store, ExpiryList::Late, old).await?;
    forgotten += sweep_list(store, ExpiryList::Dead, dead).await?;
    forgotten += sweep_ended(store, old, dead).await?;
    expire_keys(store, now).await?;
    Ok(forgotten)
}

/// Walks on from where the last sweep ended.
async fn sweep_log(store: &dyn Store, until: Timestamp) -> Result<usize, StoreError> {
    let mut forgotten = 0;
    loop {
        let page = store.unswept(PAGE).await?;
        let old = page.iter().take_while(|(_, at)| *at < until).map(|(position, _)| *position);
        let positions: Vec<Position> = old.collect();
        let Some(to) = positions.last().copied() else { return Ok(forgotten) };
        let seen = positions.len();
        // What is still needed stays, as it is found then and not as it was before.
        let commit = Commit::of(Write::Forget { positions }).write(Write::Swept { to });
        forgotten += committed(store, commit).await?.forgotten;
        if seen < PAGE {
            return Ok(forgotten);
        }
    }
}

async fn sweep_list(
    store: &dyn Store,
    list: ExpiryList,
    until: Timestamp,
) -> Result<usize, StoreError> {
    let mut forgotten = 0;
    loop {
        let rows = store.expiring(list, until, PAGE).await?;
        if rows.is_empty() {
            return Ok(forgotten);
        }
        let positions = rows.iter().map(|it| it.position).collect();
        let forget = match list {
            ExpiryList::Dead => Write::ForgetDead { positions, until },
            ExpiryList::Late | ExpiryList::Ended => Write::Forget { positions },
        };
        // What stays comes into a list again when it is not needed any more.
        let commit = Commit::of(forget).write(Write::Looked { rows, again: false });
        forgotten += committed(store, commit).await?.forgotten;
    }
}

async fn sweep_ended(
    store: &dyn Store,
    until: Timestamp,
    dead_until: Timestamp,
) -> Result<usize, StoreError> {
    let mut forgotten = 0;
    loop {
        let rows = store.expiring(ExpiryList::Ended, until, ERASED_AT_ONCE).await?;
        if rows.is_empty() {
            return Ok(forgotten);
        }
        let erased = rows.iter().map(|it| erase_ended(store, it.entity, until, dead_until));
        let erased = try_join_all(erased).await?;
        forgotten += erased.iter().flatten().sum::<usize>();
        // Where something is still to be done, another time.
        let (again, gone): (Vec<_>, Vec<_>) =
            rows.into_iter().zip(&erased).partition(|(_, erased)| erased.is_none());
        let looked = |rows: Vec<(Expiring, _)>, again| {
            let rows = rows.into_iter().map(|(row, _): (Expiring, &Option<usize>)| row).collect();
            Write::Looked { rows, again }
        };
        let commit = Commit::of(looked(gone, false)).write(looked(again, true));
        committed(store, commit).await?;
    }
}

/// How many messages went, or `None` if something is still to be done for it.
async fn erase_ended(
    store: &dyn Store,
    entity: EntityId,
    until: Timestamp,
    dead_until: Timestamp,
) -> Result<Option<usize>, StoreError> {
    let mut forgotten = 0;
    loop {
        let erase = Write::EraseEnded { entity, until, dead_until };
        match store.commit(Commit::of(erase)).await? {
            Outcome::Committed(it) => {
                forgotten += it.forgotten;
                // A long record goes in parts.
                if it.erased || it.forgotten == 0 {
                    return Ok(Some(forgotten));
                }
            }
            Outcome::Duplicate(_) | Outcome::Rejected(_) => return Ok(None),
        }
    }
}

async fn expire_keys(store: &dyn Store, now: Timestamp) -> Result<(), StoreError> {
    loop {
        let keys = store.expired_keys(now, PAGE).await?;
        let is_last = keys.len() < PAGE;
        if !keys.is_empty() {
            committed(store, Commit::of(Write::ExpireKeys { keys })).await?;
        }
        if is_last {
            return Ok(());
        }
    }
}

/// A commit that expects nothing is not rejected.
async fn committed(store: &dyn Store, commit: Commit) -> Result<Receipt, StoreError> {
    match store.commit(commit).await? {
        Outcome::Committed(receipt) => Ok(receipt),
        Outcome::Duplicate(_) | Outcome::Rejected(_) => Ok(Receipt::default()),
    }
}
