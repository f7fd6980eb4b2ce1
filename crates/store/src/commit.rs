//! A commit, the only write operation, as plain data.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::{
    Address, Count, EntityId, EntityKind, EntryKey, Images, InvalidInput, Json, Lease, Message,
    Position, Put, RunStatus, SettledAs, Sweep, Timestamp, Turn, Version, limits, message::Cause,
};

/// One step of progress: everything in it becomes durable together, or nothing does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Conditions; if one does not hold, this commit alone is rejected.
    pub expects: Vec<Expect>,
    /// Changes, in this order.
    pub writes: Vec<Write>,
}

/// Bytes that a deletion may add: its event and its idempotency key.
const DELETION_BYTES_MAX: usize = 64 << 10;

impl Commit {
    /// A commit of one write.
    pub fn of(write: Write) -> Self {
        Self { expects: Vec::new(), writes: vec![write] }
    }

    /// Appends messages to a stream that must end at `version` (0: be empty).
    pub fn append(stream: &Address, version: Version, messages: Vec<Message>) -> Self {
        Self::default()
            .expect(Expect::Version { stream: stream.id(), version })
            .write(Write::Append { stream: stream.clone(), messages })
    }

    /// Adds an expectation.
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expects.push(expect);
        self
    }

    /// Adds a write.
    pub fn write(mut self, write: Write) -> Self {
        self.writes.push(write);
        self
    }

    /// Approximate size in bytes.
    pub fn bytes(&self) -> usize {
        self.writes.iter().map(Write::bytes).sum()
    }

    /// Whether it deletes something and adds little: it may use the space kept for deletions.
    pub(crate) fn is_deletion(&self) -> bool {
        self.bytes() <= DELETION_BYTES_MAX && self.writes.iter().any(Write::deletes)
    }

    /// Whether it must be alone in its transaction.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.writes.iter().any(|it| matches!(it, Write::Sweep(_)))
    }

    /// Checks the limits and returns the approximate size in bytes.
    pub(crate) fn check(&self) -> Result<usize, InvalidInput> {
        let mut count = self.expects.len();
        let mut bytes = 0;
        for write in &self.writes {
            count += write.len();
            bytes += write.bytes();
            write.check()?;
        }
        if self.is_exclusive() && count != 1 {
            return Err(InvalidInput::SweepNotAlone);
        }
        if limits::WRITES_MAX < count {
            return Err(InvalidInput::CommitLength { count });
        }
        if limits::COMMIT_BYTES_MAX < bytes {
            return Err(InvalidInput::CommitSize { len: bytes });
        }
        Ok(bytes)
    }
}

fn check_siblings(messages: &[Message]) -> Result<(), InvalidInput> {
    for (index, message) in messages.iter().enumerate() {
        if let Some(Cause::Sibling(sibling)) = message.cause
            && index <= sibling
        {
            return Err(InvalidInput::Sibling { index, sibling });
        }
    }
    Ok(())
}

/// A condition of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The stream ends at this version; 0 means that it is empty.
    Version {
        /// The stream.
        stream: EntityId,
        /// Its last version.
        version: Version,
    },
    /// The message is pending.
    Pending {
        /// The message.
        position: Position,
    },
    /// The message is pending and unclaimed.
    Unclaimed {
        /// The message.
        position: Position,
    },
    /// The delivery of the message has ended in this way.
    Settled {
        /// The message.
        position: Position,
        /// The outcome.
        as_: SettledAs,
    },
    /// The object is at this turn; (0, 0) means that it does not exist.
    Head {
        /// The object.
        entity: EntityId,
        /// Its last turn.
        seq: i64,
        /// The chained checksum after it.
        chk: u32,
    },
    /// The entry is at this revision; 0 means that there is none, not even a removed one.
    Revision {
        /// The entry.
        entry: EntryKey,
        /// The number of its last change.
        revision: i64,
    },
    /// With this many more messages, a queue has at most `max` that are pending.
    Room {
        /// The queue.
        queue: EntityId,
        /// The messages that this commit sends to it.
        more: u64,
        /// The limit of the queue.
        max: u64,
    },
    /// A list has no entry with a value. It is also rejected if the batch has just removed the last
    /// one: try again.
    Vacant {
        /// The list.
        space: Box<str>,
    },
}

/// A change that a commit makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Appends messages to a stream, which is created if necessary.
    Append {
        /// The stream.
        stream: Address,
        /// The messages; those with a task become due work in the same commit.
        messages: Vec<Message>,
    },
    /// Records a key. If the key exists with the same request, the whole commit is a no-op with the
    /// outcome `Duplicate`; with another request, it is rejected.
    Remember(Remember),
    /// Claims a due message for one attempt and counts the attempt.
    Claim {
        /// The message.
        position: Position,
        /// The lease.
        lease: Lease,
        /// Its duration.
        lasts: Duration,
    },
    /// Settles a message. Without a lease it is settled even if it is claimed.
    Settle {
        /// The message.
        position: Position,
        /// The lease under which it was handled.
        lease: Option<Lease>,
        /// The outcome.
        as_: SettledAs,
        /// The error, if it is dead.
        error: Option<String>,
    },
    /// Records a failed attempt and schedules the message again.
    Retry {
        /// The message.
        position: Position,
        /// The lease under which it failed; `None` if it was delivered without a claim.
        lease: Option<Lease>,
        /// The error.
        error: String,
        /// The delay.
        after: Duration,
    },
    /// Releases a claim without counting the attempt.
    Release {
        /// The message.
        position: Position,
        /// The lease that is given back.
        lease: Lease,
    },
    /// Moves a message to another target and resets its attempts. Its content and its stream do not
    /// change; it is not ordered any more.
    Move {
        /// The message.
        position: Position,
        /// The lease under which it was handled; `None` if it was delivered without a claim.
        lease: Option<Lease>,
        /// The target.
        to: Address,
        /// The error, if an attempt failed; the attempt is counted.
        error: Option<String>,
        /// The delay.
        after: Duration,
    },
    /// Makes a settled message due again, with new attempts.
    Revive {
        /// The message.
        position: Position,
    },
    /// Marks a stream as ended: retention may delete it.
    Close {
        /// The stream.
        stream: EntityId,
    },
    /// Stores a snapshot of a stream, so that it need not be read from its beginning.
    Snapshot(Snapshot),
    /// Deletes old rows that nothing needs. It is the only write of its commit, without
    /// expectations, and no other commit is in the same transaction.
    Sweep(Sweep),
    /// Adds a turn to the log of an object, which is created if necessary.
    Turn(Turn),
    /// Stores images of the current pages of an object.
    Images(Images),
    /// Deletes an object; the next sweeps delete its history.
    Erase {
        /// The object.
        entity: EntityId,
    },
    /// Deletes turns that the images contain; others stay.
    ForgetTurns {
        /// The turns.
        positions: Vec<Position>,
    },
    /// Records the status of a run, for lists and for retention. The first record sets its creation
    /// time.
    Run {
        /// The run.
        run: Address,
        /// Its status.
        status: RunStatus,
        /// The remaining retention; `None` if it does not expire.
        expires: Option<Duration>,
    },
    /// Changes the retention of a run that has ended. Without such a run, nothing happens.
    KeepRun {
        /// The run.
        run: EntityId,
        /// The retention from now on.
        keep: Duration,
    },
    /// Deletes a run: its record, its snapshot, and its name. Without such a run, nothing happens.
    /// It is rejected while the run has pending work, and together with writes to the run in the
    /// same batch.
    ///
    /// A long record is only detached: no query finds it any more, and the next sweep deletes it in
    /// parts.
    EraseRun {
        /// The run.
        run: EntityId,
        /// It is also rejected if a message of it died later than this.
        dead_until: Timestamp,
    },
    /// Changes an entry.
    Put(Put),
    /// Adds to a counter, unless it would pass its limit. Commits that count do not expect a
    /// revision, so they do not reject each other.
    Count(Count),
    /// Deletes expired entries; others stay.
    ExpireEntries {
        /// The entries.
        entries: Vec<EntryKey>,
    },
}

impl Write {
    fn deletes(&self) -> bool {
        match self {
            Write::Sweep(_)
            | Write::ForgetTurns { .. }
            | Write::ExpireEntries { .. }
            | Write::Erase { .. }
            | Write::EraseRun { .. } => true,
            Write::Put(put) => put.value.is_none(),
            Write::Append { .. }
            | Write::Remember(_)
            | Write::Claim { .. }
            | Write::Settle { .. }
            | Write::Retry { .. }
            | Write::Release { .. }
            | Write::Move { .. }
            | Write::Revive { .. }
            | Write::Close { .. }
            | Write::Snapshot(_)
            | Write::Count(_)
            | Write::Turn(_)
            | Write::Images(_)
            | Write::Run { .. }
            | Write::KeepRun { .. } => false,
        }
    }

    fn len(&self) -> usize {
        match self {
            Write::Append { messages, .. } => messages.len(),
            Write::ForgetTurns { positions } => positions.len(),
            Write::Images(it) => it.images.len(),
            Write::ExpireEntries { entries } => entries.len(),
            Write::Remember(_)
            | Write::Put(_)
            | Write::Count(_)
            | Write::Claim { .. }
            | Write::Settle { .. }
            | Write::Retry { .. }
            | Write::Release { .. }
            | Write::Move { .. }
            | Write::Revive { .. }
            | Write::Close { .. }
            | Write::Snapshot(_)
            | Write::Turn(_)
            | Write::Erase { .. }
            | Write::Run { .. }
            | Write::KeepRun { .. }
            | Write::EraseRun { .. }
            | Write::Sweep(_) => 1,
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most have nothing to check")]
    fn check(&self) -> Result<(), InvalidInput> {
        match self {
            Write::Append { messages, .. } => check_siblings(messages),
            Write::Run { run, .. } if run.kind() != EntityKind::Run => {
                Err(InvalidInput::NotARun { address: run.to_string().into() })
            }
            Write::Put(it) if limits::ENTRY_BYTES_MAX < value_bytes(it) => {
                Err(InvalidInput::EntrySize { len: value_bytes(it) })
            }
            _ => Ok(()),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Write::Append { messages, .. } => messages.iter().map(Message::bytes).sum(),
            Write::Remember(it) => 200 + it.reply.as_ref().map_or(0, |reply| reply.as_str().len()),
            Write::ForgetTurns { positions } => 8 * positions.len(),
            Write::Turn(it) => 200 + it.input.len() + it.delta.len(),
            Write::Images(it) => it.images.iter().map(|it| 100 + it.data.len()).sum(),
            Write::Settle { error, .. } | Write::Move { error, .. } => {
                200 + error.as_ref().map_or(0, String::len)
            }
            Write::Retry { error, .. } => 200 + error.len(),
            Write::Claim { .. }
            | Write::Release { .. }
            | Write::Revive { .. }
            | Write::Close { .. }
            | Write::Erase { .. }
            | Write::KeepRun { .. }
            | Write::Sweep(_) => 200,
            // Few of these should share a batch: each deletes many rows.
            Write::EraseRun { .. } => 1 << 20,
            Write::Run { run, .. } => 200 + run.class().len() + run.name().len(),
            Write::Snapshot(it) => 200 + it.state.as_str().len(),
            Write::Put(it) => 200 + it.entry.key().len() + value_bytes(it),
            Write::Count(it) => 200 + it.entry.key().len(),
            Write::ExpireEntries { entries } => entries.iter().map(|it| 50 + it.key().len()).sum(),
        }
    }
}

fn value_bytes(put: &Put) -> usize {
    put.value.as_ref().map_or(0, |it| it.as_str().len())
}

/// The state of a stream, as its owner folded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The stream.
    pub stream: EntityId,
    /// The last message that is in it.
    pub version: Version,
    /// The version of the code that made it; other code must not use it.
    pub code: i32,
    /// The state.
    pub state: Json,
}

/// A key under which a request is recorded, so that its repetition changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remember {
    pub(crate) scope: EntityId,
    pub(crate) key: Box<str>,
    pub(crate) request_hash: [u8; 32],
    pub(crate) keep: Duration,
    pub(crate) status: i32,
    pub(crate) reply: Option<Json>,
}

impl Remember {
    /// Default retention of a key.
    pub const KEEP: Duration = Duration::from_hours(24);

    /// Its scope and key. Requests with the same scope and key are the same request, or one of them
    /// is refused.
    pub fn identity(&self) -> (EntityId, &str) {
        (self.scope, &self.key)
    }

    /// Records `key` within `scope` for the request with this body.
    pub fn new(scope: EntityId, key: &str, request: &[u8]) -> Result<Self, InvalidInput> {
        if key.is_empty() || limits::KEY_BYTES_MAX < key.len() || key.contains('\0') {
            return Err(InvalidInput::Key { len: key.len() });
        }
        let request_hash = Sha256::digest(request).into();
        Ok(Self { scope, key: key.into(), request_hash, keep: Self::KEEP, status: 0, reply: None })
    }

    /// Sets the retention of the key.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep;
        self
    }

    /// Records the answer with it.
    pub fn reply(mut self, status: i32, reply: Json) -> Self {
        self.status = status;
        self.reply = Some(reply);
        self
    }

    /// A commit that only asks for the key: `Duplicate` if the request was performed before,
    /// `KeyReused` if another one was. The key is checked before the expectations, and this one
    /// never holds: there is no message 0.
    pub fn probe(self) -> Commit {
        Commit::of(Write::Remember(self)).expect(Expect::Pending { position: 0 })
    }
}
