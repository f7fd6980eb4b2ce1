//! The answer of every explainer.

use serde::{Deserialize, Serialize};

/// The longest text in an explanation, in characters.
pub(super) const TEXT_MAX: usize = 1_000;
/// The most items of a list.
pub(super) const ITEMS_MAX: usize = 8;

/// Why two environments may differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// In a sentence or two.
    pub summary: String,
    /// Likely causes, the likeliest first.
    pub ranked_causes: Vec<Cause>,
    /// Recommended actions, the most useful first.
    pub actions: Vec<Action>,
    /// Further notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A likely cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The cause, for people.
    pub cause: String,
    /// How likely it is, from 0 to 1.
    pub confidence: f64,
    /// The findings that support it.
    #[serde(default)]
    pub evidence: Vec<String>,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// The action.
    pub action: String,
    /// Its purpose.
    pub why: String,
}

impl Explanation {
    /// Checks an explanation of a stranger, and brings it into bounds and order. An error says what
    /// is wrong with it.
    pub(super) fn checked(mut self) -> Result<Self, &'static str> {
        self.summary = cleaned(&self.summary);
        if self.summary.is_empty() {
            return Err("the summary is empty");
        }
        for cause in &mut self.ranked_causes {
            if !(0.0..=1.0).contains(&cause.confidence) {
                return Err("a confidence is not between 0 and 1");
            }
            cause.cause = cleaned(&cause.cause);
            cause.evidence = cause.evidence.iter().map(|it| cleaned(it)).collect();
            cause.evidence.retain(|it| !it.is_empty());
            cause.evidence.truncate(ITEMS_MAX);
            if cause.cause.is_empty() {
                return Err("a cause is empty");
            }
        }
        for action in &mut self.actions {
            action.action = cleaned(&action.action);
            action.why = cleaned(&action.why);
            if action.action.is_empty() {
                return Err("an action is empty");
            }
        }
        self.notes = self.notes.iter().map(|it| cleaned(it)).collect();
        self.notes.retain(|it| !it.is_empty());
        // The order is asked for, not promised.
        self.ranked_causes.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
        self.ranked_causes.truncate(ITEMS_MAX);
        self.actions.truncate(ITEMS_MAX);
        self.notes.truncate(ITEMS_MAX);
        Ok(self)
    }
}

fn cleaned(text: &str) -> String {
    let keep = |it: &char| !it.is_control() || *it == '\n';
    let text: String = text.trim().chars().filter(keep).take(TEXT_MAX).collect();
    text.trim().to_owned()
}
