//! Differences that a side has with itself: told, but not as drift.

use serde::{Deserialize, Serialize};

use super::{
    contract::EnvDiff,
    finding::{Category, Code, DiffFinding, Evidence, Section, Severity, ranked},
};
use crate::envelope::Side;

/// A difference between the sides that a side has with itself too, from request to request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsteady {
    /// The id of the finding.
    pub id: String,
    /// Which sides: one or both.
    pub sides: Vec<Side>,
}

/// The diff, with what is unsteady told as that.
pub fn settle(mut diff: EnvDiff, unsteady: &[Unsteady]) -> EnvDiff {
    for finding in &mut diff.findings {
        if let Some(it) = unsteady.iter().find(|it| it.id == finding.id)
            // However it differs from itself, it never comes near the other one.
            && !finding.is_each_time()
        {
            *finding = told(finding, &it.sides);
        }
    }
    diff.findings = ranked(diff.findings);
    diff.max_severity = diff.findings.first().map_or(Severity::Info, |it| it.severity);
    diff
}

fn told(finding: &DiffFinding, sides: &[Side]) -> DiffFinding {
    let is_content = matches!(finding.code, Code::BodyHashDrift | Code::ContentLengthDrift);
    let severity = match (finding.severity, sides) {
        // It cannot be compared, and nothing else is known of it.
        (_, [_, _, ..]) if is_content => Severity::Info,
        (Severity::Critical, _) => Severity::Warn,
        (Severity::Warn | Severity::Info, _) => Severity::Info,
    };
    let who = match sides {
        [side] => format!("the {} side differs", side.as_str()),
        _ => "both sides differ".to_owned(),
    };
    if finding.code == Code::BodyHashDrift {
        let message = format!("The content is dynamic: {who} from request to request");
        let evidence = Evidence::new(Section::Content, ["body-hash"]);
        let code = Code::DynamicContent;
        return DiffFinding::new(code, Category::Content, severity, message, evidence)
            .values(finding.left_value.as_deref(), finding.right_value.as_deref())
            .advise(
                "Compare a page that answers the same each time, or compare its parts by hand.",
            );
    }
    let mut finding = finding.clone();
    finding.severity = severity;
    finding.message = format!("{}; {who} from request to request", finding.message);
    for evidence in &mut finding.evidence {
        evidence.note = Some("dynamic".to_owned());
    }
    finding
}
