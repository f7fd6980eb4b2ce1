//! Forgetting what is old and no longer needed.

use std::time::Duration;

use crate::{Commit, Outcome, Position, Store, StoreError, Write};

/// How long messages are kept once nothing is to be done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The age from which a message may go.
    pub keep: Duration,
}

impl Retention {
    /// A month.
    pub const DEFAULT: Retention = Retention { keep: Duration::from_hours(30 * 24) };
}

/// Messages looked at in one commit: a sweep must never hold up others for long.
const PAGE: usize = 500;

/// Forgets messages older than `retention` allows, and keys whose time is over; returns how many
/// messages went. What is pending or dead stays, and so does the last message of each stream, which
/// holds its version. Nothing goes while the clock cannot be trusted.
pub async fn sweep(store: &dyn Store, retention: Retention) -> Result<usize, StoreError> {
    let Some(now) = store.clock().deletion_time() else { return Ok(0) };
    let mut forgotten = 0;
    let mut after: Position = 0;
    loop {
        let page = store.forgettable(after, PAGE).await?;
        let old = page.iter().take_while(|(_, at, _)| at.after(retention.keep) < now);
        let seen = old.clone().count();
        let positions: Vec<Position> = old.filter(|it| it.2).map(|it| it.0).collect();
        if !positions.is_empty() {
            let outcome = store.commit(Commit::of(Write::Forget { positions })).await?;
            if let Outcome::Committed(receipt) = outcome {
                forgotten += receipt.forgotten;
            }
        }
        match page.last() {
            Some((last, ..)) if seen == PAGE => after = *last,
            _ => break,
        }
    }
    store.commit(Commit::of(Write::ExpireKeys)).await?;
    Ok(forgotten)
}
