//! The closed list of error codes. The compiler requires a status, a title and a retry rule for
//! each.

#[cfg(test)]
mod tests;

use steadfast_bucket::{BucketError, QuotaError};
use steadfast_core::{
    CallError, KeyError, QueueError, RunError,
    object::{HistoryError, InspectError},
    process::InputError,
};
use steadfast_store::{Rejection, SealError, StoreError};

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident $tag:literal $status:literal $title:literal,)*) => {
        /// An error code. Clients may depend on it. Applications add their own codes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])* $name,)*
        }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The code as text.
            pub fn tag(self) -> &'static str {
                match self { $(Code::$name => $tag),* }
            }

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$name => $status),* }
            }

            /// Its meaning.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc),*).trim_start()),* }
            }

            /// A short name for people.
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title),* }
            }
        }
    };
}

codes! {
    /// The path, the query, a header or the body cannot be read.
    BadRequest "bad_request" 400 "Bad request",
    /// The request can be read, but a value is out of its range or not allowed.
    InvalidInput "invalid_input" 400 "Invalid input",
    /// The text cannot be the name or id of such a thing.
    InvalidName "invalid_name" 400 "Invalid name",
    /// The text cannot be an idempotency key or the key of a blob.
    InvalidKey "invalid_key" 400 "Invalid key",
    /// The message is not one that its receiver can decode.
    MalformedMessage "malformed_message" 400 "Malformed message",
    /// The bytes that arrived do not have the checksum that was sent with them.
    ChecksumMismatch "checksum_mismatch" 400 "Checksum differs",
    /// The request needs a credential: a token, or a session of the console.
    TokenNeeded "token_needed" 401 "Token needed",
    /// No token or session has this text.
    TokenUnknown "token_unknown" 401 "Unknown token",
    /// The token or the session has expired.
    TokenExpired "token_expired" 401 "Token expired",
    /// The token was revoked.
    TokenRevoked "token_revoked" 401 "Token revoked",
    /// The route needs another role, or a token for the whole platform.
    RoleNeeded "role_needed" 403 "Role needed",
    /// The scopes of the token do not allow this.
    ScopeNeeded "scope_needed" 403 "Scope needed",
    /// The request is plain HTTP, and the port speaks TLS, or serves its proxies only.
    TlsNeeded "tls_needed" 400 "TLS needed",
    /// The request came through a proxy, but access is open: only this machine may call.
    ForwardedInOpenMode "forwarded_when_open" 403 "Proxy in front of open access",
    /// The request names a host that this server is not.
    ForeignHost "foreign_host" 403 "Foreign host",
    /// The request comes from a page of another origin.
    ForeignOrigin "foreign_origin" 403 "Foreign origin",
    /// No route has this path.
    RouteNotFound "route_not_found" 404 "Route not found",
    /// The program has no such class.
    ClassNotFound "class_not_found" 404 "Class not found",
    /// No such object.
    ObjectNotFound "object_not_found" 404 "Object not found",
    /// No such turn, or it is not kept any more.
    TurnNotFound "turn_not_found" 404 "Turn not found",
    /// No such message, or the receiver takes none of this name.
    MessageNotFound "message_not_found" 404 "Message not found",
    /// The program has no such workflow.
    WorkflowNotFound "workflow_not_found" 404 "Workflow not found",
    /// No such run.
    RunNotFound "run_not_found" 404 "Run not found",
    /// The run has recorded no such step.
    StepNotFound "step_not_found" 404 "Step not found",
    /// The program has no such process.
    ProcessNotFound "process_not_found" 404 "Process not found",
    /// No such instance of a process.
    InstanceNotFound "instance_not_found" 404 "Instance not found",
    /// No such queue.
    QueueNotFound "queue_not_found" 404 "Queue not found",
    /// No such bucket.
    BucketNotFound "bucket_not_found" 404 "Bucket not found",
    /// The bucket has no such key.
    BlobNotFound "blob_not_found" 404 "Blob not found",
    /// No such multipart upload.
    UploadNotFound "upload_not_found" 404 "Upload not found",
    /// The bucket has no such rule.
    RuleNotFound "rule_not_found" 404 "Rule not found",
    /// No such stream.
    StreamNotFound "stream_not_found" 404 "Stream not found",
    /// No such S3 key.
    KeyNotFound "key_not_found" 404 "Key not found",
    /// No such token.
    TokenNotFound "token_not_found" 404 "Token not found",
    /// No such session, or it is one of another token.
    SessionNotFound "session_not_found" 404 "Session not found",
    /// The organization has no quota.
    QuotaNotFound "quota_not_found" 404 "Quota not found",
    /// The route has no such method.
    WrongMethod "wrong_method" 405 "Wrong method",
    /// The body did not arrive in time.
    SlowRequest "slow_request" 408 "Request too slow",
    /// The request conflicts with the current state; the same request will not succeed.
    Conflict "conflict" 409 "Conflict",
    /// Concurrent requests changed the same item.
    Contended "contended" 409 "Concurrent change",
    /// Not possible in the current state.
    WrongStatus "wrong_status" 409 "Not possible in this state",
    /// The idempotency key was used for another request, or for a secret that is shown once.
    KeyReused "key_reused" 409 "Idempotency key reused",
    /// The store is open for reading only.
    ReadOnly "read_only" 409 "Read-only",
    /// The blob has not changed since the caller read it.
    NotModified "not_modified" 304 "Not modified",
    /// The blob does not meet the condition of the request.
    PreconditionFailed "precondition_failed" 412 "Precondition failed",
    /// A body, a message, a blob or its metadata is larger than its limit.
    TooLarge "too_large" 413 "Too large",
    /// The blob or part is larger than all that its organization may store.
    QuotaTooLarge "quota_too_large" 413 "Larger than the quota",
    /// The range begins after the end of the blob.
    RangeNotSatisfiable "range_not_satisfiable" 416 "Range not satisfiable",
    /// The route is for WebSockets or server-sent events.
    UpgradeRequired "upgrade_required" 426 "Upgrade required",
    /// An object or process refused the message; objects give codes of their own.
    Refused "refused" 422 "Refused",
    /// A limit stopped the turn, or its transaction failed; nothing was changed.
    TurnRolledBack "turn_rolled_back" 422 "Turn rolled back",
    /// The statement failed, took too long, or may not be run here.
    SqlFailed "sql_failed" 422 "Statement failed",
    /// Too many requests, calls or connections at this moment.
    Busy "busy" 429 "Busy",
    /// The token has sent more requests than its rate allows.
    RateLimited "rate_limited" 429 "Too many requests",
    /// The queue holds as many messages as it may.
    QueueFull "queue_full" 429 "Queue full",
    /// The organization has spent what it may spend in this month.
    QuotaSpend "quota_spend" 429 "Spend quota reached",
    /// A defect of the server; the log has the details.
    Internal "internal" 500 "Internal error",
    /// The handler panicked; nothing was changed.
    HandlerPanicked "handler_panicked" 500 "Handler panicked",
    /// A migration of the class failed on this object.
    MigrationFailed "migration_failed" 500 "Migration failed",
    /// Stored data is damaged.
    Corrupt "corrupt" 500 "Stored data is damaged",
    /// The content of a blob has other bytes than were written.
    BlobDamaged "blob_damaged" 500 "Content is damaged",
    /// A file of a blob is missing.
    BlobMissing "blob_missing" 500 "Content is missing",
    /// The database cannot be reached; nothing was written.
    StoreUnavailable "store_unavailable" 503 "Store unavailable",
    /// All places for requests are taken.
    ServerFull "server_full" 503 "Server full",
    /// The key that seals secrets is missing or another one; other requests work.
    SealKeyMissing "seal_key_missing" 503 "Seal key missing",
    /// The turn was not committed; nothing was changed.
    TurnLost "turn_lost" 503 "Turn not committed",
    /// The commit may or may not have been applied.
    OutcomeUnknown "outcome_unknown" 503 "Outcome unknown",
    /// Another process owns the store now.
    Fenced "fenced" 503 "Another process took over",
    /// The database lacks commits that were acknowledged.
    CommitsLost "commits_lost" 503 "Acknowledged commits are missing",
    /// The disk or the database failed; the process must be restarted.
    StorageFailed "storage_failed" 503 "Storage failed",
    /// The program is stopping.
    Closed "closed" 503 "Closed",
    /// The disk is full; nothing was written.
    DiskFull "disk_full" 507 "Disk full",
    /// The organization stores as many bytes as it may; nothing was written.
    QuotaBytes "quota_bytes" 507 "Quota of bytes reached",
    /// The organization stores as many blobs as it may; nothing was written.
    QuotaObjects "quota_objects" 507 "Quota of objects reached",
}

impl Code {
    /// Codes that every request may get: it is not admitted, cannot be parsed or is too slow, the
    /// server is busy or stops, or the store reports an error.
    pub const GENERAL: &'static [Self] = &[
        Self::BadRequest,
        Self::TokenNeeded,
        Self::TokenUnknown,
        Self::TokenExpired,
        Self::TokenRevoked,
        Self::RoleNeeded,
        Self::ScopeNeeded,
        Self::TlsNeeded,
        Self::ForwardedInOpenMode,
        Self::ForeignHost,
        Self::ForeignOrigin,
        Self::SlowRequest,
        Self::RateLimited,
        Self::Busy,
        Self::ServerFull,
        Self::Internal,
        Self::Corrupt,
        Self::StoreUnavailable,
        Self::Fenced,
        Self::CommitsLost,
        Self::StorageFailed,
        Self::Closed,
    ];

    /// Codes that every changing request may get.
    pub const OF_CHANGES: [Self; 3] = [Self::ReadOnly, Self::DiskFull, Self::OutcomeUnknown];

    /// The code with this text.
    pub fn of_tag(tag: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.tag() == tag)
    }

    /// Whether the same request may succeed if it is sent again.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Busy
                | Self::RateLimited
                | Self::QueueFull
                | Self::ServerFull
                | Self::Contended
                | Self::TurnLost
                | Self::StoreUnavailable
                | Self::DiskFull
        )
    }

    /// Whether the request certainly changed nothing. After the other codes, a client must read the
    /// state, or repeat the request with its idempotency key.
    pub fn is_surely_not_applied(self) -> bool {
        !matches!(
            self,
            Self::OutcomeUnknown
                | Self::Internal
                | Self::StorageFailed
                | Self::Corrupt
                | Self::Closed
        )
    }

    /// The code of an error of the store.
    pub fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Invalid(_) => Self::InvalidInput,
            StoreError::Busy { .. } => Self::Busy,
            StoreError::DiskFull => Self::DiskFull,
            StoreError::Unavailable { .. } => Self::StoreUnavailable,
            StoreError::Unknown { .. } => Self::OutcomeUnknown,
            StoreError::Fenced { .. } => Self::Fenced,
            StoreError::CommitsLost { .. } => Self::CommitsLost,
            StoreError::Failed { .. } => Self::StorageFailed,
            StoreError::Corrupt { .. } => Self::Corrupt,
            StoreError::ReadOnly => Self::ReadOnly,
            StoreError::Closed => Self::Closed,
            StoreError::Remote(problem) => Self::of_tag(problem.code).unwrap_or(Self::Internal),
        }
    }

    /// The code of a commit that was rejected.
    pub fn of_rejection(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::KeyReused { .. } => Self::KeyReused,
            Rejection::NotSettled { .. } => Self::WrongStatus,
            Rejection::Version { .. }
            | Rejection::NotPending { .. }
            | Rejection::NotDue { .. }
            | Rejection::LeaseLost { .. }
            | Rejection::Head { .. }
            | Rejection::Part { .. }
            | Rejection::HasWork { .. }
            | Rejection::JustWritten { .. }
            | Rejection::Revision { .. }
            | Rejection::NotVacant { .. } => Self::Contended,
        }
    }

    /// The code of an input that a process did not accept.
    pub fn of_input(error: &InputError) -> Self {
        match error {
            InputError::Codec(_) => Self::MalformedMessage,
            InputError::Process { .. } => Self::ProcessNotFound,
            InputError::Refused(_) => Self::Refused,
            InputError::KeyReused { .. } => Self::KeyReused,
            InputError::Contended { .. } => Self::Contended,
            InputError::Instance { .. } | InputError::Name(_) => Self::InvalidInput,
            InputError::Store(error) => Self::of_store(error),
        }
    }

    /// The code of a call without a reply.
    pub fn of_call(error: &CallError) -> Self {
        match error {
            CallError::UnknownClass { .. } => Self::ClassNotFound,
            CallError::UnknownMessage { .. } => Self::MessageNotFound,
            CallError::Name(_) => Self::InvalidName,
            CallError::Malformed { .. } => Self::MalformedMessage,
            CallError::Refused(_) => Self::Refused,
            CallError::Panicked { .. } => Self::HandlerPanicked,
            CallError::RolledBack { .. } => Self::TurnRolledBack,
            CallError::Key { .. } => Self::InvalidKey,
            CallError::KeyReused { .. } => Self::KeyReused,
            CallError::Busy { .. } | CallError::TooManyConnections { .. } => Self::Busy,
            CallError::Migration { .. } => Self::MigrationFailed,
            CallError::Corrupt { .. } => Self::Corrupt,
            CallError::Lost { .. } => Self::TurnLost,
            CallError::Nested { .. } | CallError::Reply { .. } => Self::Internal,
            CallError::NotLive { .. } | CallError::NotConnected { .. } => Self::Conflict,
            CallError::Store(error) => Self::of_store(error),
        }
    }

    /// The code of a failed inspection of an object.
    pub fn of_inspect(error: &InspectError) -> Self {
        match error {
            InspectError::UnknownClass { .. } => Self::ClassNotFound,
            InspectError::UnknownObject { .. } => Self::ObjectNotFound,
            InspectError::Name(_) => Self::InvalidName,
            InspectError::History(HistoryError::NoTurn { .. } | HistoryError::Forgotten { .. }) => {
                Self::TurnNotFound
            }
            InspectError::History(HistoryError::Call(error)) => Self::of_call(error),
            InspectError::Refused { .. }
            | InspectError::Failed { .. }
            | InspectError::TooLong { .. } => Self::SqlFailed,
            InspectError::Busy { .. } => Self::Busy,
            InspectError::Store(error) => Self::of_store(error),
        }
    }

    /// The code of an operation on a run.
    pub fn of_run(error: &RunError) -> Self {
        match error {
            RunError::UnknownWorkflow { .. } => Self::WorkflowNotFound,
            RunError::UnknownRun { .. } => Self::RunNotFound,
            RunError::UnknownStep { .. } => Self::StepNotFound,
            RunError::InvalidId { .. } | RunError::Name(_) => Self::InvalidName,
            RunError::Malformed { .. } => Self::MalformedMessage,
            // Only typed handles report a failed run, and no route has one.
            RunError::Failed { .. } | RunError::WrongStatus { .. } => Self::WrongStatus,
            RunError::KeyReused { .. } => Self::KeyReused,
            RunError::Store(error) => Self::of_store(error),
        }
    }

    /// The code of an idempotency key that cannot be used.
    pub fn of_key(error: &KeyError) -> Self {
        match error {
            KeyError::Reused { .. } => Self::KeyReused,
            KeyError::Store(error) => Self::of_store(error),
        }
    }

    /// The code of an operation on a queue.
    pub fn of_queue(error: &QueueError) -> Self {
        match error {
            QueueError::UnknownQueue { .. } => Self::QueueNotFound,
            QueueError::UnknownMessage { .. } => Self::MessageNotFound,
            QueueError::Name { .. } => Self::InvalidName,
            QueueError::Full { .. } => Self::QueueFull,
            QueueError::TooLarge { .. } => Self::TooLarge,
            QueueError::Setting { .. }
            | QueueError::Cycle { .. }
            | QueueError::BatchLength { .. }
            | QueueError::Argument { .. }
            | QueueError::Invalid(_) => Self::InvalidInput,
            QueueError::KeyReused { .. } => Self::KeyReused,
            QueueError::Store(error) => Self::of_store(error),
        }
    }

    /// The code of an operation on a bucket.
    pub fn of_bucket(error: &BucketError) -> Self {
        match error {
            BucketError::Name { .. } => Self::InvalidName,
            BucketError::Key { .. } => Self::InvalidKey,
            BucketError::UnknownBucket { .. } => Self::BucketNotFound,
            BucketError::UnknownBlob { .. } => Self::BlobNotFound,
            BucketError::UnknownUpload { .. } => Self::UploadNotFound,
            BucketError::UnknownRule { .. } => Self::RuleNotFound,
            BucketError::BucketExists { .. }
            | BucketError::NotEmpty { .. }
            | BucketError::Overlap { .. }
            | BucketError::Replaced { .. } => Self::Conflict,
            BucketError::Condition { .. } => Self::PreconditionFailed,
            BucketError::NotModified { .. } => Self::NotModified,
            BucketError::Range { .. } => Self::RangeNotSatisfiable,
            BucketError::Length { .. } | BucketError::Body { .. } => Self::BadRequest,
            BucketError::Checksum { .. } => Self::ChecksumMismatch,
            BucketError::TooLarge { .. } | BucketError::Metadata { .. } => Self::TooLarge,
            BucketError::Part { .. } | BucketError::Argument { .. } => Self::InvalidInput,
            BucketError::Repeated { .. } | BucketError::KeyReused { .. } => Self::KeyReused,
            BucketError::Quota(error) => Self::of_quota(error),
            BucketError::DiskFull => Self::DiskFull,
            BucketError::Files { .. } => Self::StorageFailed,
            BucketError::Damaged { .. } => Self::BlobDamaged,
            BucketError::Missing { .. } => Self::BlobMissing,
            BucketError::Store(error) => Self::of_store(error),
            BucketError::Seal(error) => Self::of_seal(error),
        }
    }

    /// The code of a quota that does not allow a change.
    pub fn of_quota(error: &QuotaError) -> Self {
        match error {
            QuotaError::TooLarge { .. } => Self::QuotaTooLarge,
            QuotaError::Bytes { .. } => Self::QuotaBytes,
            QuotaError::Objects { .. } => Self::QuotaObjects,
            QuotaError::Spend { .. } => Self::QuotaSpend,
        }
    }

    /// The code of a secret that cannot be used.
    pub fn of_seal(error: &SealError) -> Self {
        match error {
            SealError::KeyMissing { .. } => Self::SealKeyMissing,
            SealError::Changed { .. } => Self::Corrupt,
            SealError::Failed { .. } => Self::StoreUnavailable,
        }
    }
}
