//! The list of codes. Adding one makes the compiler ask for its status, title and whether to retry.

mod bucket;
#[cfg(test)]
mod tests;

use steadfast_core::{
    CallError, QueueError, RunError,
    object::{HistoryError, InspectError},
    process::InputError,
};
use steadfast_store::{Rejection, StoreError};

pub(crate) use self::bucket::BucketCode;

/// What clients may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    BadRequest,
    BadQuery,
    BadLimit,
    BadCursor,
    BadId,
    InvalidInput,
    InvalidName,
    InvalidId,
    InvalidKey,
    MalformedMessage,
    ForeignHost,
    ForeignOrigin,
    NotFound,
    UnknownProcess,
    UnknownMessage,
    ClassNotFound,
    MessageNotFound,
    WorkflowNotFound,
    RunNotFound,
    StepNotFound,
    WrongStatus,
    UnknownQueue,
    /// It is not in the queue, or not any more.
    MessageNotInQueue,
    InvalidSettings,
    InvalidBatch,
    MessageTooLarge,
    QueueFull,
    /// Of a queue, whose keys are its own.
    QueueKeyReused,
    /// Of a bucket.
    Bucket(BucketCode),
    /// The class takes no connections.
    NotLive,
    NotConnected,
    UpgradeRequired,
    TooManyConnections,
    UnknownObject,
    UnknownTurn,
    TurnForgotten,
    ClassNotServed,
    SqlRefused,
    SqlFailed,
    SqlTooLong,
    UnknownRoute,
    WrongMethod,
    NotRevivable,
    Conflict,
    BodyTooLarge,
    SlowRequest,
    KeyReused,
    WrongInstance,
    Refused,
    RolledBack,
    /// Somebody else was first.
    TurnLost,
    /// A handler called an object.
    Nested,
    Contended,
    Busy,
    Internal,
    Panicked,
    MigrationFailed,
    UnreadableReply,
    ObjectCorrupt,
    Corrupt,
    StoreUnavailable,
    OutcomeUnknown,
    Fenced,
    CommitsLost,
    StorageFailed,
    ReadOnly,
    Closed,
    DiskFull,
}

impl Code {
    /// The code of a store's error.
    pub(crate) fn of_store(error: &StoreError) -> Self {
        match error {
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
        }
    }

    /// The code of a rejected commit.
    pub(crate) fn of_rejection(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::KeyReused { .. } => Code::KeyReused,
            Rejection::NotSettled { .. } => Code::NotRevivable,
            Rejection::Version { .. }
            | Rejection::NotPending { .. }
            | Rejection::NotDue { .. }
            | Rejection::LeaseLost { .. }
            | Rejection::Head { .. }
            | Rejection::Part { .. }
            | Rejection::HasWork { .. }
            | Rejection::JustWritten { .. }
            | Rejection::Revision { .. }
            | Rejection::NotVacant { .. } => Code::Conflict,
        }
    }

    /// The code of an input that was not taken.
    pub(crate) fn of_input(error: &InputError) -> Self {
        match error {
            InputError::Codec(_) => Code::UnknownMessage,
            InputError::Process { .. } => Code::UnknownProcess,
            InputError::Instance { .. } => Code::WrongInstance,
            InputError::Refused(_) => Code::Refused,
            InputError::KeyReused { .. } => Code::KeyReused,
            InputError::Contended { .. } => Code::Contended,
            InputError::Name(_) => Code::InvalidInput,
            InputError::Store(error) => Code::of_store(error),
        }
    }

    /// The code of a call that got no reply.
    pub(crate) fn of_call(error: &CallError) -> Self {
        match error {
            CallError::UnknownClass { .. } => Code::ClassNotFound,
            CallError::UnknownMessage { .. } => Code::MessageNotFound,
            CallError::Name(_) => Code::InvalidName,
            CallError::Malformed { .. } => Code::MalformedMessage,
            CallError::Refused(_) => Code::Refused,
            CallError::Panicked { .. } => Code::Panicked,
            CallError::RolledBack { .. } => Code::RolledBack,
            CallError::Key { .. } => Code::InvalidKey,
            CallError::KeyReused { .. } => Code::KeyReused,
            CallError::Busy { .. } => Code::Busy,
            CallError::Migration { .. } => Code::MigrationFailed,
            CallError::Corrupt { .. } => Code::ObjectCorrupt,
            CallError::Lost { .. } => Code::TurnLost,
            CallError::Nested { .. } => Code::Nested,
            CallError::Reply { .. } => Code::UnreadableReply,
            CallError::NotLive { .. } => Code::NotLive,
            CallError::TooManyConnections { .. } => Code::TooManyConnections,
            CallError::NotConnected { .. } => Code::NotConnected,
            CallError::Store(error) => Code::of_store(error),
        }
    }

    /// The code of an object that cannot be looked at.
    pub(crate) fn of_inspect(error: &InspectError) -> Self {
        match error {
            InspectError::UnknownClass { .. } => Code::ClassNotFound,
            InspectError::UnknownObject { .. } => Code::UnknownObject,
            InspectError::Name(_) => Code::InvalidName,
            InspectError::History(HistoryError::NoTurn { .. }) => Code::UnknownTurn,
            InspectError::History(HistoryError::Forgotten { .. }) => Code::TurnForgotten,
            InspectError::History(HistoryError::Call(error)) => Code::of_call(error),
            InspectError::Refused { .. } => Code::SqlRefused,
            InspectError::Failed { .. } => Code::SqlFailed,
            InspectError::TooLong { .. } => Code::SqlTooLong,
            InspectError::Busy { .. } => Code::Busy,
            InspectError::Store(error) => Code::of_store(error),
        }
    }

    /// The code of what could not be done with a run.
    pub(crate) fn of_run(error: &RunError) -> Self {
        match error {
            RunError::UnknownWorkflow { .. } => Code::WorkflowNotFound,
            RunError::UnknownRun { .. } => Code::RunNotFound,
            RunError::InvalidId { .. } => Code::InvalidId,
            RunError::Malformed { .. } => Code::BadRequest,
            // Only typed handles say so, and no route has one.
            RunError::Failed { .. } | RunError::WrongStatus { .. } => Code::WrongStatus,
            RunError::UnknownStep { .. } => Code::StepNotFound,
            RunError::Name(_) => Code::InvalidName,
            RunError::Store(error) => Code::of_store(error),
        }
    }

    /// The code of what could not be done with a queue.
    pub(crate) fn of_queue(error: &QueueError) -> Self {
        match error {
            QueueError::UnknownQueue { .. } => Code::UnknownQueue,
            QueueError::Name { .. } => Code::InvalidName,
            QueueError::Setting { .. } | QueueError::Circle { .. } => Code::InvalidSettings,
            QueueError::Full { .. } => Code::QueueFull,
            QueueError::TooLarge { .. } => Code::MessageTooLarge,
            QueueError::BatchLength { .. } => Code::InvalidBatch,
            QueueError::Argument { .. } | QueueError::Invalid(_) => Code::InvalidInput,
            QueueError::UnknownMessage { .. } => Code::MessageNotInQueue,
            QueueError::KeyReused { .. } => Code::QueueKeyReused,
            QueueError::Store(error) => Code::of_store(error),
        }
    }

    /// The code as it is written.
    pub(crate) fn tag(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status that carries it.
    pub(crate) fn http_status(self) -> u16 {
        self.row().1
    }

    /// What sort of problem it is, for people.
    pub(crate) fn title(self) -> &'static str {
        self.row().2
    }

    /// Whether the same request may be sent again.
    pub(crate) fn retryable(self) -> bool {
        matches!(
            self,
            Code::Busy
                | Code::StoreUnavailable
                | Code::DiskFull
                | Code::Contended
                | Code::TurnLost
                | Code::TooManyConnections
                | Code::QueueFull
        )
    }

    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Code::BadRequest => ("bad_request", 400, "Bad request"),
            Code::BadQuery => ("bad_query", 400, "Bad query"),
            Code::BadLimit => ("bad_limit", 400, "Bad limit"),
            Code::BadCursor => ("bad_cursor", 400, "Bad cursor"),
            Code::BadId => ("bad_id", 400, "Bad id"),
            Code::InvalidInput => ("invalid_input", 400, "Invalid input"),
            Code::InvalidId => ("invalid_id", 400, "Invalid id"),
            Code::InvalidName => ("invalid_name", 400, "Invalid name"),
            Code::InvalidKey => ("invalid_key", 400, "Invalid idempotency key"),
            Code::MalformedMessage => ("malformed_message", 400, "Malformed message"),
            Code::ForeignHost => ("foreign_host", 403, "Foreign host"),
            Code::ForeignOrigin => ("foreign_origin", 403, "Foreign origin"),
            Code::NotFound => ("not_found", 404, "Not found"),
            Code::UnknownProcess => ("unknown_process", 404, "Unknown process"),
            Code::UnknownMessage => ("unknown_message", 400, "Unknown message"),
            Code::ClassNotFound => ("class_not_found", 404, "Class not found"),
            Code::MessageNotFound => ("message_not_found", 404, "Message not found"),
            Code::WorkflowNotFound => ("workflow_not_found", 404, "Workflow not found"),
            Code::RunNotFound => ("run_not_found", 404, "Run not found"),
            Code::StepNotFound => ("step_not_found", 422, "Step not recorded"),
            Code::WrongStatus => ("wrong_status", 409, "Not possible in this state"),
            Code::UnknownQueue => ("unknown_queue", 404, "Unknown queue"),
            Code::MessageNotInQueue => ("unknown_message", 404, "Message not in this queue"),
            Code::InvalidSettings => ("invalid_settings", 400, "Invalid settings"),
            Code::InvalidBatch => ("invalid_batch", 400, "Invalid batch"),
            Code::MessageTooLarge => ("message_too_large", 413, "Message too large"),
            Code::QueueFull => ("queue_full", 429, "Queue full"),
            Code::QueueKeyReused => ("key_reused", 409, "Idempotency key reused"),
            Code::Bucket(code) => code.row(),
            Code::NotLive => ("not_live", 404, "Class takes no connections"),
            Code::NotConnected => ("not_connected", 409, "Connection has ended"),
            Code::UpgradeRequired => ("upgrade_required", 426, "Upgrade required"),
            Code::TooManyConnections => ("too_many_connections", 429, "Too many connections"),
            Code::UnknownObject => ("unknown_object", 404, "Unknown object"),
            Code::UnknownTurn => ("unknown_turn", 404, "Unknown turn"),
            Code::TurnForgotten => ("turn_forgotten", 410, "Turn no longer kept"),
            Code::ClassNotServed => ("class_not_served", 409, "Class not served here"),
            Code::SqlRefused => ("sql_refused", 422, "Statement refused"),
            Code::SqlFailed => ("sql_failed", 422, "Statement failed"),
            Code::SqlTooLong => ("sql_too_long", 422, "Statement took too long"),
            Code::UnknownRoute => ("unknown_route", 404, "Unknown route"),
            Code::WrongMethod => ("wrong_method", 405, "Wrong method"),
            Code::NotRevivable => ("not_revivable", 409, "Not dead or cancelled"),
            Code::Conflict => ("conflict", 409, "Conflict"),
            Code::BodyTooLarge => ("body_too_large", 413, "Body too large"),
            Code::SlowRequest => ("slow_request", 408, "Request too slow"),
            Code::KeyReused => ("key_reused", 422, "Idempotency key reused"),
            Code::WrongInstance => ("wrong_instance", 422, "Input of another instance"),
            Code::Refused => ("refused", 422, "Refused"),
            // The request is the cause: a limit that it meets, or an error that its handler hides.
            Code::RolledBack => ("turn_rolled_back", 422, "Turn rolled back"),
            Code::Contended => ("contended", 409, "Changed by others at the same time"),
            Code::Busy => ("busy", 429, "Busy"),
            Code::TurnLost => ("turn_lost", 503, "Turn not committed"),
            Code::Nested => ("nested_call", 500, "Object called from a handler"),
            Code::Internal => ("internal", 500, "Internal error"),
            Code::Panicked => ("handler_panicked", 500, "Handler panicked"),
            Code::MigrationFailed => ("migration_failed", 500, "Object cannot be migrated"),
            Code::UnreadableReply => ("unreadable_reply", 500, "Reply cannot be read"),
            Code::ObjectCorrupt => ("object_corrupt", 500, "Stored object is damaged"),
            Code::Corrupt => ("corrupt", 500, "Stored data is damaged"),
            Code::StoreUnavailable => ("store_unavailable", 503, "Store not reachable"),
            Code::OutcomeUnknown => ("outcome_unknown", 503, "Outcome unknown"),
            Code::Fenced => ("fenced", 503, "Another process took over"),
            Code::CommitsLost => ("commits_lost", 503, "Acknowledged commits are missing"),
            Code::StorageFailed => ("storage_failed", 503, "Storage failed"),
            Code::ReadOnly => ("read_only", 409, "Read-only"),
            Code::Closed => ("closed", 503, "Store closed"),
            Code::DiskFull => ("disk_full", 507, "Disk full"),
        }
    }
}
