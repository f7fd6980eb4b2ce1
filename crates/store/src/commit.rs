//! The one write there is: a commit, as plain data, and how it ended.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::{
    Address, EntityId, EntityKind, EntryKey, Expiring, Images, InvalidInput, Json, KeyName, Lease,
    Message, Position, Put, RunStatus, SettledAs, Timestamp, Turn, Version, limits, message::Cause,
};

/// One step of progress: everything in it becomes durable together, or nothing does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Conditions; if one does not hold, this commit alone is rejected.
    pub expects: Vec<Expect>,
    /// Changes, in this order.
    pub writes: Vec<Write>,
}

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

    /// About how many bytes it is.
    pub fn bytes(&self) -> usize {
        self.writes.iter().map(Write::bytes).sum()
    }

    /// Checks the limits and returns the rough size in bytes.
    pub(crate) fn check(&self) -> Result<usize, InvalidInput> {
        let mut count = self.expects.len();
        let mut bytes = 0;
        for write in &self.writes {
            count += write.len();
            bytes += write.bytes();
            write.check()?;
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
        /// Which stream.
        stream: EntityId,
        /// Its last version.
        version: Version,
    },
    /// The message is still to be delivered.
    Pending {
        /// Which message.
        position: Position,
    },
    /// The message is still to be delivered, and nobody holds it.
    Unclaimed {
        /// Which message.
        position: Position,
    },
    /// The delivery of the message has ended in this way.
    Settled {
        /// Which message.
        position: Position,
        /// How it ended.
        as_: SettledAs,
    },
    /// The object stands at this turn; (0, 0) means that it does not exist.
    Head {
        /// Which object.
        entity: EntityId,
        /// Its last turn.
        seq: i64,
        /// The chained checksum after it.
        chk: u32,
    },
    /// The entry is at this revision; 0 means that there is none, not even a removed one.
    Revision {
        /// Which entry.
        entry: EntryKey,
        /// The number of its last change.
        revision: i64,
    },
    /// No entry of a list has a value. Where one had until just now, it is rejected: try again.
    Vacant {
        /// Which list.
        space: Box<str>,
    },
}

/// A change that a commit makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Adds messages to the end of a stream, which is made if it is not there.
    Append {
        /// Which stream.
        stream: Address,
        /// The messages; those with a task become due work in the same commit.
        messages: Vec<Message>,
    },
    /// Records a key. Found again with the same request, the whole commit is a no-op that answers
    /// `Duplicate`; found with another request, it is rejected.
    Remember(Remember),
    /// Claims a due message for one attempt and counts the attempt.
    Claim {
        /// Which message.
        position: Position,
        /// Who claims it.
        lease: Lease,
        /// For how long.
        lasts: Duration,
    },
    /// Ends the delivery of a message. Without a lease it ends it whoever holds it.
    Settle {
        /// Which message.
        position: Position,
        /// The lease under which it was handled.
        lease: Option<Lease>,
        /// How it ended.
        as_: SettledAs,
        /// Why, if it is given up.
        error: Option<String>,
    },
    /// Records a failed attempt and has the message delivered again.
    Retry {
        /// Which message.
        position: Position,
        /// The lease under which it failed; `None` if it was delivered without a claim.
        lease: Option<Lease>,
        /// Why it failed.
        error: String,
        /// How long to wait.
        after: Duration,
    },
    /// Gives a claim back as if it had not been made.
    Release {
        /// Which message.
        position: Position,
        /// The lease that is given back.
        lease: Lease,
    },
    /// Has a message delivered to somebody else, with new attempts: what it is and where it came
    /// from stays. Its order is not kept.
    Move {
        /// Which message.
        position: Position,
        /// The lease under which it was handled; `None` if it was delivered without a claim.
        lease: Option<Lease>,
        /// To whom.
        to: Address,
        /// Why, if an attempt failed; it is counted.
        error: Option<String>,
        /// How long to wait.
        after: Duration,
    },
    /// Makes a settled message due again, with new attempts.
    Revive {
        /// Which message.
        position: Position,
    },
    /// Says that a stream has ended: retention may forget it.
    Close {
        /// Which stream.
        stream: EntityId,
    },
    /// Keeps what a stream has come to, so that it need not be read from its beginning.
    Snapshot(Snapshot),
    /// Removes messages that nothing needs any more: those that are pending, dead, the last of
    /// their stream or of a process or run stay.
    Forget {
        /// Which messages.
        positions: Vec<Position>,
    },
    /// Removes messages that were given up at this time or before. The last of a stream, which
    /// holds its version, counts as cancelled from then on; those of a process or run stay with it.
    ForgetDead {
        /// Which messages.
        positions: Vec<Position>,
        /// Others are too young.
        until: Timestamp,
    },
    /// Says that the sweep has looked at all messages up to a position.
    Swept {
        /// Up to where.
        to: Position,
    },
    /// Removes rows that the sweep has looked at; see [`Expiring`].
    Looked {
        /// Which rows.
        rows: Vec<Expiring>,
        /// Whether they come back with the present time, to be looked at once more.
        again: bool,
    },
    /// Removes keys whose time is over; others stay.
    ExpireKeys {
        /// Which keys.
        keys: Vec<KeyName>,
    },
    /// Adds a turn to the log of an object, which is made if it is not there.
    Turn(Turn),
    /// Keeps images of pages as they are at the head of an object.
    Images(Images),
    /// Removes an object; its history goes with the next sweeps.
    Erase {
        /// Which object.
        entity: EntityId,
    },
    /// Removes turns that the images hold; others stay.
    ForgetTurns {
        /// Which turns.
        positions: Vec<Position>,
    },
    /// Says how far a run is, for lists and for retention. The first time is when it was created.
    Run {
        /// Which run.
        run: Address,
        /// How far it is.
        status: RunStatus,
        /// How long it is still to be kept; `None`: until it is said.
        expires: Option<Duration>,
    },
    /// Changes how long a run that has ended is still to be kept. Where there is no such run,
    /// nothing happens.
    KeepRun {
        /// Which run.
        run: EntityId,
        /// How long from now on.
        keep: Duration,
    },
    /// Removes a run as if it had never been: its record, its snapshot, and its name. Where there
    /// is none, nothing happens. It is rejected while something is to be done for it, and together
    /// with what was written to it just now.
    ///
    /// A long record is only put aside: nobody finds it any more, and the next sweep removes it in
    /// parts.
    EraseRun {
        /// Which run.
        run: EntityId,
        /// It is also rejected if something of it was given up later than this.
        dead_until: Timestamp,
    },
    /// The same for another entity that has ended: an object that was deleted, a process that is
    /// complete, one that was only ever addressed, or a record that was put aside. What goes on
    /// stays as it is. As long as the receipt counts messages and does not say that it was erased,
    /// the same write is to be committed again.
    EraseEnded {
        /// Which entity.
        entity: EntityId,
        /// It is rejected if a message of it is younger.
        until: Timestamp,
        /// It is also rejected if something of it was given up later than this.
        dead_until: Timestamp,
    },
    /// Changes an entry.
    Put(Put),
    /// Removes the rows of entries whose time is over; others stay.
    ExpireEntries {
        /// Which ones.
        entries: Vec<EntryKey>,
    },
}

impl Write {
    fn len(&self) -> usize {
        match self {
            Write::Append { messages, .. } => messages.len(),
            Write::Forget { positions }
            | Write::ForgetDead { positions, .. }
            | Write::ForgetTurns { positions } => positions.len(),
            Write::Looked { rows, .. } => rows.len(),
            Write::ExpireKeys { keys } => keys.len(),
            Write::Images(it) => it.images.len(),
            Write::ExpireEntries { entries } => entries.len(),
            Write::Remember(_)
            | Write::Put(_)
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
            | Write::EraseEnded { .. }
            | Write::Swept { .. } => 1,
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
            Write::Forget { positions }
            | Write::ForgetDead { positions, .. }
            | Write::ForgetTurns { positions } => 8 * positions.len(),
            Write::Looked { rows, .. } => 40 * rows.len(),
            Write::ExpireKeys { keys } => keys.iter().map(|it| 20 + it.key.len()).sum(),
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
            | Write::Swept { .. } => 200,
            // So that few share a batch: each removes many rows.
            Write::EraseRun { .. } | Write::EraseEnded { .. } => 1 << 20,
            Write::Run { run, .. } => 200 + run.class().len() + run.name().len(),
            Write::Snapshot(it) => 200 + it.state.as_str().len(),
            Write::Put(it) => 200 + it.entry.key().len() + value_bytes(it),
            Write::ExpireEntries { entries } => entries.iter().map(|it| 50 + it.key().len()).sum(),
        }
    }
}

fn value_bytes(put: &Put) -> usize {
    put.value.as_ref().map_or(0, |it| it.as_str().len())
}

/// The state of a stream, as its owner sums it up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which stream.
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
    /// How long a key is kept unless told otherwise.
    pub const KEEP: Duration = Duration::from_hours(24);

    /// Its scope and key. Requests that have both in common are the same request, or one of them is
    /// refused.
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

    /// Keeps it for so long.
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
}
