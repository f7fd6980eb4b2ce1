//! Makes a message that was given up pending again.

use steadfast_store::{
    Code, Commit, Expect, Outcome, Position, Recorded, Rejection, SettledAs, Settlement, State,
    Store, StoreError, Write,
};

use crate::{KeyError, RequestKey};

/// Makes a dead or cancelled message pending again, with new attempts. A key is recorded in the
/// same commit. Returns `false` if it was used before: then nothing is changed.
pub async fn revive(
    store: &dyn Store,
    message: &Recorded,
    key: Option<RequestKey>,
) -> Result<bool, ReviveError> {
    match (revive_once(store, message, key.as_ref()).await, key) {
        // Another request with this key may have been first.
        (Err(error @ (ReviveError::State { .. } | ReviveError::Rejected(_))), Some(key)) => {
            key.find(store).await?.map(|_| false).ok_or(error)
        }
        (revived, _) => revived,
    }
}

async fn revive_once(
    store: &dyn Store,
    message: &Recorded,
    key: Option<&RequestKey>,
) -> Result<bool, ReviveError> {
    let (position, as_) = (message.position, given_up(message)?);
    // Another request may have revived it meanwhile, and it may be done by now.
    let commit = Commit::of(Write::Revive { position }).expect(Expect::Settled { position, as_ });
    let commit = key.into_iter().fold(commit, |commit, key| commit.write(key.write()));
    match store.commit(commit).await? {
        Outcome::Committed(_) => Ok(true),
        Outcome::Duplicate(_) => Ok(false),
        Outcome::Rejected(rejection) => Err(rejection.into()),
    }
}

/// How a message was given up.
fn given_up(message: &Recorded) -> Result<SettledAs, ReviveError> {
    let state = match &message.state {
        Some(State::Settled(Settlement { as_, .. })) => match as_ {
            SettledAs::Dead | SettledAs::Cancelled => return Ok(*as_),
            SettledAs::Done => "done",
        },
        Some(State::Pending { .. }) => "already pending",
        Some(State::InFlight { .. }) => "in flight",
        None => "without a receiver",
    };
    Err(ReviveError::State { position: message.position, state })
}

/// Why a message is not revived.
#[derive(Debug, thiserror::Error)]
pub enum ReviveError {
    /// It was not given up.
    #[error("message {position} is {state}; only dead and cancelled messages can be revived")]
    State {
        /// The position of the message.
        position: Position,
        /// The state of its delivery.
        state: &'static str,
    },
    /// Its state has changed since it was read.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReviveError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            ReviveError::State { .. } => Code::WrongStatus,
            ReviveError::Rejected(rejection) => rejection.kind(),
            ReviveError::Key(error) => error.kind(),
            ReviveError::Store(error) => error.kind(),
        }
    }
}
