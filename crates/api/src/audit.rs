//! The audit log.

use serde::{Deserialize, Serialize};
use steadfast_core::AuditRecord;
use utoipa::ToSchema;

use crate::{
    Page,
    operation::{operation, requests},
    rfc3339,
};

requests! {
    /// List the audit log, newest first: logins, refused requests, and changes.
    paged ListAudit {} => Page<AuditEntry>, Get "/v1/audit", Operator, errors [];
}

/// A record of the audit log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Its number, from 1.
    pub number: i64,
    /// When it was written.
    #[schema(format = DateTime)]
    pub at: String,
    /// The id of the token; none without a valid credential.
    pub token: Option<String>,
    /// The address of the client.
    pub client: String,
    /// The method and the route.
    pub action: String,
    /// The path.
    pub target: String,
    /// The status of the response, or the code of the refusal.
    pub outcome: String,
    /// The id of the request.
    pub request_id: String,
    /// The hash of this record.
    pub hash: String,
    /// The hash of the record before.
    pub previous: String,
}

impl From<AuditRecord> for AuditEntry {
    fn from(it: AuditRecord) -> Self {
        let AuditRecord { number, at, event, previous, hash } = it;
        Self {
            number,
            at: rfc3339(at),
            token: event.token,
            client: event.client,
            action: event.action,
            target: event.target,
            outcome: event.outcome,
            request_id: event.request_id,
            hash,
            previous,
        }
    }
}
