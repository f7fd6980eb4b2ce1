//! The shape of a diff.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::finding::{DiffFinding, Severity};
use crate::envelope::{Headers, ProbeErrorCode, RedirectHop};

/// The version of [`EnvDiff`].
pub const DIFF_SCHEMA_VERSION: u32 = 1;

/// One value on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change<T> {
    /// The left one, if there is one.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub left: Option<T>,
    /// The right one, if there is one.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub right: Option<T>,
    /// Whether they differ.
    pub changed: bool,
}

fn none<T>() -> Option<T> {
    None
}

impl<T: PartialEq> Change<T> {
    /// Compares two values that are always there.
    pub fn of(left: T, right: T) -> Self {
        let changed = left != right;
        Self { left: Some(left), right: Some(right), changed }
    }

    /// Compares two values; nothing, if neither side has one.
    pub fn between(left: Option<T>, right: Option<T>) -> Option<Self> {
        let changed = left != right;
        (left.is_some() || right.is_some()).then_some(Self { left, right, changed })
    }
}

/// The differences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvDiff {
    /// [`DIFF_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The comparison it belongs to.
    pub comparison_id: String,
    /// The left probe.
    pub left_probe_id: String,
    /// The right probe.
    pub right_probe_id: String,
    /// How the probes ended. All that follows needs a response on both sides.
    pub probe: ProbeOutcome,
    /// The status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Change<u16>>,
    /// Where the redirects ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_url: Option<Change<String>>,
    /// The headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeaderDiffs>,
    /// The redirects, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirects: Option<RedirectDiff>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentDiff>,
    /// How long it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<TimingDiff>,
    /// Where the answers came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cf: Option<CfDiff>,
    /// The server software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<PlatformDiff>,
    /// The encrypted connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsDiff>,
    /// The findings, the worst first.
    pub findings: Vec<DiffFinding>,
    /// The worst severity; `info` without findings.
    pub max_severity: Severity,
}

/// How both probes ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeOutcome {
    /// Whether the left one has a status below 400.
    pub left_ok: bool,
    /// Whether the right one has.
    pub right_ok: bool,
    /// Why the left one has no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_error_code: Option<ProbeErrorCode>,
    /// Why the right one has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_error_code: Option<ProbeErrorCode>,
    /// Whether they ended differently.
    pub outcome_changed: bool,
    /// Whether both have a response.
    pub response_present: bool,
}

/// Headers of both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderDiff {
    /// On the right only.
    pub added: Headers,
    /// On the left only.
    pub removed: Headers,
    /// On both, with different values.
    pub changed: BTreeMap<String, Change<String>>,
    /// On both, and the same.
    pub unchanged: Headers,
}

impl HeaderDiff {
    /// The names of all that differ, sorted.
    pub fn differing(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.added.keys().map(|it| &**it).collect();
        names.extend(self.removed.keys().map(|it| &**it));
        names.extend(self.changed.keys().map(|it| &**it));
        names.sort_unstable();
        names
    }
}

/// The groups of headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderDiffs {
    /// Those that every comparison looks at.
    pub core: HeaderDiff,
    /// CORS, if either side has such headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_control: Option<HeaderDiff>,
    /// All others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<HeaderDiff>,
}

/// The redirects of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedirectDiff {
    /// Those of the left side.
    pub left: Vec<RedirectHop>,
    /// Those of the right side.
    pub right: Vec<RedirectHop>,
    /// How many there are.
    pub hop_count: Change<u64>,
    /// Whether they differ in anything.
    pub chain_changed: bool,
    /// Where they lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_url_from_redirects: Option<Change<String>>,
}

/// The bodies of both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentDiff {
    /// The media type, without parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Change<String>>,
    /// The size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_length: Option<Change<u64>>,
    /// The hash; nothing, if the two hashes are of prefixes that cannot be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<Change<String>>,
}

/// How long both sides took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimingDiff {
    /// In all; of several requests, the one in the middle.
    pub duration_ms: Change<u64>,
    /// The slower one over the faster one, to the hundredth.
    pub ratio: f64,
    /// The right one less the left one.
    pub delta_ms: i64,
}

/// Where the answers came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CfDiff {
    /// The place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colo: Option<Change<String>>,
    /// The country.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<Change<String>>,
    /// The network's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asn: Option<Change<u32>>,
    /// The version of TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<Change<String>>,
    /// The version of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_protocol: Option<Change<String>>,
}

/// The server software of both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlatformDiff {
    /// `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Change<String>>,
    /// `via`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<Change<String>>,
    /// `x-powered-by`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub powered_by: Option<Change<String>>,
}

/// The encrypted connections of the last requests. A side without TLS has no values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsDiff {
    /// The version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Change<String>>,
    /// The cipher suite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher: Option<Change<String>>,
    /// The issuer of the host's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Change<String>>,
    /// The kind of its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Change<String>>,
    /// Until when it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Change<String>>,
    /// How many certificates the host sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain_len: Option<Change<u64>>,
}
