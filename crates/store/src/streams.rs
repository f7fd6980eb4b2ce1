//! The usual operations of message streams, over any store.

use std::{sync::Arc, time::Duration};

use crate::{
    Address, Commit, DueCursor, EntityId, Entropy, GrantedClaim, Lease, Message, Outcome, Position,
    Recorded, RecordedKey, Rejection, Remember, RetryPolicy, SettledAs, Store, StoreError,
    Timestamp, Version, Write,
};

/// Streams of messages, each both inbox and outbox.
#[derive(Clone)]
pub struct Streams {
    store: Arc<dyn Store>,
}

/// Why messages were not appended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// An expectation did not hold; nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The outcome of an append with a message id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It is durable; version and position of each message.
    New(Vec<(Version, Position)>),
    /// The input with this id was appended before.
    Before(RecordedKey),
}

impl Streams {
    /// The streams of a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Appends messages to a stream that must end at `expected`; returns its new version.
    #[crate::boxed]
    pub async fn append(
        &self,
        stream: &Address,
        expected: Version,
        messages: Vec<Message>,
    ) -> Result<Version, AppendError> {
        let added = messages.len() as Version;
        match self.store.commit(Commit::append(stream, expected, messages)).await? {
            Outcome::Committed(_) => Ok(expected + added),
            Outcome::Rejected(rejection) => Err(rejection.into()),
            Outcome::Duplicate(_) => {
                Err(StoreError::corrupt("a commit without key met one").into())
            }
        }
    }

    /// Appends an input and its decisions, once for each message id: a redelivery changes nothing
    /// and returns the recorded decisions.
    #[crate::boxed]
    pub async fn append_input(
        &self,
        stream: &Address,
        expected: Version,
        id: &str,
        messages: Vec<Message>,
    ) -> Result<AppendOutcome, AppendError> {
        let request = messages.first().map_or("", |it| it.data.as_str());
        let key = Remember::new(stream.id(), id, request.as_bytes()).map_err(StoreError::from)?;
        let commit = Commit::append(stream, expected, messages).write(Write::Remember(key));
        match self.store.commit(commit).await? {
            Outcome::Committed(receipt) => Ok(AppendOutcome::New(receipt.appended)),
            Outcome::Duplicate(remembered) => Ok(AppendOutcome::Before(remembered)),
            Outcome::Rejected(rejection) => Err(rejection.into()),
        }
    }

    /// Reads a stream upwards from a version.
    #[crate::boxed]
    pub async fn read_stream(
        &self,
        stream: &Address,
        from: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.store.read_stream(stream.id(), from, limit).await
    }

    /// Reads pending messages, of one stream or of all, oldest first.
    #[crate::boxed]
    pub async fn pending_commands(
        &self,
        stream: Option<&Address>,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        self.store.pending(stream.map(Address::id), 0, limit).await
    }

    /// Claims due messages, at most `limit`, for one attempt each.
    #[crate::boxed]
    pub async fn claim_due(
        &self,
        now: Timestamp,
        lease: Lease,
        lasts: Duration,
        limit: usize,
    ) -> Result<Vec<GrantedClaim>, StoreError> {
        let due = self.store.due(DueCursor::START, limit).await?;
        let mut claimed = Vec::new();
        for work in due.into_iter().take_while(|work| work.due_at <= now) {
            let write = Write::Claim { position: work.position, lease, lasts };
            if let Outcome::Committed(it) = self.store.commit(Commit::of(write)).await? {
                claimed.extend(it.claimed);
            }
        }
        Ok(claimed)
    }

    /// Marks a command as processed. The second of two callers gets `false`.
    #[crate::boxed]
    pub async fn mark_command_processed(
        &self,
        stream: &Address,
        version: Version,
    ) -> Result<bool, StoreError> {
        let Some(position) = self.position(stream.id(), version).await? else { return Ok(false) };
        let write = Write::Settle { position, lease: None, as_: SettledAs::Done, error: None };
        self.applied(write).await
    }

    /// Makes a settled command pending again. `false` if it is not settled.
    #[crate::boxed]
    pub async fn mark_command_unprocessed(
        &self,
        stream: &Address,
        version: Version,
    ) -> Result<bool, StoreError> {
        let Some(position) = self.position(stream.id(), version).await? else { return Ok(false) };
        self.applied(Write::Revive { position }).await
    }

    /// Records a failed attempt under `lease`: the command is retried after an exponential delay
    /// with jitter, or dead when `policy` allows no more. `false` if the lease has ended.
    #[crate::boxed]
    pub async fn mark_failed(
        &self,
        claimed: GrantedClaim,
        lease: Lease,
        error: &str,
        policy: &RetryPolicy,
        entropy: &dyn Entropy,
    ) -> Result<bool, StoreError> {
        let (position, lease) = (claimed.position, Some(lease));
        let wait = policy.wait(claimed.attempt, entropy);
        self.applied(failed(position, lease, error, wait)).await
    }

    /// Cancels a pending command. `false` if it is not pending.
    #[crate::boxed]
    pub async fn cancel(&self, position: Position) -> Result<bool, StoreError> {
        let as_ = SettledAs::Cancelled;
        self.applied(Write::Settle { position, lease: None, as_, error: None }).await
    }

    async fn position(
        &self,
        stream: EntityId,
        version: Version,
    ) -> Result<Option<Position>, StoreError> {
        let found = self.store.read_stream(stream, version, 1).await?;
        Ok(found.first().filter(|it| it.version == version).map(|it| it.position))
    }

    async fn applied(&self, write: Write) -> Result<bool, StoreError> {
        let outcome = self.store.commit(Commit::of(write)).await?;
        Ok(matches!(outcome, Outcome::Committed(_)))
    }
}

/// The write that records a failed attempt: with a delay it is retried, without one it is dead.
pub fn failed(
    position: Position,
    lease: Option<Lease>,
    error: &str,
    wait: Option<Duration>,
) -> Write {
    let error = error.to_owned();
    match wait {
        Some(after) => Write::Retry { position, lease, error, after },
        None => Write::Settle { position, lease, as_: SettledAs::Dead, error: Some(error) },
    }
}
