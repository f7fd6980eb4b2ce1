//! Records of the audit log and its head, as they are stored.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_store::{Entry, EntryKey, InvalidInput, Json, Put, StoreError, Timestamp};

use crate::{access::scope::hash, body::read_stored};

pub(super) const SPACE: &str = "audit";
/// The list whose one entry is the head.
const HEAD: &str = "audit-head";
/// Records are kept for this time.
pub(super) const KEPT: Duration = Duration::from_hours(400 * 24);
/// The head is kept for longer than its record.
const HEAD_KEPT: Duration = Duration::from_hours(401 * 24);
/// The hash before the first record.
pub(super) const FIRST: &str = "";
/// Begins the hash before a record that follows a head of somebody else. No record has it, so the
/// chain stays broken there.
pub(super) const UNVERIFIED: &str = "unverified ";

/// An action, for the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// The id of the token or access key; none if there was no valid credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
}

/// A record of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Its number, from 1.
    pub number: i64,
    /// When it was written.
    pub at: Timestamp,
    /// The action.
    pub event: AuditEvent,
    /// The hash of the record before.
    pub previous: String,
    /// When the record before was written.
    pub previous_at: Timestamp,
    /// The hash of this record.
    pub hash: String,
    /// Whether it was written without the seal key.
    pub is_unsealed: bool,
}

impl AuditRecord {
    pub(super) fn follows(&self, before: &AuditRecord) -> bool {
        self.previous == before.hash && self.number == before.number.saturating_add(1)
    }

    /// Whether this can be the oldest record: nothing was before it, or that has expired.
    pub(super) fn can_be_oldest(&self, now: Timestamp) -> bool {
        let is_first = self.number == 1 && self.previous == FIRST;
        let has_expired = self.previous_at.after(KEPT) <= now;
        is_first || (has_expired && !self.previous.starts_with(UNVERIFIED))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    pub(super) number: i64,
    pub(super) at: i64,
    pub(super) previous: String,
    pub(super) previous_at: i64,
    /// Whether it was written without the seal key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unsealed: bool,
    #[serde(flatten)]
    pub(super) event: AuditEvent,
}

/// The newest record.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) number: i64,
    pub(super) at: i64,
    pub(super) hash: String,
    /// The authentication code; none if the program has no seal key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mac: Option<String>,
    /// The newest head with a code, if this one has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sealed: Option<Box<Head>>,
}

impl Head {
    /// The text that the code authenticates.
    pub(super) fn text(&self) -> String {
        format!("{} {} {}", self.number, self.at, self.hash)
    }
}

/// Numbers count down in the keys, so that the newest record is the first.
pub(super) fn key_bytes(number: i64) -> [u8; 8] {
    i64::MAX.saturating_sub(number).to_be_bytes()
}

pub(super) fn key(number: i64) -> Result<EntryKey, InvalidInput> {
    EntryKey::new(SPACE, &key_bytes(number))
}

pub(super) fn head_key() -> Result<EntryKey, InvalidInput> {
    EntryKey::new(HEAD, b"newest")
}

pub(super) fn put_head(head: &Head) -> Result<Put, InvalidInput> {
    let value = Some(Json::of(head)?);
    Ok(Put { entry: head_key()?, value, reference: None, expires: Some(HEAD_KEPT) })
}

pub(super) fn read(entry: &Entry) -> Result<Option<AuditRecord>, StoreError> {
    let Some(value) = &entry.value else { return Ok(None) };
    let Stored { number, at, previous, previous_at, unsealed: is_unsealed, event } =
        read_stored(value.as_str())?;
    let (at, previous_at, hash) = (Timestamp(at), Timestamp(previous_at), hash(value.as_str()));
    Ok(Some(AuditRecord { number, at, event, previous, previous_at, hash, is_unsealed }))
}
