//! Sessions of browsers: list, end.

use serde::{Deserialize, Serialize};
pub use steadfast_core::Session;
use utoipa::ToSchema;

use crate::{
    Page,
    operation::{operation, requests},
};

requests! {
    /// List the sessions of browsers. An admin of the platform sees all, others see those of their
    /// token. A page may be shorter than its limit.
    paged ListSessions {} => Page<Session>, Get "/v1/sessions", Viewer, scope Caller, errors [];

    /// End a session of a browser at once, with its WebSockets and event streams.
    plain EndSession {
        /// Id of the session
        id: String,
    } => EndedSession, Delete "/v1/sessions/{id}", Viewer, scope Caller,
        errors [SessionNotFound, ReadOnly, DiskFull, OutcomeUnknown];
}

/// A session that was ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EndedSession {
    /// Its id.
    pub id: String,
}
