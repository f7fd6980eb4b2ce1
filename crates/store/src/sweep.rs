//! Deletes old data that is not needed any more, at a cost that depends on the amount of such data.
//!
//! The sweep reads the messages once, in order, after a durable cursor. A message that is still
//! needed then is added to a list when it is not needed any more, as is an entity that ends by
//! itself. The sweep processes these lists as well, and nothing else.

use crate::{
    Commit, ExpiryList, Outcome, Query, Retention, Store, StoreError, Sweep, SweepList, Write,
};

/// Deletes data that is older than `retention` allows: settled messages, dead messages, the remains
/// of deleted objects and completed processes, and expired keys. Returns the number of deleted
/// messages. Pending messages stay, and so does the last message of each stream, which has its
/// version. Nothing is deleted while the clock is not reliable.
#[crate::boxed]
pub async fn sweep(store: &dyn Store, retention: Retention) -> Result<usize, StoreError> {
    let Some(now) = store.clock().deletion_time() else { return Ok(0) };
    let (old, dead_until) = (now.before(retention.keep), now.before(retention.keep_dead));
    let mut forgotten = 0;
    for (list, until) in [
        (SweepList::Messages, old),
        (SweepList::Listed(ExpiryList::Late), old),
        (SweepList::Listed(ExpiryList::Dead), dead_until),
        (SweepList::Listed(ExpiryList::Ended), old),
        (SweepList::Keys, now),
    ] {
        let step = Sweep { list, until, dead_until };
        // A sweep that finds nothing commits nothing.
        let mut more = !store.read(Query::candidates(step, 1)).await?.is_empty();
        while more {
            let Outcome::Committed(done) = store.commit(Commit::of(Write::Sweep(step))).await?
            else {
                return Err(StoreError::corrupt("a step of a sweep was rejected"));
            };
            forgotten += done.forgotten;
            more = done.more;
        }
    }
    Ok(forgotten)
}
