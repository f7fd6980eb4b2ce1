use super::*;
use crate::envelope::{
    Certificate, CfContext, Cookie, HeaderGroups, Hop, Platform, ProbeError, ProbeErrorCode,
    ProbeFailure, ProbeResponse, ProbeResult, RedirectHop, ResponseMetadata, Side, Timing, Tls,
};

mod connection;
mod content;
mod engine;
mod properties;
mod protection;
mod routing;
mod timing;

const AT: &str = "2026-11-15T12:00:00Z";

/// A plain, good answer of `https://a.example/`, to be changed by a test.
fn answer(side: Side) -> SignalEnvelope {
    let response = ResponseMetadata {
        status: 200,
        final_url: "https://a.example/".into(),
        headers: HeaderGroups::default(),
        cookies: Vec::new(),
        content_type: Some("text/html; charset=utf-8".into()),
        content_length: Some(1_000),
        body_hash: Some("aa".into()),
        hashed_bytes: None,
        body_error: None,
    };
    let hop = Hop {
        url: "https://a.example/".into(),
        status: 200,
        protocol: "HTTP/2".into(),
        resolved: vec!["192.0.2.1".into()],
        address: "192.0.2.1:443".into(),
        timing: Timing::default(),
        tls: Some(tls()),
    };
    let (redirects, hops) = (Vec::new(), vec![hop]);
    let result = ProbeResponse {
        ok: true,
        response,
        redirects,
        hops,
        duration_ms: 40,
        samples_ms: Vec::new(),
        samples_bytes: Vec::new(),
        failures: Vec::new(),
    };
    SignalEnvelope {
        schema_version: 1,
        comparison_id: "c".into(),
        probe_id: format!("c:{}", side.as_str()),
        side,
        requested_url: "https://a.example/".into(),
        captured_at: AT.into(),
        cf: None,
        platform: None,
        result: ProbeResult::Response(result.into()),
    }
}

fn tls() -> Tls {
    let certificate = Certificate {
        subject: "CN=a.example".into(),
        issuer: "CN=R3".into(),
        not_after: "2027-02-01T00:00:00Z".into(),
        key: "EC 256".into(),
        ..Certificate::default()
    };
    let cipher = "TLS13_AES_128_GCM_SHA256".into();
    Tls { version: "TLSv1.3".into(), cipher, certificates: vec![certificate] }
}

fn failed(side: Side, code: ProbeErrorCode) -> SignalEnvelope {
    let error = ProbeError { code, message: "it broke".into(), certificates: Vec::new() };
    let (redirects, hops) = (Vec::new(), Vec::new());
    let failure = ProbeFailure { ok: false, error, redirects, hops, duration_ms: Some(3) };
    SignalEnvelope { result: ProbeResult::Failure(failure.into()), ..answer(side) }
}

fn probe(envelope: &mut SignalEnvelope) -> &mut ProbeResponse {
    match &mut envelope.result {
        ProbeResult::Response(it) => it,
        ProbeResult::Failure(_) => panic!("it has no response"),
    }
}

/// Two equal answers, changed by a test and compared.
fn compared(change: impl FnOnce(&mut SignalEnvelope, &mut SignalEnvelope)) -> EnvDiff {
    compared_with(DiffOptions::default(), change)
}

fn compared_with(
    options: DiffOptions,
    change: impl FnOnce(&mut SignalEnvelope, &mut SignalEnvelope),
) -> EnvDiff {
    let (mut left, mut right) = (answer(Side::Left), answer(Side::Right));
    change(&mut left, &mut right);
    compute("c", &left, &right, options)
}

/// The same for the two responses.
fn responses(change: impl FnOnce(&mut ResponseMetadata, &mut ResponseMetadata)) -> EnvDiff {
    compared(|left, right| change(&mut probe(left).response, &mut probe(right).response))
}

/// Puts a core header on both sides; an empty one is none.
fn core(name: &str, left: &str, right: &str) -> EnvDiff {
    responses(|l, r| {
        for (side, value) in [(l, left), (r, right)] {
            if !value.is_empty() {
                side.headers.core.insert(name.into(), value.into());
            }
        }
    })
}

/// The same for other headers.
fn other(headers: &[(&str, &str, &str)]) -> EnvDiff {
    responses(|l, r| {
        for (name, left, right) in headers {
            for (side, value) in [(&mut *l, left), (&mut *r, right)] {
                if !value.is_empty() {
                    let group = side.headers.other.get_or_insert_default();
                    group.insert((*name).into(), (*value).into());
                }
            }
        }
    })
}

/// The one finding, as its id and severity; nothing if there is none.
fn only(diff: &EnvDiff) -> Option<(&str, &'static str)> {
    assert!(diff.findings.len() <= 1, "{:?}", diff.findings);
    diff.findings.first().map(|it| (&*it.id, it.severity.as_str()))
}

/// All findings, as their ids and severities.
fn all(diff: &EnvDiff) -> Vec<(&str, &'static str)> {
    diff.findings.iter().map(|it| (&*it.id, it.severity.as_str())).collect()
}
