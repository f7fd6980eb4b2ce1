//! Errors of a store, each with a stable code.

use crate::{AddressError, Code, Position, limits};

/// The input is not valid; nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInput {
    /// Not JSON.
    #[error("data is not JSON: {reason}")]
    Json {
        /// Where and why.
        reason: String,
    },
    /// JSON that is nested too deep.
    #[error("data is nested deeper than {max} levels", max = limits::JSON_DEPTH_MAX)]
    JsonDepth,
    /// Too much data in a message.
    #[error("message data has {len} bytes, limit is {max}; keep large data in a bucket and send its key", max = limits::DATA_BYTES_MAX)]
    DataSize {
        /// Its length.
        len: usize,
    },
    /// Too much metadata.
    #[error("message metadata has {len} bytes, limit is {max}", max = limits::METADATA_BYTES_MAX)]
    MetadataSize {
        /// Its length.
        len: usize,
    },
    /// A type tag that is empty or too long.
    #[error("message type has {len} bytes, it must have 1 to {max} and no NUL", max = limits::TYPE_BYTES_MAX)]
    MessageType {
        /// Its length.
        len: usize,
    },
    /// An idempotency key that is empty or too long.
    #[error("idempotency key has {len} bytes, it must have 1 to {max} and no NUL", max = limits::KEY_BYTES_MAX)]
    Key {
        /// Its length.
        len: usize,
    },
    /// The name of a list of entries that is empty or too long.
    #[error("space has {len} bytes, it must have 1 to {max} and no NUL", max = limits::SPACE_BYTES_MAX)]
    Space {
        /// Its length.
        len: usize,
    },
    /// The key of an entry is too long.
    #[error("entry key has {len} bytes, limit is {max}", max = limits::ENTRY_KEY_BYTES_MAX)]
    EntryKey {
        /// Its length.
        len: usize,
    },
    /// Too much in an entry.
    #[error("entry value has {len} bytes, limit is {max}", max = limits::ENTRY_BYTES_MAX)]
    EntrySize {
        /// Its length.
        len: usize,
    },
    /// A step of retention together with expectations or other writes.
    #[error("a sweep must be the only write of its commit, without expectations")]
    SweepNotAlone,
    /// Too many writes in one commit.
    #[error("commit has {count} writes, limit is {max}; split it", max = limits::WRITES_MAX)]
    CommitLength {
        /// The number of writes.
        count: usize,
    },
    /// Too many bytes in one commit.
    #[error("commit has {len} bytes, limit is {max}; split it", max = limits::COMMIT_BYTES_MAX)]
    CommitSize {
        /// Its size.
        len: usize,
    },
    /// A message names a sibling that does not precede it.
    #[error(
        "message {index} of an append has message {sibling} as its cause, which is not before it"
    )]
    Sibling {
        /// The message.
        index: usize,
        /// The sibling.
        sibling: usize,
    },
    /// The address is not that of a run.
    #[error("`{address}` is not the address of a run; write run/workflow/id")]
    NotARun {
        /// The address.
        address: Box<str>,
    },
    /// Not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// Why a store operation failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The input is not valid.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// Too many commits are waiting.
    #[error("store is busy: {waiting} commits are waiting; try again in a moment")]
    Busy {
        /// The number of waiting commits.
        waiting: usize,
    },
    /// The disk is full.
    #[error("disk is full: the commit was not written; free space and try again")]
    DiskFull,
    /// The database is not reachable; the commit was not applied.
    #[error("store is not reachable: {reason}; nothing was written, try again")]
    Unavailable {
        /// The reason.
        reason: String,
    },
    /// The connection was lost during COMMIT, and the outcome could not be determined.
    #[error(
        "connection to the store was lost during the commit: {reason}; it may or may not be written"
    )]
    Unknown {
        /// The reason.
        reason: String,
    },
    /// Another process owns the store now.
    #[error("another process took over this store (epoch {epoch} is over); this one must stop")]
    Fenced {
        /// The epoch of this process, which has ended.
        epoch: i64,
    },
    /// The database lacks commits that were acknowledged.
    #[error("{lost}; this process must stop, and `serve --accept-loss` continues without them")]
    CommitsLost {
        /// The lost commits.
        lost: CommitsLost,
    },
    /// The storage failed in a way that must not be retried.
    #[error("storage failed: {reason}; this process must stop, acknowledged commits are kept")]
    Failed {
        /// The reason.
        reason: String,
    },
    /// Stored data is damaged.
    #[error("stored data is damaged: {reason}")]
    Corrupt {
        /// The damage.
        reason: String,
    },
    /// The store was opened read-only.
    #[error("store is read-only here: nothing was written; ask the program that serves it")]
    ReadOnly,
    /// The store was closed.
    #[error("store is closed")]
    Closed,
    /// A program in another process returned an error.
    #[error("{}", .0.detail)]
    Remote(Box<RemoteProblem>),
}

/// The error of a program in another process, or of the request to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteProblem {
    /// The stable code.
    pub code: Code,
    /// The fact, and the next step.
    pub detail: String,
    /// The code of the error, if an object, a process or a route of an application refused the
    /// request.
    pub refusal: Option<String>,
    /// Whether a retry of the request may succeed.
    pub is_retryable: bool,
}

impl StoreError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            StoreError::Invalid(_) => Code::InvalidInput,
            StoreError::Busy { .. } => Code::Busy,
            StoreError::DiskFull => Code::DiskFull,
            StoreError::Unavailable { .. } => Code::StoreUnavailable,
            StoreError::Unknown { .. } => Code::OutcomeUnknown,
            StoreError::Fenced { .. } => Code::Fenced,
            StoreError::CommitsLost { .. } => Code::CommitsLost,
            StoreError::Failed { .. } => Code::StorageFailed,
            StoreError::Corrupt { .. } => Code::Corrupt,
            StoreError::ReadOnly => Code::ReadOnly,
            StoreError::Closed => Code::Closed,
            StoreError::Remote(problem) => problem.code,
        }
    }

    /// The stable code as text.
    pub fn code(&self) -> &'static str {
        self.kind().tag()
    }

    /// Whether this process may retry the commit.
    pub fn is_retryable(&self) -> bool {
        if let StoreError::Remote(problem) = self {
            return problem.is_retryable;
        }
        self.kind().is_retryable()
    }

    /// Whether the commit certainly changed nothing.
    pub fn surely_unapplied(&self) -> bool {
        self.kind().surely_unapplied()
    }

    /// Whether this process can never write to the store again.
    pub fn is_over(&self) -> bool {
        matches!(
            self,
            StoreError::Fenced { .. }
                | StoreError::CommitsLost { .. }
                | StoreError::Failed { .. }
                | StoreError::Closed
        )
    }

    pub(crate) fn corrupt(reason: impl Into<String>) -> Self {
        StoreError::Corrupt { reason: reason.into() }
    }
}

/// Acknowledged commits that a database lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitsLost {
    /// The first and the last batch, as counted by the owner that detected the loss.
    pub batches: (i64, i64),
    /// The last position in the database, and the last one that was acknowledged.
    pub positions: (Position, Position),
}

impl std::fmt::Display for CommitsLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { batches: (from, to), positions: (found, known) } = self;
        write!(
            f,
            "the database lacks acknowledged commits: batches {from} to {to} of the last owner, \
             position {found} was found and {known} was acknowledged"
        )
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process serves it.
    #[error(
        "{what} is served by another process ({owner}); stop that one, or use another folder \
         or database"
    )]
    Taken {
        /// The folder or database.
        what: String,
        /// The process, as far as it is known.
        owner: String,
    },
    /// It has another format.
    #[error(
        "{what} has format {found}, and this program reads format {known}; formats are not \
         converted before the first release: use the program that wrote it, or start with an empty \
         folder or database"
    )]
    Format {
        /// The folder or database.
        what: String,
        /// The format of the store.
        found: i64,
        /// The format that this program reads.
        known: i64,
    },
    /// It lacks acknowledged commits, and an operator has not accepted the loss.
    #[error(
        "{what} is not served: {lost}; restore them, \
         or start with --accept-loss to continue without them"
    )]
    CommitsLost {
        /// The database.
        what: String,
        /// The lost commits.
        lost: CommitsLost,
    },
    /// The file is not a store.
    #[error("{what} is not a steadfast store: {reason}")]
    Foreign {
        /// The file.
        what: String,
        /// The reason.
        reason: String,
    },
    /// The operating system or the database returned an error.
    #[error("{what} cannot be opened: {reason}")]
    Failed {
        /// The folder or database.
        what: String,
        /// The reason.
        reason: String,
    },
}
