//! The differences by category, with evidence and the values of both sides.

use maud::{Markup, html};

use super::sides;
use crate::{
    CompareResult,
    diff::{DiffFinding, EnvDiff},
};

pub(super) fn findings(result: &CompareResult, diff: &EnvDiff) -> Markup {
    let mut groups: Vec<(&str, Vec<&DiffFinding>)> = Vec::new();
    for finding in &diff.findings {
        let category = finding.category.as_str();
        match groups.iter_mut().find(|it| it.0 == category) {
            Some(group) => group.1.push(finding),
            None => groups.push((category, vec![finding])),
        }
    }
    let resolved = result.trend.as_ref().map(|it| it.resolved.as_slice()).unwrap_or_default();
    html! {
        section #findings {
            h2 { "What differs" }
            @if groups.is_empty() { p { "Nothing that matters." } }
            @for (category, findings) in &groups {
                h3 { (category) }
                @for finding in findings { (card(result, finding)) }
            }
            @if !resolved.is_empty() {
                h3 { "resolved since the comparison before" }
                ul { @for it in resolved { li { (it.message) } } }
            }
        }
    }
}

fn card(result: &CompareResult, finding: &DiffFinding) -> Markup {
    let severity = finding.severity.as_str();
    let [(left, _), (right, _)] = sides(result);
    html! {
        details.finding data-severity=(severity) {
            summary {
                span.severity data-severity=(severity) { (severity) }
                " " (finding.message) " " (mark(result, &finding.id))
            }
            table {
                tr { th { (left) } th { (right) } }
                tr {
                    td { (finding.left_value.as_deref().unwrap_or("–")) }
                    td { (finding.right_value.as_deref().unwrap_or("–")) }
                }
            }
            @for it in &finding.recommendations { p { (it) } }
            p.quiet {
                code { (finding.code.as_str()) }
                @for it in &finding.evidence {
                    " · " (it.section.as_str())
                    @if !it.keys.is_empty() { ": " (it.keys.join(", ")) }
                    @if let Some(note) = &it.note { " (" (note) ")" }
                }
            }
        }
    }
}

/// Whether it is new, or for how long it has been there.
fn mark(result: &CompareResult, id: &str) -> Markup {
    let Some(trend) = &result.trend else { return html! {} };
    let before = trend.recurring.iter().find(|it| it.id == id);
    html! {
        @if trend.new.iter().any(|it| it == id) { span.new { "new" } }
        @if let Some(it) = before {
            span.quiet {
                @if it.is_flapping { "comes and goes" }
                @else if it.times == 1 { "seen once before" }
                @else { "seen " (it.times) " times before" }
            }
        }
    }
}
