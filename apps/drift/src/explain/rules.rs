//! An explainer that needs nobody: causes by rules over the findings.
//!
//! Each rule knows one thing that goes wrong between environments, and which findings speak for it.
//! The more of them there are and the worse they are, the surer it is; never quite sure, because it
//! has only seen two answers.

mod causes;

use async_trait::async_trait;

use self::causes::{Draft, drafts};
use super::{
    explainer::{ExplainError, Explainer},
    explanation::{Action, Cause, Explanation},
    summary::{DriftSummary, FindingSummary, Standing},
};
use crate::diff::Severity;

/// Maximum number of causes in an explanation.
const CAUSES_MAX: usize = 5;
/// Maximum number of actions in an explanation.
const ACTIONS_MAX: usize = 6;

/// Explains by rules. The same summary has the same explanation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules;

#[async_trait]
impl Explainer for Rules {
    async fn explain(&self, summary: &DriftSummary) -> Result<Explanation, ExplainError> {
        Ok(explained(summary))
    }

    fn name(&self) -> String {
        "rules (embedded)".to_owned()
    }
}

fn explained(summary: &DriftSummary) -> Explanation {
    let mut drafts = drafts(summary);
    drafts.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    drafts.truncate(CAUSES_MAX);
    Explanation {
        summary: headline(summary, drafts.first()),
        actions: actions(summary, &drafts),
        ranked_causes: drafts.into_iter().map(cause).collect(),
        notes: notes(summary),
    }
}

fn cause(draft: Draft) -> Cause {
    // Two digits: more would pretend to know.
    let confidence = (draft.confidence * 100.0).round() / 100.0;
    Cause { cause: draft.cause, confidence, evidence: draft.evidence }
}

fn count(summary: &DriftSummary, test: impl Fn(&FindingSummary) -> bool) -> usize {
    summary.findings.iter().filter(|it| test(it)).count()
}

fn headline(summary: &DriftSummary, first: Option<&Draft>) -> String {
    let DriftSummary { left, right, findings, .. } = summary;
    let mut text = match findings.len() {
        0 => return format!("{left} and {right} answer alike.{}", gone(summary)),
        1 => format!("{left} and {right} differ in one point"),
        many => format!("{left} and {right} differ in {many} points"),
    };
    match count(summary, |it| it.severity == Severity::Critical) {
        0 => text.push_str(", none of them critical."),
        1 if findings.len() == 1 => text.push_str(", and it is critical."),
        critical => text.push_str(&format!(", {critical} of them critical.")),
    }
    if let Some(first) = first {
        text.push_str(&format!(" Likeliest cause: {}", first.cause));
    }
    let new = count(summary, |it| it.standing == Standing::New);
    if new > 0 {
        text.push_str(&format!(" {new} of them {} new since the last comparison.", is(new)));
    }
    text.push_str(&gone(summary));
    text
}

fn is(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn gone(summary: &DriftSummary) -> String {
    match summary.resolved.len() {
        0 => String::new(),
        1 => " One earlier difference has gone.".to_owned(),
        many => format!(" {many} earlier differences have gone."),
    }
}

/// The actions of the causes first, then the recommendations of the worst findings.
fn actions(summary: &DriftSummary, drafts: &[Draft]) -> Vec<Action> {
    let mut actions: Vec<Action> = Vec::new();
    let mut add = |action: &str, why: String| {
        if actions.len() < ACTIONS_MAX && !actions.iter().any(|it| it.action == action) {
            actions.push(Action { action: action.to_owned(), why });
        }
    };
    for draft in drafts {
        add(&draft.action, draft.why.to_owned());
    }
    for finding in &summary.findings {
        if finding.severity == Severity::Info {
            continue;
        }
        for recommendation in &finding.recommendations {
            add(recommendation, finding.message.clone());
        }
    }
    actions
}

fn notes(summary: &DriftSummary) -> Vec<String> {
    let mut notes = Vec::new();
    let listed = |test: &dyn Fn(&FindingSummary) -> bool| {
        let found = summary.findings.iter().filter(|it| test(it));
        let messages: Vec<&str> = found.take(5).map(|it| &*it.message).collect();
        messages.join("; ")
    };
    let new = count(summary, |it| it.standing == Standing::New);
    if new > 0 {
        let list = listed(&|it| it.standing == Standing::New);
        notes.push(format!("New, so look at the latest change first: {list}"));
    }
    let is_old = |it: &FindingSummary| matches!(it.standing, Standing::Recurring { .. });
    let old = count(summary, is_old);
    if old > 0 && old == summary.findings.len() {
        notes.push("All of it was there before: either it is meant so, or nobody owns it.".into());
    } else if old > 0 {
        notes.push(format!("Known from earlier comparisons: {}", listed(&is_old)));
    }
    if count(summary, |it| it.standing == Standing::Flapping) > 0 {
        let list = listed(&|it| it.standing == Standing::Flapping);
        notes.push(format!("Comes and goes, so suspect one of several servers: {list}"));
    }
    if !summary.resolved.is_empty() {
        let list: Vec<&str> = summary.resolved.iter().take(5).map(|it| &**it).collect();
        notes.push(format!("Resolved: {}", list.join("; ")));
    }
    notes
}

#[cfg(test)]
mod tests;
