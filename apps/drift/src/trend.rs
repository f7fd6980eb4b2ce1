//! A comparison held against earlier ones of the same pair and direction.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::diff::{Code, EnvDiff, Severity};

/// An earlier comparison, as far as trends need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    /// Its id.
    pub comparison_id: String,
    /// Whether both sides answered. If not, it says nothing about other differences.
    pub is_complete: bool,
    /// The findings.
    pub findings: Vec<PastFinding>,
}

/// A finding of an earlier comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PastFinding {
    /// Its id, the same in every comparison.
    pub id: String,
    /// Which rule found it.
    pub code: Code,
    /// How bad it was.
    pub severity: Severity,
    /// The message of the finding.
    pub message: String,
}

impl From<&EnvDiff> for Past {
    fn from(diff: &EnvDiff) -> Self {
        let finding = |it: &crate::diff::DiffFinding| PastFinding {
            id: it.id.clone(),
            code: it.code,
            severity: it.severity,
            message: it.message.clone(),
        };
        Self {
            comparison_id: diff.comparison_id.clone(),
            is_complete: diff.probe.response_present,
            findings: diff.findings.iter().map(finding).collect(),
        }
    }
}

/// New, recurring and resolved differences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trend {
    /// How many earlier comparisons it is held against.
    pub compared_with: u64,
    /// Ids of findings that no earlier comparison has, in their order. Without earlier comparisons
    /// that saw both sides nothing is new.
    pub new: Vec<String>,
    /// Findings that an earlier comparison has too, in their order.
    pub recurring: Vec<Recurring>,
    /// Findings of the comparison before that have gone.
    pub resolved: Vec<PastFinding>,
}

/// A finding that was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recurring {
    /// Its id.
    pub id: String,
    /// How many earlier comparisons have it.
    pub times: u64,
    /// The earliest comparison that has it.
    pub since: String,
    /// Whether it was gone in between.
    pub is_flapping: bool,
}

impl Trend {
    /// Holds a comparison against earlier ones of the same direction, the latest first.
    pub fn of(diff: &EnvDiff, earlier: &[Past]) -> Self {
        let now = Past::from(diff);
        let ids: BTreeSet<&str> = now.findings.iter().map(|it| &*it.id).collect();
        let mut seen: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, past) in earlier.iter().enumerate() {
            let of_past: BTreeSet<&str> = past.findings.iter().map(|it| &*it.id).collect();
            for id in of_past {
                seen.entry(id).or_default().push(at);
            }
        }
        let mut trend = Self { compared_with: earlier.len() as u64, ..Self::default() };
        for finding in &now.findings {
            match seen.get(&*finding.id) {
                // A comparison that could not look is no proof that it was not there.
                None if !earlier.iter().any(|it| it.is_complete) => {}
                None => trend.new.push(finding.id.clone()),
                Some(at) => trend.recurring.push(recurring(&finding.id, at, earlier)),
            }
        }
        // A finding that could not be checked is not resolved, neither now nor then.
        let before = earlier.iter().find(|it| it.is_complete).filter(|_| now.is_complete);
        let gone = |it: &&PastFinding| !ids.contains(&*it.id);
        let of_before = before.into_iter().flat_map(|it| &it.findings);
        trend.resolved = of_before.filter(gone).cloned().collect();
        // A side that answers again is news of its own.
        if let Some(latest) = earlier.first().filter(|it| !it.is_complete && now.is_complete) {
            trend.resolved.extend(latest.findings.iter().filter(gone).cloned());
        }
        trend
    }
}

fn recurring(id: &str, at: &[usize], earlier: &[Past]) -> Recurring {
    let oldest = at.last().copied().unwrap_or_default();
    // A comparison that could not look is no proof that it was gone.
    let is_gap = |it: &usize| earlier[*it].is_complete && !at.contains(it);
    Recurring {
        id: id.to_owned(),
        times: at.len() as u64,
        since: earlier.get(oldest).map(|it| it.comparison_id.clone()).unwrap_or_default(),
        is_flapping: (0..oldest).any(|it| is_gap(&it)),
    }
}

#[cfg(test)]
mod tests;
