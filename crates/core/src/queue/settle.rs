//! How decisions about letters become one commit.

use std::time::Duration;

use steadfast_store::{
    Commit, Entropy, Lease, Position, Receipt, SettledAs, Store, StoreError, Write,
};

use super::{QueueSettings, delivery::Verdict, meter::Happening, name::address, shelf::PutDown};
use crate::commit_each::commit_each;

/// A letter whose delivery ends.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) position: Position,
    /// Which attempt it was, from 1.
    pub(super) attempt: u32,
    pub(super) lease: Option<Lease>,
    pub(super) verdict: Verdict,
}

/// What is written for it, and what that means.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) position: Position,
    pub(super) write: Option<Write>,
    pub(super) happening: Happening,
    /// How long until it is due again, if it is.
    again: Option<Duration>,
}

impl Written {
    pub(super) fn put_down(&self, receipt: &Receipt) -> PutDown {
        self.again.map_or(PutDown::Gone, |it| PutDown::Again(receipt.at.after(it)))
    }
}

pub(super) fn write(ending: &Ending, settings: &QueueSettings, entropy: &dyn Entropy) -> Written {
    let Ending { position, attempt, lease, verdict } = ending;
    let (position, lease) = (*position, *lease);
    match verdict {
        Verdict::Already => {
            Written { position, write: None, happening: Happening::Done, again: None }
        }
        Verdict::Done => {
            let write = Write::Settle { position, lease, as_: SettledAs::Done, error: None };
            Written { position, write: Some(write), happening: Happening::Done, again: None }
        }
        Verdict::Retry { after, error } => {
            let wait = settings.retry().wait(*attempt, entropy);
            let Some(wait) = wait.map(|it| after.unwrap_or(it)) else {
                return give_up(position, lease, error, settings);
            };
            let write = Write::Retry { position, lease, error: error.clone(), after: wait };
            let (write, happening) = (Some(write), Happening::Retried);
            Written { position, write, happening, again: Some(wait) }
        }
        Verdict::Bury { why } => give_up(position, lease, why, settings),
    }
}

/// To its dead letters, or dead where it is; never away.
fn give_up(
    position: Position,
    lease: Option<Lease>,
    error: &str,
    settings: &QueueSettings,
) -> Written {
    let to = settings.dead_letter_queue.as_deref().and_then(|it| address(it).ok());
    let error = Some(error.to_owned());
    let write = match to {
        Some(to) => Write::Move { position, lease, to, error, after: Duration::ZERO },
        None => Write::Settle { position, lease, as_: SettledAs::Dead, error },
    };
    Written { position, write: Some(write), happening: Happening::Dead, again: None }
}

/// Commits all in one, or one by one if something is no longer as it was: what others have ended
/// meanwhile does not harm the rest. Each is answered with its receipt, if there is one.
pub(super) async fn commit(
    store: &dyn Store,
    all: &[Written],
) -> Result<Vec<Option<Receipt>>, StoreError> {
    let commits: Vec<Commit> =
        all.iter().filter_map(|it| it.write.clone()).map(Commit::of).collect();
    let mut receipts = commit_each(store, &commits).await?.into_iter();
    Ok(all.iter().map(|it| it.write.as_ref().and_then(|_| receipts.next().flatten())).collect())
}
