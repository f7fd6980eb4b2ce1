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
    /// List the audit log, newest first: logins, refused requests, and changes. With a filter a
    /// page may have fewer rows than its limit, or none, and a next one.
    paged ListAudit {} with {
        /// Filter by the id or name of a token or access key, or the address of a client
        #[arg(long, env = "STEADFAST_ACTOR", value_name = "ACTOR")]
        pub actor: Option<String>,
        /// Filter by a part of the action, as in `DELETE` or `/v1/tokens`
        #[arg(long, env = "STEADFAST_ACTION", value_name = "TEXT")]
        pub action: Option<String>,
        /// Only records of this time or later, as in 2026-11-15T12:30:00Z
        #[arg(long, env = "STEADFAST_SINCE", value_name = "TIME")]
        pub since: Option<String>,
        /// Only records before this time
        #[arg(long, env = "STEADFAST_UNTIL", value_name = "TIME")]
        pub until: Option<String>,
    } => Page<AuditEntry>, Get "/v1/audit", Operator, scope None, errors [];
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
    /// The id of the token or access key; none without a valid credential.
    pub token: Option<String>,
    /// The name that the token or access key had then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address of the client.
    pub client: String,
    /// The method and the route.
    pub action: String,
    /// The path.
    pub target: String,
    /// The status of the response, or the code of the refusal.
    pub outcome: String,
    /// Facts that the path does not have, such as the role of a token that was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Refusals of the same token or client before this one that have no record of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
    /// The id of the request.
    pub request_id: String,
    /// The hash of this record.
    pub hash: String,
    /// The hash of the record before.
    pub previous: String,
}

impl From<AuditRecord> for AuditEntry {
    fn from(it: AuditRecord) -> Self {
        let AuditRecord { number, at, event, previous, hash, .. } = it;
        Self {
            number,
            at: rfc3339(at),
            token: event.token,
            name: event.name,
            client: event.client,
            action: event.action,
            target: event.target,
            outcome: event.outcome,
            detail: event.detail,
            repeated: event.repeated,
            request_id: event.request_id,
            hash,
            previous,
        }
    }
}

impl AuditEntry {
    /// The detail, and the number of refusals that the record stands for, for people.
    pub fn facts(&self) -> String {
        let repeated = self.repeated.map(|it| format!("{it} more refusals before"));
        let facts: Vec<String> = self.detail.clone().into_iter().chain(repeated).collect();
        facts.join(", ")
    }
}
