//! The planner that all stores share: it decides a batch of commits over facts that the store read,
//! and returns the rows to write. It does no I/O, so all stores decide alike.

mod append;
mod decide;
mod delivery;
mod entry;
mod erase;
mod facts;
mod sweep;
mod table;
mod turn;

use crate::{
    Address, Attempt, Base, EntityId, Entry, EntryKey, ExpiryRow, Head, Json, KeyName, Lease,
    Outcome, PageImage, Position, Recorded, RecordedTurn, RunSummary, Settlement, Snapshot, State,
    Timestamp, Version,
    message::{Direction, MessageKind},
};

pub(crate) use self::{
    decide::plan,
    erase::{ERASED, ERASED_MAX},
    facts::{Brief, Candidates, Counted, DeadBrief, Erasure, Facts, Needs, TurnBrief},
};

/// A message that is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The message.
    pub position: Position,
    /// The target.
    pub target: EntityId,
    /// Whether it must wait for earlier ordered ones of its target.
    pub ordered: bool,
    /// When it may be delivered; while it is claimed, when the lease ends.
    pub due_at: Timestamp,
    /// Attempts since the message was written.
    pub attempts: u32,
    /// Attempts before it was revived.
    pub forgiven: u32,
    /// The lease and when it began, if it is claimed.
    pub claim: Option<(Lease, Timestamp)>,
    /// Whether it is in a queue, whose consumers take it.
    pub queued: bool,
}

impl Work {
    /// Attempts that count against a limit.
    pub fn tries(&self) -> u32 {
        self.attempts.saturating_sub(self.forgiven)
    }
}

/// A row of `entity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntityRow {
    pub(crate) address: Address,
    pub(crate) created_at: Timestamp,
    pub(crate) closed_at: Option<Timestamp>,
    /// The number of its stream: the position of its first message.
    pub(crate) origin: Option<Position>,
}

/// A row of `message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageRow {
    pub(crate) position: Position,
    pub(crate) stream: EntityId,
    /// The origin of its stream.
    pub(crate) origin: Position,
    pub(crate) version: Version,
    pub(crate) kind: MessageKind,
    pub(crate) direction: Direction,
    pub(crate) action: Box<str>,
    pub(crate) message_type: Box<str>,
    pub(crate) schema: i32,
    pub(crate) data: Json,
    pub(crate) metadata: Json,
    pub(crate) target: Option<EntityId>,
    pub(crate) ordered: bool,
    pub(crate) cause: Option<Position>,
    pub(crate) created_at: Timestamp,
}

impl MessageRow {
    pub(crate) fn recorded(self, state: Option<State>, last_error: Option<String>) -> Recorded {
        Recorded {
            position: self.position,
            stream: self.stream,
            version: self.version,
            kind: self.kind,
            direction: self.direction,
            action: self.action.into(),
            message_type: self.message_type.into(),
            schema: self.schema,
            data: self.data,
            metadata: self.metadata,
            target: self.target,
            ordered: self.ordered,
            cause: self.cause,
            created_at: self.created_at,
            state,
            last_error,
            lineage: 0,
        }
    }
}

/// A row of `idempotency`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRow {
    pub(crate) scope: EntityId,
    pub(crate) key: Box<str>,
    pub(crate) request_hash: [u8; 32],
    pub(crate) position: Position,
    pub(crate) status: i32,
    pub(crate) reply: Option<Json>,
    pub(crate) expires_at: Timestamp,
}

/// The rows that a batch writes, sorted by key, and the answers to its commits.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) at: Timestamp,
    /// Nothing is deleted by age before this time.
    pub(crate) delete_from: Timestamp,
    pub(crate) position: Position,
    /// The history that its messages belong to: see [`Recorded::lineage`].
    pub(crate) lineage: i64,
    pub(crate) entities: Vec<EntityRow>,
    /// Of entities that existed before their first message.
    pub(crate) origins: Vec<(EntityId, Position)>,
    pub(crate) messages: Vec<MessageRow>,
    pub(crate) works: Vec<Work>,
    pub(crate) works_gone: Vec<Position>,
    /// Ordered work that was settled: the work behind it may begin.
    pub(crate) unblocked: Vec<Work>,
    pub(crate) settled: Vec<(Position, Settlement)>,
    pub(crate) unsettled: Vec<Position>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) closed: Vec<(EntityId, Timestamp)>,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) keys: Vec<KeyRow>,
    pub(crate) keys_gone: Vec<KeyName>,
    pub(crate) forgotten: Vec<Position>,
    pub(crate) heads: Vec<Head>,
    pub(crate) bases: Vec<Base>,
    /// By their numbers; they are deleted before others are written.
    pub(crate) heads_gone: Vec<Position>,
    pub(crate) turns: Vec<RecordedTurn>,
    pub(crate) turns_forgotten: Vec<Position>,
    pub(crate) images: Vec<(EntityId, PageImage)>,
    /// Images of pages beyond a length that are deleted before others are written.
    pub(crate) images_cut: Vec<(EntityId, u32)>,
    /// With their numbers, the origins of their streams. `created_at` applies only to a new row.
    pub(crate) runs: Vec<(Position, RunSummary)>,
    /// Runs with a new retention.
    pub(crate) runs_kept: Vec<(EntityId, Timestamp)>,
    /// Runs and other entities that are deleted as a whole, before anything is written.
    pub(crate) erased: Vec<EntityId>,
    /// The same, but their records are moved to these new entities.
    pub(crate) put_aside: Vec<(EntityId, EntityId)>,
    /// The erased entities and those whose records are put aside.
    pub(crate) gone: Vec<EntityId>,
    /// Messages up to a version that are deleted before anything is written, of records too long to
    /// be deleted in one commit.
    pub(crate) cut: Vec<(EntityId, Version)>,
    /// The new position of the sweep, if it has advanced.
    pub(crate) swept: Option<Position>,
    pub(crate) expiring: Vec<ExpiryRow>,
    pub(crate) processed: Vec<ExpiryRow>,
    /// The changes of the numbers of pending and dead messages.
    pub(crate) pending: i64,
    pub(crate) dead: i64,
    /// The same for each queue.
    pub(crate) depths: Vec<(EntityId, i64, i64)>,
    pub(crate) entries: Vec<Entry>,
    /// Counters that exist and are only counted, so that they are written as differences.
    pub(crate) counts: Vec<(EntryKey, Counted)>,
    pub(crate) entries_gone: Vec<EntryKey>,
    pub(crate) answers: Vec<Outcome>,
}

impl Plan {
    /// Whether rows were deleted.
    pub(crate) fn frees_space(&self) -> bool {
        !self.forgotten.is_empty()
            || !self.turns_forgotten.is_empty()
            || !self.heads_gone.is_empty()
            || !self.erased.is_empty()
            || !self.cut.is_empty()
            || !self.keys_gone.is_empty()
            || !self.entries_gone.is_empty()
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
            && self.works.is_empty()
            && self.works_gone.is_empty()
            && self.settled.is_empty()
            && self.unsettled.is_empty()
            && self.attempts.is_empty()
            && self.closed.is_empty()
            && self.snapshots.is_empty()
            && self.keys.is_empty()
            && self.keys_gone.is_empty()
            && self.forgotten.is_empty()
            && self.heads.is_empty()
            && self.heads_gone.is_empty()
            && self.turns_forgotten.is_empty()
            && self.images.is_empty()
            && self.runs.is_empty()
            && self.runs_kept.is_empty()
            && self.erased.is_empty()
            && self.put_aside.is_empty()
            && self.cut.is_empty()
            && self.swept.is_none()
            && self.expiring.is_empty()
            && self.processed.is_empty()
            && self.entries.is_empty()
            && self.counts.is_empty()
            && self.entries_gone.is_empty()
    }
}
