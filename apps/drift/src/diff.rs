//! The differences between two probes, with severity and recommendations.
//!
//! [`compute`] is a function of its arguments alone: no clock, no chance, no order of a hash. The
//! same envelopes give the same bytes, on every machine, so a retried step changes nothing.

mod contract;
mod finding;
mod rules;
mod sections;
mod steady;

pub use self::{
    contract::{
        CfDiff, Change, ContentDiff, DIFF_SCHEMA_VERSION, EnvDiff, HeaderDiff, HeaderDiffs,
        PlatformDiff, ProbeOutcome, RedirectDiff, TimingDiff, TlsDiff,
    },
    finding::{Category, Code, DiffFinding, Evidence, Section, Severity, VALUE_LEN_MAX},
    rules::{
        ABS_DELTA_CRIT_MS, ABS_DELTA_WARN_MS, CERTIFICATE_CRIT_DAYS, CERTIFICATE_WARN_DAYS,
        MIN_TIMING_MS, RATIO_CRIT, RATIO_WARN,
    },
    steady::{Unsteady, settle},
};

use crate::envelope::SignalEnvelope;

/// How two envelopes are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffOptions {
    /// Whether a part of the final URL that is on each side what was asked for there counts as
    /// expected: staging and production have different hosts by nature. Such a difference is still
    /// told, but as `info`. Without it the rules take every URL as it stands.
    pub expect_requested: bool,
}

/// Compares two envelopes.
pub fn compute(
    comparison_id: &str,
    left: &SignalEnvelope,
    right: &SignalEnvelope,
    options: DiffOptions,
) -> EnvDiff {
    let mut diff = sections::sections(comparison_id, left, right);
    let found = rules::apply(left, right, &diff, options);
    diff.findings = finding::ranked(found);
    diff.max_severity = diff.findings.first().map_or(Severity::Info, |it| it.severity);
    diff
}

#[cfg(test)]
mod tests;
