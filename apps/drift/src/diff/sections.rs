//! The parts of a diff that only put both sides beside each other.

use super::{
    contract::{
        CfDiff, Change, ContentDiff, DIFF_SCHEMA_VERSION, EnvDiff, HeaderDiff, HeaderDiffs,
        PlatformDiff, ProbeOutcome, RedirectDiff, TimingDiff, TlsDiff,
    },
    finding::Severity,
};
use crate::envelope::{
    CfContext, HeaderGroups, Headers, Platform, ProbeResponse, ResponseMetadata, SignalEnvelope,
    Tls,
};

/// A diff without findings.
pub(super) fn sections(
    comparison_id: &str,
    left: &SignalEnvelope,
    right: &SignalEnvelope,
) -> EnvDiff {
    let mut diff = EnvDiff {
        schema_version: DIFF_SCHEMA_VERSION,
        comparison_id: comparison_id.to_owned(),
        left_probe_id: left.probe_id.clone(),
        right_probe_id: right.probe_id.clone(),
        probe: outcome(left, right),
        status: None,
        final_url: None,
        headers: None,
        redirects: None,
        content: None,
        timing: None,
        cf: None,
        platform: None,
        tls: None,
        findings: Vec::new(),
        max_severity: Severity::Info,
    };
    if let (Some(l), Some(r)) = (left.result.response(), right.result.response()) {
        diff.status = Some(Change::of(l.response.status, r.response.status));
        let urls = (l.response.final_url.clone(), r.response.final_url.clone());
        diff.final_url = Some(Change::of(urls.0, urls.1));
        diff.headers = Some(headers(&l.response.headers, &r.response.headers));
        diff.redirects = redirects(l, r);
        diff.content = Some(content(&l.response, &r.response));
        diff.timing = Some(timing(l.typical_ms(), r.typical_ms()));
        diff.cf = cf(left.cf.as_ref(), right.cf.as_ref());
        diff.platform = platform(left.platform.as_ref(), right.platform.as_ref());
        diff.tls = tls(last_tls(l), last_tls(r));
    }
    diff
}

/// The connection of the last request.
pub(super) fn last_tls(probe: &ProbeResponse) -> Option<&Tls> {
    probe.hops.last().and_then(|it| it.tls.as_ref())
}

/// A media type without its parameters.
pub(super) fn mime(value: &str) -> String {
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn outcome(left: &SignalEnvelope, right: &SignalEnvelope) -> ProbeOutcome {
    let code = |it: &SignalEnvelope| it.result.failure().map(|it| it.error.code);
    let (left_ok, right_ok) = (left.result.is_ok(), right.result.is_ok());
    let (left_error_code, right_error_code) = (code(left), code(right));
    ProbeOutcome {
        left_ok,
        right_ok,
        left_error_code,
        right_error_code,
        outcome_changed: left_ok != right_ok || left_error_code != right_error_code,
        response_present: left_error_code.is_none() && right_error_code.is_none(),
    }
}

fn header_diff(left: &Headers, right: &Headers) -> HeaderDiff {
    let mut diff = HeaderDiff::default();
    for (name, value) in left {
        match right.get(name) {
            None => drop(diff.removed.insert(name.clone(), value.clone())),
            Some(same) if same == value => {
                diff.unchanged.insert(name.clone(), value.clone());
            }
            Some(other) => {
                diff.changed.insert(name.clone(), Change::of(value.clone(), other.clone()));
            }
        }
    }
    let is_added = |it: &(&String, &String)| !left.contains_key(it.0);
    let added = right.iter().filter(is_added);
    diff.added = added.map(|(name, value)| (name.clone(), value.clone())).collect();
    diff
}

fn headers(left: &HeaderGroups, right: &HeaderGroups) -> HeaderDiffs {
    let none = Headers::new();
    let group = |left: &Option<Headers>, right: &Option<Headers>| {
        let is_there = left.is_some() || right.is_some();
        let pair = (left.as_ref().unwrap_or(&none), right.as_ref().unwrap_or(&none));
        is_there.then(|| header_diff(pair.0, pair.1))
    };
    HeaderDiffs {
        core: header_diff(&left.core, &right.core),
        access_control: group(&left.access_control, &right.access_control),
        other: group(&left.other, &right.other),
    }
}

fn redirects(left: &ProbeResponse, right: &ProbeResponse) -> Option<RedirectDiff> {
    let (l, r) = (&left.redirects, &right.redirects);
    if l.is_empty() && r.is_empty() {
        return None;
    }
    let end = |it: &ProbeResponse| it.redirects.last().map(|it| it.to_url.clone());
    Some(RedirectDiff {
        left: l.clone(),
        right: r.clone(),
        hop_count: Change::of(l.len() as u64, r.len() as u64),
        chain_changed: l != r,
        final_url_from_redirects: Change::between(end(left), end(right)),
    })
}

fn content(left: &ResponseMetadata, right: &ResponseMetadata) -> ContentDiff {
    let kind = |it: &ResponseMetadata| it.content_type.as_deref().map(mime);
    // A prefix and something longer always differ, and that would mean nothing; a whole body that
    // ends before the other's prefix does differs indeed.
    let is_shorter = |whole: &ResponseMetadata, cut: u64| {
        whole.content_length.is_some_and(|len| len < cut) && whole.body_hash.is_some()
    };
    let is_comparable = match (left.hashed_bytes, right.hashed_bytes) {
        (None, None) => true,
        (Some(left), Some(right)) => left == right,
        (None, Some(cut)) => is_shorter(left, cut),
        (Some(cut), None) => is_shorter(right, cut),
    };
    let hashes = || Change::between(left.body_hash.clone(), right.body_hash.clone());
    ContentDiff {
        content_type: Change::between(kind(left), kind(right)),
        content_length: Change::between(left.content_length, right.content_length),
        body_hash: is_comparable.then(hashes).flatten(),
    }
}

fn timing(left: u64, right: u64) -> TimingDiff {
    let (slow, fast) = (left.max(right), left.min(right).max(1));
    let ratio = (slow.max(1) as f64 / fast as f64 * 100.0).round() / 100.0;
    let signed = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
    let delta_ms = signed(right).saturating_sub(signed(left));
    TimingDiff { duration_ms: Change::of(left, right), ratio, delta_ms }
}

/// Compares one field of two things that may both be missing.
fn field<S, T: PartialEq + Clone>(
    left: Option<&S>,
    right: Option<&S>,
    get: impl Fn(&S) -> &Option<T>,
) -> Option<Change<T>> {
    let value = |it: Option<&S>| it.and_then(|it| get(it).clone());
    Change::between(value(left), value(right))
}

fn cf(left: Option<&CfContext>, right: Option<&CfContext>) -> Option<CfDiff> {
    let diff = CfDiff {
        colo: field(left, right, |it| &it.colo),
        country: field(left, right, |it| &it.country),
        asn: field(left, right, |it| &it.asn),
        tls_version: field(left, right, |it| &it.tls_version),
        http_protocol: field(left, right, |it| &it.http_protocol),
    };
    (diff != CfDiff::default()).then_some(diff)
}

fn platform(left: Option<&Platform>, right: Option<&Platform>) -> Option<PlatformDiff> {
    let diff = PlatformDiff {
        server: field(left, right, |it| &it.server),
        via: field(left, right, |it| &it.via),
        powered_by: field(left, right, |it| &it.powered_by),
    };
    (diff != PlatformDiff::default()).then_some(diff)
}

fn tls(left: Option<&Tls>, right: Option<&Tls>) -> Option<TlsDiff> {
    let both = |get: &dyn Fn(&Tls) -> Option<String>| {
        Change::between(left.and_then(get), right.and_then(get))
    };
    let len = |it: &Tls| it.certificates.len() as u64;
    let diff = TlsDiff {
        version: both(&|it| Some(it.version.clone())),
        cipher: both(&|it| Some(it.cipher.clone())),
        issuer: both(&|it| it.certificates.first().map(|it| it.issuer.clone())),
        key: both(&|it| it.certificates.first().map(|it| it.key.clone())),
        not_after: both(&|it| it.certificates.first().map(|it| it.not_after.clone())),
        chain_len: Change::between(left.map(len), right.map(len)),
    };
    (diff != TlsDiff::default()).then_some(diff)
}
