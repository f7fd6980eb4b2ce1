//! Reads as values: the closed list of queries, and their answers.

use std::ops::RangeInclusive;

use crate::{
    Address, AgeCursor, Attempt, EntityId, EntityKind, Entry, EntryKey, EntryRange, ExpiryList,
    ExpiryRow, Head, KeyName, ObjectSummary, OldTurn, PageImage, Position, QueueDepth,
    QueuedMessage, Recorded, RecordedTurn, RunPage, RunStatus, RunSummary, Snapshot, Sweep,
    SweepList, Timestamp, TurnSummary, Version, Work, plan::Candidates,
};

/// Declares the queries, each with the rows that answer it.
macro_rules! queries {
    ($($query:ident $({ $($field:ident: $type:ty),* })? -> $rows:ident;)*) => {
        /// A read. Every query has a documented method on `dyn Store`, but for those of
        /// [`Query::candidates`].
        #[expect(missing_docs, reason = "the methods of `dyn Store` document queries and fields")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Query {
            $($query $({ $($field: $type),* })?,)*
        }

        /// A query without its arguments.
        #[expect(missing_docs, reason = "the same names as those of `Query`")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum QueryKind {
            $($query,)*
        }

        impl QueryKind {
            /// All of them, so that tests cover each.
            pub const ALL: &[QueryKind] = &[$(QueryKind::$query,)*];
        }

        impl Query {
            /// The query without its arguments.
            pub fn kind(&self) -> QueryKind {
                match self {
                    $(Query::$query { .. } => QueryKind::$query,)*
                }
            }

            /// An answer without rows.
            pub(crate) fn no_rows(&self) -> Answer {
                match self {
                    $(Query::$query { .. } => Answer::$rows(Vec::new()),)*
                }
            }
        }
    };
}

queries! {
    Stream { stream: EntityId, from: Version, limit: usize } -> Messages;
    All { after: Position, limit: usize } -> Messages;
    Message { position: Position } -> Messages;
    Pending { stream: Option<EntityId>, after: Position, limit: usize } -> Messages;
    Dead { queue: Option<EntityId>, after: Position, limit: usize } -> Messages;
    Attempts { position: Position } -> Attempts;
    Version { stream: EntityId } -> Numbers;
    Streams {
        within: Option<(EntityKind, String)>, after: Option<Address>, limit: usize
    } -> Streams;
    Addresses { ids: Vec<EntityId> } -> Addresses;
    Snapshot { stream: EntityId } -> Snapshots;
    Due { after: DueCursor, limit: usize } -> Works;
    Backlog { target: EntityId, ordered: bool, after: DueCursor, limit: usize } -> Works;
    Orphans { epoch: i64, queued: bool, limit: usize } -> Works;
    QueueMessages { queue: EntityId, after: DueCursor, until: Timestamp, limit: usize } -> Queued;
    Leased { queue: EntityId, at: Timestamp, limit: usize } -> Queued;
    QueueDepth { queue: EntityId, at: Timestamp } -> Depths;
    NextDue { queue: EntityId, after: Timestamp } -> Times;
    Unswept { until: Timestamp, limit: usize } -> Numbers;
    ExpiryRow { list: ExpiryList, until: Timestamp, limit: usize } -> ExpiryRow;
    ExpiredKeys { at: Timestamp, limit: usize } -> Keys;
    Head { entity: EntityId } -> Heads;
    Heads { history_over: i64, after: Position, limit: usize } -> Heads;
    Classes { kind: EntityKind, after: Option<String>, limit: usize } -> Texts;
    Objects { class: String, prefix: String, after: Option<String>, limit: usize } -> Objects;
    CountObjects { class: String, max: usize } -> Numbers;
    Images { entity: EntityId, pages: Vec<RangeInclusive<u32>> } -> Images;
    TurnsBack { from: Position, limit: usize } -> Turns;
    TurnSummaries { from: Position, limit: usize } -> TurnSummaries;
    OldTurns { after: Position, limit: usize } -> OldTurns;
    Run { entity: EntityId } -> Runs;
    Runs { page: RunPage, limit: usize } -> Runs;
    CountRuns { workflow: String, status: Option<RunStatus>, max: usize } -> Numbers;
    CountRunNames { workflow: String, prefix: String, max: usize } -> Numbers;
    ExpiredRuns { at: Timestamp, limit: usize } -> Runs;
    Totals -> Totals;
    Entry { entry: EntryKey } -> Entries;
    Entries { space: String, range: EntryRange, limit: usize } -> Entries;
    EntriesByAge { space: String, after: AgeCursor, until: Timestamp, limit: usize } -> Entries;
    ExpiredEntries { at: Timestamp, limit: usize } -> Entries;
    Referenced { ids: Vec<EntityId> } -> References;
    Dump -> Texts;
    Violations -> Texts;
}

impl Query {
    /// The first rows that a step of retention may delete.
    pub fn candidates(sweep: Sweep, limit: usize) -> Self {
        let until = sweep.until;
        match sweep.list {
            SweepList::Messages => Query::Unswept { until, limit },
            SweepList::Listed(list) => Query::ExpiryRow { list, until, limit },
            SweepList::Keys => Query::ExpiredKeys { at: until, limit },
        }
    }
}

/// Declares the answers: one list for each type of rows.
macro_rules! answers {
    ($($rows:ident($row:ty),)*) => {
        /// The rows that answer a query, in the order of the query. A query for one value has at
        /// most one row.
        #[expect(missing_docs, reason = "the types of the rows are documented")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Answer {
            $($rows(Vec<$row>),)*
        }

        impl Answer {
            /// The number of rows.
            pub fn len(&self) -> usize {
                match self {
                    $(Answer::$rows(rows) => rows.len(),)*
                }
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        $(
            impl Row for $row {
                fn rows(answer: Answer) -> Result<Vec<Self>, Answer> {
                    if let Answer::$rows(rows) = answer { Ok(rows) } else { Err(answer) }
                }
            }
        )*
    };
}

impl Answer {
    /// The answer to [`Query::candidates`].
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others answer other queries")]
    pub(crate) fn into_candidates(self) -> Candidates {
        let none = Candidates::default();
        match self {
            Answer::Numbers(messages) => Candidates { messages, ..none },
            Answer::ExpiryRow(listed) => Candidates { listed, ..none },
            Answer::Keys(keys) => Candidates { keys, ..none },
            _ => none,
        }
    }
}

/// One type of rows, which exactly one answer holds.
pub(crate) trait Row: Sized {
    /// Takes the rows out; an answer with rows of another type is returned.
    fn rows(answer: Answer) -> Result<Vec<Self>, Answer>;
}

answers! {
    Messages(Recorded),
    Queued(QueuedMessage),
    Works(Work),
    Attempts(Attempt),
    Numbers(i64),
    Times(Timestamp),
    Texts(String),
    Streams(StreamSummary),
    Addresses(Address),
    Snapshots(Snapshot),
    Depths(QueueDepth),
    ExpiryRow(ExpiryRow),
    Keys(KeyName),
    Heads(Head),
    Objects(ObjectSummary),
    Images(PageImage),
    Turns(RecordedTurn),
    TurnSummaries(TurnSummary),
    OldTurns(OldTurn),
    Runs(RunSummary),
    Totals(Totals),
    Entries(Entry),
    References((EntityId, EntryKey)),
}

/// A cursor in due order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueCursor {
    /// The due time reached.
    pub due_at: Timestamp,
    /// The position reached within it.
    pub position: Position,
}

impl DueCursor {
    /// Before all work.
    pub const START: DueCursor = DueCursor { due_at: Timestamp::MIN, position: 0 };
    /// After all work.
    pub const END: DueCursor = DueCursor { due_at: Timestamp::MAX, position: Position::MAX };
}

/// One stream in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSummary {
    /// Its address.
    pub address: Address,
    /// Its last version.
    pub version: Version,
    /// When it began.
    pub created_at: Timestamp,
    /// When its last message was committed.
    pub updated_at: Timestamp,
    /// When it ended, if it has.
    pub closed_at: Option<Timestamp>,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The last position.
    pub position: Position,
    /// Pending messages.
    pub pending: i64,
    /// Dead messages.
    pub dead: i64,
}
