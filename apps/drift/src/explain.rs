//! Explanations of why two environments may differ: one trait, and two explainers behind it.
//!
//! [`Rules`] needs no network; [`Chat`] asks a model. Both get a [`DriftSummary`]: findings without
//! contents, which the probe already cleaned of secrets. It is bounded and cleaned again before it
//! is sent, because a model belongs to another company. Both answer with an [`Explanation`].

mod chat;
mod explainer;
mod explanation;
mod parse;
mod prompt;
mod rules;
mod summary;

#[doc(hidden)]
pub use self::chat::fuzz;
pub use self::{
    chat::{Chat, ChatOptions},
    explainer::{ExplainError, Explainer},
    explanation::{Action, Cause, Explanation},
    rules::Rules,
    summary::{DriftSummary, FindingSummary, HistorySummary, Standing},
};
use crate::{
    diff::{DiffFinding, EnvDiff},
    trend::Trend,
};

/// The names of both sides.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The left one.
    pub left: &'a str,
    /// The right one.
    pub right: &'a str,
}

/// Summarizes a comparison for an explainer. The history has its direction, the latest first.
pub fn summarize(
    labels: Labels<'_>,
    diff: &EnvDiff,
    trend: &Trend,
    history: Vec<HistorySummary>,
) -> DriftSummary {
    let finding = |it: &DiffFinding| FindingSummary {
        code: it.code.as_str().to_owned(),
        severity: it.severity,
        message: it.message.clone(),
        left: it.left_value.clone(),
        right: it.right_value.clone(),
        recommendations: it.recommendations.clone(),
        standing: standing(&it.id, trend),
    };
    DriftSummary {
        left: labels.left.to_owned(),
        right: labels.right.to_owned(),
        findings: diff.findings.iter().map(finding).collect(),
        resolved: trend.resolved.iter().map(|it| it.message.clone()).collect(),
        history,
    }
}

fn standing(id: &str, trend: &Trend) -> Standing {
    if trend.new.iter().any(|it| it == id) {
        return Standing::New;
    }
    match trend.recurring.iter().find(|it| it.id == id) {
        Some(it) if it.is_flapping => Standing::Flapping,
        Some(it) => Standing::Recurring { times: it.times },
        None => Standing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diff::{DiffOptions, compute},
        envelope::{ProbeError, ProbeErrorCode, ProbeFailure, ProbeResult, Side, SignalEnvelope},
        trend::Past,
    };

    fn down(side: Side) -> SignalEnvelope {
        let code = ProbeErrorCode::DnsError;
        let error = ProbeError { code, message: "no".into(), certificates: Vec::new() };
        let (redirects, hops) = (Vec::new(), Vec::new());
        let failure = ProbeFailure { ok: false, error, redirects, hops, duration_ms: None };
        SignalEnvelope {
            schema_version: 1,
            comparison_id: "c".into(),
            probe_id: String::new(),
            side,
            requested_url: String::new(),
            captured_at: String::new(),
            cf: None,
            platform: None,
            result: ProbeResult::Failure(failure.into()),
        }
    }

    #[test]
    fn findings_carry_what_is_known_of_their_past() {
        let diff = compute("c", &down(Side::Left), &down(Side::Right), DiffOptions::default());
        let labels = Labels { left: "old", right: "new" };
        let of = |earlier: &[Past]| {
            let summary = summarize(labels, &diff, &Trend::of(&diff, earlier), Vec::new());
            summary.findings[0].standing
        };
        let same = Past::from(&diff);
        let none = Past { findings: Vec::new(), is_complete: true, ..same.clone() };
        assert_eq!(of(&[]), Standing::Unknown);
        assert_eq!(of(std::slice::from_ref(&none)), Standing::New);
        assert_eq!(of(&[same.clone(), same.clone()]), Standing::Recurring { times: 2 });
        assert_eq!(of(&[none, same]), Standing::Flapping);
    }
}
