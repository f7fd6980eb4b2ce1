//! A pair of environments: its messages, and what it tells those who watch.

use serde::{Deserialize, Serialize};

use crate::{
    diff::EnvDiff,
    envelope::{Side, SignalEnvelope},
    explain::Explanation,
    probe::{Known, shown_url, urls_within},
    trend::{Past, Trend},
};

/// One pair of environments; its name is the key of the pair.
#[derive(Clone, Copy, Debug)]
pub struct EnvPair {
    /// Finished comparisons that are kept.
    pub keep: u32,
    /// Maximum number of comparisons in progress.
    pub running_max: u32,
}

impl Default for EnvPair {
    fn default() -> Self {
        Self { keep: 50, running_max: 20 }
    }
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is in progress.
    Running,
    /// It has a result.
    Completed,
    /// It has none, and says why.
    Failed,
}

steadfast_core::store::texts! {
    Status { Running = "running", Completed = "completed", Failed = "failed" }
}

impl Status {
    /// As it is stored and shown.
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// The two URLs that are compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The URL of the left side, as it was given.
    pub left_url: String,
    /// The URL of the right side.
    pub right_url: String,
    /// The label of the left side.
    pub left_label: Option<String>,
    /// The label of the right side.
    pub right_label: Option<String>,
    /// Only the head is asked for.
    #[serde(default)]
    pub head: bool,
}

impl Comparison {
    /// As it may be kept and shown: a secret in a URL is for the one who is asked. Labels may have
    /// it, too.
    pub(crate) fn without_secrets(&self) -> Self {
        let mut known = Known::default();
        known.learn(&self.left_url);
        known.learn(&self.right_url);
        let label = |it: &Option<String>| {
            let mut label = urls_within(it.as_deref()?);
            known.take_out(&mut label);
            Some(label)
        };
        Self {
            left_url: shown_url(&self.left_url),
            right_url: shown_url(&self.right_url),
            left_label: label(&self.left_label),
            right_label: label(&self.right_label),
            head: self.head,
        }
    }
}

/// Why a comparison has no result, or a result no explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompareError {
    /// The stable code.
    pub code: String,
    /// A description for people.
    pub message: String,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompareResult {
    /// Which one.
    pub comparison_id: String,
    /// The compared URLs.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The probe of the left side.
    pub left: Option<SignalEnvelope>,
    /// The probe of the right side.
    pub right: Option<SignalEnvelope>,
    /// The differences.
    pub diff: Option<EnvDiff>,
    /// New, recurring and resolved differences.
    pub trend: Option<Trend>,
    /// Why that may be.
    pub explanation: Option<Explanation>,
    /// Why there is no explanation.
    pub explanation_error: Option<CompareError>,
}

/// A comparison as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    /// Its id.
    pub comparison_id: String,
    /// Its place in the history of the pair.
    pub sequence: i64,
    /// How far it is.
    pub status: Status,
    /// The current step, while it runs.
    pub step: Option<String>,
    /// The result; partial while it runs.
    pub result: Option<CompareResult>,
    /// Why it has no result.
    pub error: Option<CompareError>,
    /// When it was asked for, in milliseconds.
    pub created_at: i64,
    /// When it ended.
    pub completed_at: Option<i64>,
}

/// A comparison in one line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Brief {
    /// Its id.
    pub comparison_id: String,
    /// Its place in the history of the pair.
    pub sequence: i64,
    /// The two URLs that are compared.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// How far it is.
    pub status: Status,
    /// How bad the worst difference is, of one that is completed.
    pub max_severity: Option<String>,
    /// How many differences matter.
    pub findings: u64,
    /// How many of them are new.
    pub new: u64,
    /// How many were there before.
    pub recurring: u64,
    /// How many have gone.
    pub resolved: u64,
    /// When it was asked for, in milliseconds.
    pub created_at: i64,
    /// When it ended.
    pub completed_at: Option<i64>,
}

/// Begins a comparison. The same id again changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateComparison {
    /// Its id, chosen by the caller.
    pub comparison_id: String,
    /// The two URLs that are compared.
    pub comparison: Comparison,
    /// Names both URLs in their order, see [`Pair::direction`](crate::pair::Pair::direction): the
    /// history is of this direction.
    pub direction: String,
    /// The URLs, encrypted, if there are secrets in them; see [`Vault`](crate::Vault).
    pub sealed: Option<String>,
}

/// A side was probed. `false` if the comparison has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SaveProbe {
    /// Of which comparison.
    pub comparison_id: String,
    /// Which side.
    pub side: Side,
    /// The probe.
    pub envelope: SignalEnvelope,
}

/// Says what a comparison does now.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportStep {
    /// Which one.
    pub comparison_id: String,
    /// The current step.
    pub step: String,
}

/// A comparison has its result. `false` if it has ended otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SaveResult {
    /// Which one.
    pub comparison_id: String,
    /// The differences.
    pub diff: EnvDiff,
    /// New, recurring and resolved differences.
    pub trend: Trend,
    /// Why that may be.
    pub explanation: Option<Explanation>,
    /// Why there is no explanation.
    pub explanation_error: Option<CompareError>,
}

/// An explanation that came later, or why none will come. `false` if there is one, or nothing to
/// explain.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachExplanation {
    /// Of which comparison.
    pub comparison_id: String,
    /// Why it may be.
    pub explanation: Option<Explanation>,
    /// Why there is no explanation.
    pub error: Option<CompareError>,
}

/// A comparison came to nothing. `false` if it has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailComparison {
    /// Which one.
    pub comparison_id: String,
    /// Why.
    pub error: CompareError,
}

/// One comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetComparison {
    /// Which one.
    pub comparison_id: String,
}

/// The encrypted URLs of a comparison; none if there are no secrets in them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetSealed {
    /// Of which comparison.
    pub comparison_id: String,
}

/// Earlier comparisons of the same direction, the latest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetComparisonsForHistory {
    /// Earlier than which one.
    pub comparison_id: String,
    /// The maximum number of comparisons.
    pub limit: u32,
}

/// An earlier comparison, as far as an explanation needs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Earlier {
    /// The findings.
    pub past: Past,
    /// How it was explained.
    pub summary: Option<String>,
    /// When it ended, in milliseconds.
    pub completed_at: i64,
}

/// Comparisons of a pair, the latest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListComparisons {
    /// Before this place in the history.
    pub before: Option<i64>,
    /// The maximum number of comparisons.
    pub limit: u32,
}

/// A comparison takes too long, even if nobody asks for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overdue {
    /// Which one.
    pub comparison_id: String,
}

/// A message to everybody who watches a pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum PairMessage {
    /// A comparison has reached another step.
    Progress {
        /// Which one.
        comparison_id: String,
        /// The current step.
        step: String,
    },
    /// A comparison has ended.
    Finished {
        /// Which one.
        comparison_id: String,
        /// How.
        status: Status,
    },
    /// An explanation came later.
    Explained {
        /// Of which comparison.
        comparison_id: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_status_is_the_stored_one() {
        for (status, name) in [
            (Status::Running, "running"),
            (Status::Completed, "completed"),
            (Status::Failed, "failed"),
        ] {
            assert_eq!((status.name(), Status::from_name(name)), (name, Some(status)));
            assert_eq!(serde_json::to_value(status).unwrap(), name);
        }
    }
}
