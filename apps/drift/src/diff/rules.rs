//! The rules, from A to I. Each looks at one thing and says at most a few findings about it.

mod connection;
mod content;
mod cookies;
mod headers;
mod protection;
mod routing;
mod timing;

use super::{
    DiffOptions,
    contract::EnvDiff,
    finding::{Category, Code, DiffFinding, Evidence, Section, Severity},
};
use crate::envelope::{ProbeFailure, ProbeResponse, Side, SignalEnvelope};

pub use self::{
    connection::{CERTIFICATE_CRIT_DAYS, CERTIFICATE_WARN_DAYS},
    timing::{ABS_DELTA_CRIT_MS, ABS_DELTA_WARN_MS, MIN_TIMING_MS, RATIO_CRIT, RATIO_WARN},
};

/// The input of the rules: two responses, and their diff so far.
struct Scene<'a> {
    left: &'a SignalEnvelope,
    right: &'a SignalEnvelope,
    left_probe: &'a ProbeResponse,
    right_probe: &'a ProbeResponse,
    diff: &'a EnvDiff,
    options: DiffOptions,
}

/// A rule adds what it finds.
type Found = Vec<DiffFinding>;

/// All findings, in the order of the rules.
pub(super) fn apply(
    left: &SignalEnvelope,
    right: &SignalEnvelope,
    diff: &EnvDiff,
    options: DiffOptions,
) -> Found {
    // A: without two responses there is nothing else to compare.
    let (left_probe, right_probe) = match (left.result.response(), right.result.response()) {
        (Some(left), Some(right)) => (left, right),
        _ => return vec![failure(left.result.failure(), right.result.failure())],
    };
    let scene = Scene { left, right, left_probe, right_probe, diff, options };
    let mut found = Found::new();
    late_answers(&scene, &mut found);
    // B
    routing::status(&scene, &mut found);
    routing::final_url(&scene, &mut found);
    routing::redirects(&scene, &mut found);
    // C
    protection::challenge(&scene, &mut found);
    protection::cors(&scene, &mut found);
    protection::security_headers(&scene, &mut found);
    cookies::flags(&scene, &mut found);
    cookies::presence(&scene, &mut found);
    // D
    headers::cache_control(&scene, &mut found);
    headers::vary(&scene, &mut found);
    content::media_type(&scene, &mut found);
    content::body(&scene, &mut found);
    content::length(&scene, &mut found);
    // E
    let is_slower = timing::duration(&scene, &mut found);
    // F
    timing::place(&scene, is_slower, &mut found);
    timing::platform(&scene, is_slower, &mut found);
    // G
    headers::remaining(&scene, &mut found);
    // H
    connection::protocol(&scene, is_slower, &mut found);
    connection::encryption(&scene, &mut found);
    connection::certificates(&scene, &mut found);
    found
}

/// A1 and A2: a side has no response. An answer with a bad status is a response.
fn failure(left: Option<&ProbeFailure>, right: Option<&ProbeFailure>) -> DiffFinding {
    let side = |failure: Option<&ProbeFailure>| match failure {
        Some(it) => format!("{}: {}", it.error.code.as_str(), it.error.message),
        None => "a response".to_owned(),
    };
    let (message, keys): (String, &[&str]) = match (left, right) {
        (Some(left), None) => (one_failed(Side::Left, left), &["left"]),
        (None, Some(right)) => (one_failed(Side::Right, right), &["right"]),
        _ => ("Both probes failed (network-level)".to_owned(), &["left", "right"]),
    };
    let evidence = Evidence::new(Section::Probe, keys.iter().copied());
    DiffFinding::new(Code::ProbeFailure, Category::Unknown, Severity::Critical, message, evidence)
        .values(Some(&side(left)), Some(&side(right)))
        .advise(
            "Check that the environment is up, and that its name, port and certificate are right.",
        )
}

/// A3: a side answered only when it was asked again.
fn late_answers(scene: &Scene<'_>, found: &mut Found) {
    for (side, probe) in [(Side::Left, scene.left_probe), (Side::Right, scene.right_probe)] {
        let Some(first) = probe.failures.first() else { continue };
        let (failed, side) = (probe.failures.len(), side.as_str());
        let message = format!(
            "The {side} side answered request {}; before that it failed ({})",
            failed + 1,
            first.as_str()
        );
        let evidence = Evidence::new(Section::Probe, [side]);
        let (code, category) = (Code::ProbeFailure, Category::Unknown);
        found.push(
            DiffFinding::new(code, category, Severity::Warn, message, evidence)
                .advise("Look for restarts, full connection pools and unhealthy instances."),
        );
    }
}

fn one_failed(side: Side, failure: &ProbeFailure) -> String {
    let code = failure.error.code.as_str();
    format!("The {} probe failed ({code}), the other one got a response", side.as_str())
}

/// The worst of some severities; `info` if there are none.
fn worst(all: impl IntoIterator<Item = Severity>) -> Severity {
    all.into_iter().min().unwrap_or(Severity::Info)
}
