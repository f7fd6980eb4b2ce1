//! Sessions of browsers: list, end.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Page,
    operation::{operation, requests},
    rfc3339,
};

requests! {
    /// List the sessions of browsers. An admin of the platform sees all, others see those of their
    /// token. A page may be shorter than its limit.
    paged ListSessions {} => Page<Session>, Get "/v1/sessions", Viewer, errors [];

    /// End a session of a browser at once, with its WebSockets and event streams.
    plain EndSession {
        /// Id of the session
        id: String,
    } => EndedSession, Delete "/v1/sessions/{id}", Viewer,
        errors [SessionNotFound, ReadOnly, DiskFull, OutcomeUnknown];
}

/// A session of a browser.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id, which is no credential.
    pub id: String,
    /// The id of its token.
    pub token: String,
    /// The name of its token; null for none.
    pub name: Option<String>,
    /// The organization of its token; null for the whole platform.
    pub organization: Option<String>,
    /// The role of its token: `viewer`, `member`, `operator` or `admin`.
    pub role: String,
    /// The address from which it was begun; null if that is unknown.
    pub client: Option<String>,
    /// When it began.
    #[schema(format = DateTime)]
    pub begun_at: String,
    /// When it was last used, to five minutes.
    #[schema(format = DateTime)]
    pub last_used_at: String,
    /// When it ends if it is not used again.
    #[schema(format = DateTime)]
    pub ends_at: String,
}

/// A session that was ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct EndedSession {
    /// Its id.
    pub id: String,
}

impl From<steadfast_core::Session> for Session {
    fn from(it: steadfast_core::Session) -> Self {
        Self {
            id: it.id,
            token: it.token,
            name: it.name,
            organization: it.organization,
            role: it.role.name().to_owned(),
            client: it.client,
            begun_at: rfc3339(it.begun_at),
            last_used_at: rfc3339(it.last_used_at),
            ends_at: rfc3339(it.ends_at),
        }
    }
}
