//! Asking again before a difference is told: what a side does not answer twice in the same way is
//! no drift between the two, and one slow answer is no slow environment.

use serde::{Deserialize, Serialize};
use steadfast::store::{Clock, SystemClock};
use tokio::time::Instant;

use crate::{
    diff::{Code, DiffFinding, DiffOptions, EnvDiff, Severity, Unsteady, compute, settle},
    envelope::{ProbeResult, Side, SignalEnvelope},
    probe::{ProbeRequest, Prober},
};

/// Rounds after which a slow side is not given another chance to be as fast as the other.
const TIMING_ROUNDS: usize = 4;
/// Rounds for differences that nobody is woken for.
const WARN_ROUNDS: usize = 2;

/// What asking again has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Samples {
    /// How long the left side took each time, in milliseconds; the first time comes first.
    pub left_ms: Vec<u64>,
    /// How long the right side took.
    pub right_ms: Vec<u64>,
    /// Differences that a side has with itself.
    pub unsteady: Vec<Unsteady>,
}

/// Whether a difference should be looked at again.
pub(crate) fn is_worth_sampling(diff: &EnvDiff) -> bool {
    diff.probe.response_present && diff.max_severity < Severity::Info
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
    let told = compute(id, left.first, right.first, options);
    let mut samples = Samples {
        left_ms: duration(left.first).into_iter().collect(),
        right_ms: duration(right.first).into_iter().collect(),
        unsteady: Vec::new(),
    };
    for round in 0..limits.rounds {
        // Content that changes with the clock has time to change.
        SystemClock.sleep(limits.pause).await;
        let (l, r) = tokio::join!(prober.probe(&left.request), prober.probe(&right.request));
        samples.left_ms.extend(duration(&l));
        samples.right_ms.extend(duration(&r));
        for (side, first, again) in [(Side::Left, left.first, &l), (Side::Right, right.first, &r)] {
            let own = compute(id, first, again, options);
            note(&mut samples.unsteady, side, &told, &own);
        }
        let rounds = round + 1;
        let (timed_left, timed_right) = samples.timed(left.first, right.first);
        let now = settle(compute(id, &timed_left, &timed_right, options), &samples.unsteady);
        if !goes_on(&told, &now, rounds) || until <= Instant::now() {
            break;
        }
    }
    samples
}

/// Whether another round may change something.
fn goes_on(told: &EnvDiff, now: &EnvDiff, rounds: usize) -> bool {
    let has_timing = |it: &EnvDiff| it.findings.iter().any(|it| it.code == Code::TimingDrift);
    match now.max_severity {
        Severity::Critical => true,
        _ if has_timing(now) || (has_timing(told) && rounds < TIMING_ROUNDS) => true,
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
    for finding in told.findings.iter().filter(|it| it.code != Code::TimingDrift) {
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

impl Samples {
    /// The first answers with how long all of them took.
    pub(crate) fn timed(
        &self,
        left: &SignalEnvelope,
        right: &SignalEnvelope,
    ) -> (SignalEnvelope, SignalEnvelope) {
        let with = |envelope: &SignalEnvelope, all: &[u64]| {
            let mut envelope = envelope.clone();
            if let ProbeResult::Response(it) = &mut envelope.result {
                it.samples_ms = all.to_vec();
            }
            envelope
        };
        (with(left, &self.left_ms), with(right, &self.right_ms))
    }
}
