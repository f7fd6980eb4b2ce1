//! The result of one probe: the contract between the probe, the diff and the pages.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::Value;

/// The version of [`SignalEnvelope`].
pub const SIGNAL_SCHEMA_VERSION: u32 = 1;

/// Headers by name, in lower case and sorted. Values of one name are joined with a comma.
pub type Headers = BTreeMap<String, String>;

/// Which of the two environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The first one, the old one, the reference.
    Left,
    /// The second one.
    Right,
}

steadfast_core::store::texts! {
    Side { Left = "left", Right = "right" }
}

impl Side {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalEnvelope {
    /// [`SIGNAL_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The comparison it belongs to.
    pub comparison_id: String,
    /// `{comparisonId}:{side}`.
    pub probe_id: String,
    /// Which environment.
    pub side: Side,
    /// The URL as it was asked for.
    pub requested_url: String,
    /// When the probe began, in UTC.
    pub captured_at: String,
    /// Where the answer came from, as far as it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cf: Option<CfContext>,
    /// The server software, as far as the headers name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// The response or the error.
    pub result: ProbeResult,
}

/// Where an answer came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CfContext {
    /// The place, from the end of `cf-ray`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colo: Option<String>,
    /// The country, if a header of the answer names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    /// The network's number, if a header of the answer names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asn: Option<u32>,
    /// The version of TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<String>,
    /// The version of HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_protocol: Option<String>,
}

/// The server software of an environment, from the headers of its response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Platform {
    /// `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// `via`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// `x-powered-by`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub powered_by: Option<String>,
}

/// A response, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ProbeResult {
    /// A response. Its `ok` says whether its status is below 400.
    Response(Box<ProbeResponse>),
    /// No response.
    Failure(Box<ProbeFailure>),
}

impl<'de> Deserialize<'de> for ProbeResult {
    /// By its text: a derived one would have the compiler compile both once more, for a tree.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Value::deserialize(from)?.to_string();
        let response = serde_json::from_str(&text).map(ProbeResult::Response);
        response
            .or_else(|_| serde_json::from_str(&text).map(ProbeResult::Failure))
            .map_err(|_| D::Error::custom("it is neither a response nor a failure"))
    }
}

impl ProbeResult {
    /// The response, if there is one.
    pub fn response(&self) -> Option<&ProbeResponse> {
        match self {
            ProbeResult::Response(it) => Some(it),
            ProbeResult::Failure(_) => None,
        }
    }

    /// The failure, if there is no response.
    pub fn failure(&self) -> Option<&ProbeFailure> {
        match self {
            ProbeResult::Response(_) => None,
            ProbeResult::Failure(it) => Some(it),
        }
    }

    /// Whether a response came with a status below 400.
    pub fn is_ok(&self) -> bool {
        self.response().is_some_and(|it| it.ok)
    }
}

/// A probe that got a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeResponse {
    /// Whether the status is below 400.
    pub ok: bool,
    /// The last response.
    pub response: ResponseMetadata,
    /// The redirects before it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<RedirectHop>,
    /// Every request that was made, the last one included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// From the start to the end of the last body, or as much of it as is read.
    pub duration_ms: u64,
    /// How long each of several requests took, this one first; empty if it was the only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_ms: Vec<u64>,
    /// How large the body of each of several answers was, this one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples_bytes: Vec<u64>,
    /// Why earlier requests of the same comparison got no answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ProbeErrorCode>,
}

impl ProbeResponse {
    /// How long a request takes: the one in the middle of several.
    pub fn typical_ms(&self) -> u64 {
        let mut all = self.samples_ms.clone();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(self.duration_ms)
    }
}

/// A probe that got none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeFailure {
    /// Always false.
    pub ok: bool,
    /// Why.
    pub error: ProbeError,
    /// The redirects until then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<RedirectHop>,
    /// The requests that were answered until then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<Hop>,
    /// From the start to the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeError {
    /// Which kind.
    pub code: ProbeErrorCode,
    /// A description for people.
    pub message: String,
    /// The certificates that were shown, if TLS is what failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<Certificate>,
}

/// The kinds of failure. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeErrorCode {
    /// The text, or the target of a redirect, is no URL that we fetch.
    InvalidUrl,
    /// The name has no address.
    DnsError,
    /// The time is up.
    Timeout,
    /// No encrypted connection came about.
    TlsError,
    /// The address may not be reached.
    SsrfBlocked,
    /// Everything else between connecting and the end of the headers.
    FetchError,
    /// Not told by the probe; other sources may.
    UnknownError,
}

steadfast_core::store::texts! {
    ProbeErrorCode {
        InvalidUrl = "invalid_url",
        DnsError = "dns_error",
        Timeout = "timeout",
        TlsError = "tls_error",
        SsrfBlocked = "ssrf_blocked",
        FetchError = "fetch_error",
        UnknownError = "unknown_error",
    }
}

impl ProbeErrorCode {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// One redirect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedirectHop {
    /// The redirecting URL.
    pub from_url: String,
    /// Whither.
    pub to_url: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// One request and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// The requested URL.
    pub url: String,
    /// The status of the answer.
    pub status: u16,
    /// `HTTP/1.1` or `HTTP/2`.
    pub protocol: String,
    /// All addresses of the host, sorted.
    pub resolved: Vec<String>,
    /// The one that was asked.
    pub address: String,
    /// How long each phase took.
    pub timing: Timing,
    /// The encrypted connection, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// How long each phase of a request took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// Finding the addresses.
    pub dns_ms: f64,
    /// Connecting.
    pub connect_ms: f64,
    /// The handshake; nothing without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_ms: Option<f64>,
    /// From the request to the headers of the answer.
    pub first_byte_ms: f64,
    /// From the start to the end of the body, or as much of it as is read.
    pub total_ms: f64,
}

/// An encrypted connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// The chain as it was sent, the host's own first.
    #[serde(default)]
    pub certificates: Vec<Certificate>,
}

/// The fields of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// The subject.
    pub subject: String,
    /// The issuer.
    pub issuer: String,
    /// The hosts it is for, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Since when it holds, in UTC.
    pub not_before: String,
    /// Until when it holds, in UTC.
    pub not_after: String,
    /// Its number, in hexadecimal.
    pub serial: String,
    /// The kind of its key: `EC 256`.
    pub key: String,
    /// The SHA-256 of all of it, in hexadecimal.
    pub fingerprint: String,
}

/// The last response of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResponseMetadata {
    /// The status.
    pub status: u16,
    /// Where the redirects ended.
    pub final_url: String,
    /// The headers, without secrets.
    pub headers: HeaderGroups,
    /// The cookies it sets, without their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cookies: Vec<Cookie>,
    /// The media type, as the header has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The size of the whole body after decompression, or what the header says if it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_length: Option<u64>,
    /// The SHA-256 of the body after decompression, of its first MiB at most, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<String>,
    /// How many bytes the hash is of, if that is not the whole body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hashed_bytes: Option<u64>,
    /// Why the body broke off, if it did. There is no hash then: it would differ every time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_error: Option<ProbeErrorCode>,
}

/// Headers, grouped by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeaderGroups {
    /// `cache-control`, `content-type`, `vary`, `www-authenticate` and `location`.
    pub core: Headers,
    /// All that begin with `access-control-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_control: Option<Headers>,
    /// All others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Headers>,
}

/// A cookie without its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Whether it goes over encrypted connections only.
    pub secure: bool,
    /// Whether scripts cannot read it.
    pub http_only: bool,
    /// `strict`, `lax` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_site: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        assert_eq!([Side::Left, Side::Right].map(Side::as_str), ["left", "right"]);
        for (code, name) in [
            (ProbeErrorCode::InvalidUrl, "invalid_url"),
            (ProbeErrorCode::DnsError, "dns_error"),
            (ProbeErrorCode::Timeout, "timeout"),
            (ProbeErrorCode::TlsError, "tls_error"),
            (ProbeErrorCode::SsrfBlocked, "ssrf_blocked"),
            (ProbeErrorCode::FetchError, "fetch_error"),
            (ProbeErrorCode::UnknownError, "unknown_error"),
        ] {
            assert_eq!(code.as_str(), name);
            assert_eq!(serde_json::to_value(code).unwrap(), name);
        }
    }
}
