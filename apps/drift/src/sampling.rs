//! Asking again before a difference is reported: what a side does not answer twice in the same way
//! is no drift between the two, and one slow answer is no slow environment.

use serde::{Deserialize, Serialize};
use steadfast_core::store::{Clock, SystemClock};
use tokio::time::Instant;

use crate::{
    diff::{Code, DiffFinding, DiffOptions, EnvDiff, Severity, Unsteady, compute, settle},
    envelope::{ProbeErrorCode, ProbeResult, Side, SignalEnvelope},
    probe::{ProbeRequest, Prober},
};

/// Rounds after which a slow side is not given another chance to be as fast as the other.
const TIMING_ROUNDS: usize = 4;
/// Rounds for differences that nobody is woken for.
const WARN_ROUNDS: usize = 2;
/// How often a side that does not answer in time is asked again: each time takes long.
const TIMEOUT_RETRIES: usize = 2;

/// The result of repeated requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Samples {
    /// How long the left side took each time, in milliseconds; the first time comes first.
    pub left_ms: Vec<u64>,
    /// How long the right side took.
    pub right_ms: Vec<u64>,
    /// How large the bodies of the left side were.
    pub left_bytes: Vec<u64>,
    /// How large the bodies of the right side were.
    pub right_bytes: Vec<u64>,
    /// The first answer of the left side, if it gave none at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_answer: Option<SignalEnvelope>,
    /// The first answer of the right side, if it gave none at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_answer: Option<SignalEnvelope>,
    /// Differences that a side has with itself.
    pub unsteady: Vec<Unsteady>,
}

/// Whether a difference should be looked at again.
pub(crate) fn is_worth_sampling(diff: &EnvDiff) -> bool {
    diff.probe.response_present && diff.max_severity < Severity::Info
}

/// Whether a side that gave no answer should be asked again.
pub(crate) fn is_worth_a_retry(first: &SignalEnvelope) -> bool {
    0 < retries(first, usize::MAX)
}

/// How often a side is asked again that gave no answer.
fn retries(first: &SignalEnvelope, most: usize) -> usize {
    match first.result.failure().map(|it| it.error.code) {
        // They are the same each time.
        None | Some(ProbeErrorCode::InvalidUrl | ProbeErrorCode::SsrfBlocked) => 0,
        Some(ProbeErrorCode::Timeout) => most.min(TIMEOUT_RETRIES),
        Some(
            ProbeErrorCode::DnsError
            | ProbeErrorCode::TlsError
            | ProbeErrorCode::FetchError
            | ProbeErrorCode::UnknownError,
        ) => most,
    }
}

/// Asks a side that gave no answer again; gives the answer, if there is one.
async fn retry(prober: &Prober, asked: &Asked<'_>, until: Instant) -> Option<SignalEnvelope> {
    let limits = prober.options();
    let mut failures: Vec<ProbeErrorCode> =
        asked.first.result.failure().map(|it| it.error.code).into_iter().collect();
    let mut pause = limits.pause;
    for _ in 0..retries(asked.first, limits.retries) {
        if until <= Instant::now() {
            break;
        }
        SystemClock.sleep(pause).await;
        pause *= 2;
        let mut envelope = prober.probe(&asked.request).await;
        match &mut envelope.result {
            ProbeResult::Response(it) => {
                it.failures = failures;
                return Some(envelope);
            }
            ProbeResult::Failure(it) => failures.push(it.error.code),
        }
    }
    None
}

/// A side: what it was asked first, and what it answered.
pub(crate) struct Asked<'a> {
    pub(crate) request: ProbeRequest,
    pub(crate) first: &'a SignalEnvelope,
}

/// Asks both sides at the same time, again and again, until nothing is left to be doubted or the
/// rounds are over.
pub(crate) async fn sample(
    prober: &Prober,
    left: &Asked<'_>,
    right: &Asked<'_>,
    options: DiffOptions,
) -> Samples {
    let limits = prober.options();
    let until = Instant::now() + limits.sampling_max;
    let id = &left.request.comparison_id;
    let (left_answer, right_answer) =
        tokio::join!(retry(prober, left, until), retry(prober, right, until));
    let first = (
        left_answer.clone().unwrap_or_else(|| left.first.clone()),
        right_answer.clone().unwrap_or_else(|| right.first.clone()),
    );
    let told = compute(id, &first.0, &first.1, options);
    let mut samples = Samples { left_answer, right_answer, ..Samples::default() };
    samples.add(&first.0, &first.1);
    if !is_worth_sampling(&told) {
        return samples;
    }
    for round in 0..limits.rounds {
        // Content that changes with the clock has time to change.
        SystemClock.sleep(limits.pause).await;
        let (l, r) = tokio::join!(prober.probe(&left.request), prober.probe(&right.request));
        samples.add(&l, &r);
        for (side, first, again) in [(Side::Left, &first.0, &l), (Side::Right, &first.1, &r)] {
            let own = compute(id, first, again, options);
            note(&mut samples.unsteady, side, &told, &own);
        }
        let rounds = round + 1;
        let (all_left, all_right) = samples.all(left.first, right.first);
        let now = settle(compute(id, &all_left, &all_right, options), &samples.unsteady);
        if !goes_on(&told, &now, rounds) || until <= Instant::now() {
            break;
        }
    }
    samples
}

/// Whether another round may change something.
fn goes_on(told: &EnvDiff, now: &EnvDiff, rounds: usize) -> bool {
    let has_timing = |it: &EnvDiff| it.findings.iter().any(|it| it.code == Code::TimingDrift);
    // More sizes may meet, or prove that they do not.
    let has_gap = now.findings.iter().any(DiffFinding::is_each_time);
    match now.max_severity {
        Severity::Critical => true,
        _ if has_gap || has_timing(now) || (has_timing(told) && rounds < TIMING_ROUNDS) => true,
        Severity::Warn => rounds < WARN_ROUNDS,
        Severity::Info => false,
    }
}

/// Notes each difference between the sides that this side has with itself too, as bad as it is.
fn note(unsteady: &mut Vec<Unsteady>, side: Side, told: &EnvDiff, own: &EnvDiff) {
    let is_same = |a: &DiffFinding, b: &DiffFinding| {
        let (Some(a_at), Some(b_at)) = (a.evidence.first(), b.evidence.first()) else {
            return false;
        };
        let is_shared = a_at.keys.is_empty() || a_at.keys.iter().any(|it| b_at.keys.contains(it));
        a.code == b.code && a_at.section == b_at.section && is_shared && b.severity <= a.severity
    };
    // These two findings are about all requests, not about the first one.
    let is_of_all = |it: &DiffFinding| matches!(it.code, Code::TimingDrift | Code::ProbeFailure);
    for finding in told.findings.iter().filter(|it| !is_of_all(it)) {
        if !own.findings.iter().any(|it| is_same(finding, it)) {
            continue;
        }
        match unsteady.iter_mut().find(|it| it.id == finding.id) {
            Some(it) if it.sides.contains(&side) => {}
            Some(it) => it.sides.push(side),
            None => unsteady.push(Unsteady { id: finding.id.clone(), sides: vec![side] }),
        }
    }
}

fn duration(envelope: &SignalEnvelope) -> Option<u64> {
    envelope.result.response().map(|it| it.duration_ms)
}

fn size(envelope: &SignalEnvelope) -> Option<u64> {
    envelope.result.response().and_then(|it| it.response.content_length)
}

impl Samples {
    fn add(&mut self, left: &SignalEnvelope, right: &SignalEnvelope) {
        self.left_ms.extend(duration(left));
        self.right_ms.extend(duration(right));
        self.left_bytes.extend(size(left));
        self.right_bytes.extend(size(right));
    }

    /// The first answers with how long and how large all of them were.
    pub(crate) fn all(
        &self,
        left: &SignalEnvelope,
        right: &SignalEnvelope,
    ) -> (SignalEnvelope, SignalEnvelope) {
        let with = |envelope: &SignalEnvelope, all_ms: &[u64], all_bytes: &[u64]| {
            let mut envelope = envelope.clone();
            if let ProbeResult::Response(it) = &mut envelope.result {
                it.samples_ms = all_ms.to_vec();
                it.samples_bytes = all_bytes.to_vec();
            }
            envelope
        };
        let left = self.left_answer.as_ref().unwrap_or(left);
        let right = self.right_answer.as_ref().unwrap_or(right);
        (
            with(left, &self.left_ms, &self.left_bytes),
            with(right, &self.right_ms, &self.right_bytes),
        )
    }
}
