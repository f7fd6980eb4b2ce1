//! Deletes old data that is not needed any more, at a cost that depends on the amount of such data.
//!
//! The sweep reads the messages once, in order, after a durable cursor. A message that is still
//! needed then is added to a list when it is not needed any more, as is an entity that ends by
//! itself. The sweep processes these lists as well, and nothing else.

use crate::{
    Commit, EntityId, ExpiryList, ExpiryRow, Outcome, Position, Receipt, Retention, Store,
    StoreError, Timestamp, Write, futures::try_join_all,
};

/// Rows processed in one commit: a sweep must not block others for long.
const PAGE: usize = 500;

/// Entities deleted concurrently.
const ERASED_AT_ONCE: usize = 8;

/// Deletes data that is older than `retention` allows: settled messages, dead messages, the remains
/// of deleted objects and completed processes, and expired keys. Returns the number of deleted
/// messages. Pending messages stay, and so does the last message of each stream, which has its
/// version. Nothing is deleted while the clock is not reliable.
#[crate::boxed]
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

/// Continues where the last sweep ended.
async fn sweep_log(store: &dyn Store, until: Timestamp) -> Result<usize, StoreError> {
    let mut forgotten = 0;
    loop {
        let page = store.unswept(PAGE).await?;
        let old = page.iter().take_while(|(_, at)| *at < until).map(|(position, _)| *position);
        let positions: Vec<Position> = old.collect();
        let Some(to) = positions.last().copied() else { return Ok(forgotten) };
        let seen = positions.len();
        // A message that is needed when this commits stays.
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
        // A row that stays is added to a list again when it is not needed any more.
        let commit = Commit::of(forget).write(Write::Processed { rows, again: false });
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
        // Entities with pending work are processed later.
        let (again, gone): (Vec<_>, Vec<_>) =
            rows.into_iter().zip(&erased).partition(|(_, erased)| erased.is_none());
        let processed = |rows: Vec<(ExpiryRow, _)>, again| {
            let rows = rows.into_iter().map(|(row, _): (ExpiryRow, &Option<usize>)| row).collect();
            Write::Processed { rows, again }
        };
        let commit = Commit::of(processed(gone, false)).write(processed(again, true));
        committed(store, commit).await?;
    }
}

/// The number of deleted messages, or `None` if the entity has pending work.
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
                // A long record is deleted in parts.
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
        if keys.is_empty() {
            return Ok(());
        }
        let expired = committed(store, Commit::of(Write::ExpireKeys { keys })).await?;
        // Keys that the clock has brought back to life meanwhile stay.
        if is_last || expired.forgotten == 0 {
            return Ok(());
        }
    }
}

/// A commit without expectations is not rejected.
async fn committed(store: &dyn Store, commit: Commit) -> Result<Receipt, StoreError> {
    match store.commit(commit).await? {
        Outcome::Committed(receipt) => Ok(receipt),
        Outcome::Duplicate(_) | Outcome::Rejected(_) => Ok(Receipt::default()),
    }
}
