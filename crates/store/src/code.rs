//! The closed list of error codes, one row for each: its text, its HTTP status, the advice to the
//! caller, a title and its meaning. Errors of all crates refer to it.

/// The next step of a caller after an error.
#[derive(PartialEq)]
enum Advice {
    /// Nothing changed, and the same request will not succeed.
    GiveUp,
    /// Nothing changed, and the same request may succeed if it is sent again.
    Retry,
    /// Something may have changed: read the state, or repeat the request with its key.
    Check,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident $tag:literal $status:literal $advice:ident
       $title:literal,)*) => {
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

            fn advice(self) -> Advice {
                match self { $(Code::$name => Advice::$advice),* }
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
    BadRequest "bad_request" 400 GiveUp "Bad request",
    /// The request can be read, but a value is out of its range or not allowed.
    InvalidInput "invalid_input" 400 GiveUp "Invalid input",
    /// The text cannot be the name or id of such a thing.
    InvalidName "invalid_name" 400 GiveUp "Invalid name",
    /// The text cannot be an idempotency key or the key of a blob.
    InvalidKey "invalid_key" 400 GiveUp "Invalid key",
    /// The message is not one that its receiver can decode.
    MalformedMessage "malformed_message" 400 GiveUp "Malformed message",
    /// The bytes that arrived do not have the checksum that was sent with them.
    ChecksumMismatch "checksum_mismatch" 400 GiveUp "Checksum differs",
    /// The request needs a credential: a token, or a session of the console.
    TokenNeeded "token_needed" 401 GiveUp "Token needed",
    /// No token or session has this text.
    TokenUnknown "token_unknown" 401 GiveUp "Unknown token",
    /// The token or the session has expired.
    TokenExpired "token_expired" 401 GiveUp "Token expired",
    /// The token was revoked.
    TokenRevoked "token_revoked" 401 GiveUp "Token revoked",
    /// The route needs another role, or a token for the whole platform.
    RoleNeeded "role_needed" 403 GiveUp "Role needed",
    /// The scopes of the token do not allow this.
    ScopeNeeded "scope_needed" 403 GiveUp "Scope needed",
    /// The request is plain HTTP, and the port speaks TLS, or serves its proxies only.
    TlsNeeded "tls_needed" 400 GiveUp "TLS needed",
    /// The request came through a proxy, but access is open: only this machine may call.
    ForwardedInOpenMode "forwarded_when_open" 403 GiveUp "Proxy in front of open access",
    /// The request names a host that this server is not.
    ForeignHost "foreign_host" 403 GiveUp "Foreign host",
    /// The request comes from a page of another origin.
    ForeignOrigin "foreign_origin" 403 GiveUp "Foreign origin",
    /// No route has this path.
    RouteNotFound "route_not_found" 404 GiveUp "Route not found",
    /// The program has no such class.
    ClassNotFound "class_not_found" 404 GiveUp "Class not found",
    /// No such object.
    ObjectNotFound "object_not_found" 404 GiveUp "Object not found",
    /// No such turn, or it is not kept any more.
    TurnNotFound "turn_not_found" 404 GiveUp "Turn not found",
    /// No such message, or the receiver takes none of this name.
    MessageNotFound "message_not_found" 404 GiveUp "Message not found",
    /// The program has no such workflow.
    WorkflowNotFound "workflow_not_found" 404 GiveUp "Workflow not found",
    /// No such run.
    RunNotFound "run_not_found" 404 GiveUp "Run not found",
    /// The run has recorded no such step.
    StepNotFound "step_not_found" 404 GiveUp "Step not found",
    /// The program has no such process.
    ProcessNotFound "process_not_found" 404 GiveUp "Process not found",
    /// No such instance of a process.
    InstanceNotFound "instance_not_found" 404 GiveUp "Instance not found",
    /// No such queue.
    QueueNotFound "queue_not_found" 404 GiveUp "Queue not found",
    /// No such bucket.
    BucketNotFound "bucket_not_found" 404 GiveUp "Bucket not found",
    /// The bucket has no such key.
    BlobNotFound "blob_not_found" 404 GiveUp "Blob not found",
    /// No such multipart upload.
    UploadNotFound "upload_not_found" 404 GiveUp "Upload not found",
    /// The bucket has no such rule.
    RuleNotFound "rule_not_found" 404 GiveUp "Rule not found",
    /// No such stream.
    StreamNotFound "stream_not_found" 404 GiveUp "Stream not found",
    /// No such S3 key.
    KeyNotFound "key_not_found" 404 GiveUp "Key not found",
    /// No such token.
    TokenNotFound "token_not_found" 404 GiveUp "Token not found",
    /// No such session, or it is one of another token.
    SessionNotFound "session_not_found" 404 GiveUp "Session not found",
    /// The organization has no quota.
    QuotaNotFound "quota_not_found" 404 GiveUp "Quota not found",
    /// The route has no such method.
    WrongMethod "wrong_method" 405 GiveUp "Wrong method",
    /// The body did not arrive in time.
    SlowRequest "slow_request" 408 GiveUp "Request too slow",
    /// The request conflicts with the current state; the same request will not succeed.
    Conflict "conflict" 409 GiveUp "Conflict",
    /// Concurrent requests changed the same item.
    Contended "contended" 409 Retry "Concurrent change",
    /// Not possible in the current state.
    WrongStatus "wrong_status" 409 GiveUp "Not possible in this state",
    /// The idempotency key was used for another request, or for a secret that is shown once.
    KeyReused "key_reused" 409 GiveUp "Idempotency key reused",
    /// The store is open for reading only.
    ReadOnly "read_only" 409 GiveUp "Read-only",
    /// The blob has not changed since the caller read it.
    NotModified "not_modified" 304 GiveUp "Not modified",
    /// The blob does not meet the condition of the request.
    PreconditionFailed "precondition_failed" 412 GiveUp "Precondition failed",
    /// A body, a message, a blob or its metadata is larger than its limit.
    TooLarge "too_large" 413 GiveUp "Too large",
    /// The blob or part is larger than all that its organization may store.
    QuotaTooLarge "quota_too_large" 413 GiveUp "Larger than the quota",
    /// The range begins after the end of the blob.
    RangeNotSatisfiable "range_not_satisfiable" 416 GiveUp "Range not satisfiable",
    /// The route is for WebSockets or server-sent events.
    UpgradeRequired "upgrade_required" 426 GiveUp "Upgrade required",
    /// An object or process refused the message; objects give codes of their own.
    Refused "refused" 422 GiveUp "Refused",
    /// A limit stopped the turn, or its transaction failed; nothing was changed.
    TurnRolledBack "turn_rolled_back" 422 GiveUp "Turn rolled back",
    /// The statement failed, took too long, or may not be run here.
    SqlFailed "sql_failed" 422 GiveUp "Statement failed",
    /// Too many requests, calls or connections at this moment.
    Busy "busy" 429 Retry "Busy",
    /// The token has sent more requests than its rate allows.
    RateLimited "rate_limited" 429 Retry "Too many requests",
    /// The queue holds as many messages as it may.
    QueueFull "queue_full" 429 Retry "Queue full",
    /// The organization has spent what it may spend in this month.
    QuotaSpend "quota_spend" 429 GiveUp "Spend quota reached",
    /// A defect of the server; the log has the details.
    Internal "internal" 500 Check "Internal error",
    /// The handler panicked; nothing was changed.
    HandlerPanicked "handler_panicked" 500 GiveUp "Handler panicked",
    /// A migration of the class failed on this object.
    MigrationFailed "migration_failed" 500 GiveUp "Migration failed",
    /// Stored data is damaged.
    Corrupt "corrupt" 500 Check "Stored data is damaged",
    /// The content of a blob has other bytes than were written.
    BlobDamaged "blob_damaged" 500 GiveUp "Content is damaged",
    /// A file of a blob is missing.
    BlobMissing "blob_missing" 500 GiveUp "Content is missing",
    /// The database cannot be reached; nothing was written.
    StoreUnavailable "store_unavailable" 503 Retry "Store unavailable",
    /// All places for requests are taken.
    ServerFull "server_full" 503 Retry "Server full",
    /// The key that seals secrets is missing or another one; other requests work.
    SealKeyMissing "seal_key_missing" 503 GiveUp "Seal key missing",
    /// The turn was not committed; nothing was changed.
    TurnLost "turn_lost" 503 Retry "Turn not committed",
    /// The commit may or may not have been applied.
    OutcomeUnknown "outcome_unknown" 503 Check "Outcome unknown",
    /// Another process owns the store now.
    Fenced "fenced" 503 GiveUp "Another process took over",
    /// The database lacks commits that were acknowledged.
    CommitsLost "commits_lost" 503 GiveUp "Acknowledged commits are missing",
    /// The disk or the database failed; the process must be restarted.
    StorageFailed "storage_failed" 503 Check "Storage failed",
    /// The program is stopping.
    Closed "closed" 503 Check "Closed",
    /// The disk is full; nothing was written.
    DiskFull "disk_full" 507 Retry "Disk full",
    /// The organization stores as many bytes as it may; nothing was written.
    QuotaBytes "quota_bytes" 507 GiveUp "Quota of bytes reached",
    /// The organization stores as many blobs as it may; nothing was written.
    QuotaObjects "quota_objects" 507 GiveUp "Quota of objects reached",
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
        self.advice() == Advice::Retry
    }

    /// Whether the request certainly changed nothing. After the other codes, a client must read the
    /// state, or repeat the request with its idempotency key.
    pub fn surely_unapplied(self) -> bool {
        self.advice() != Advice::Check
    }

    /// The rule for statuses of codes that are not in this list, those of applications: whether the
    /// same request may succeed if it is sent again.
    pub fn is_passing(status: u16) -> bool {
        matches!(status, 429 | 503)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_code_has_one_row_whose_facts_agree() {
        let tags: BTreeSet<&str> = Code::ALL.iter().map(|it| it.tag()).collect();
        assert_eq!(tags.len(), Code::ALL.len());
        for code in Code::ALL {
            assert_eq!(Code::of_tag(code.tag()), Some(*code));
            assert_eq!(code.tag().ends_with("_not_found"), code.status() == 404, "{code:?}");
            assert!(code.surely_unapplied() || !code.is_retryable(), "{code:?}");
            assert!(code.meaning().ends_with('.') && !code.title().is_empty(), "{code:?}");
        }
    }
}
