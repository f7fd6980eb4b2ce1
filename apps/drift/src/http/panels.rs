//! The parts of the page.

mod findings;
mod requests;

use maud::{Markup, html};
use steadfast_core::store::Timestamp;
use steadfast_web::pretty_json;

use self::{findings::findings, requests::requests};
use crate::{
    Brief, CompareResult, Comparison, PairEntry, Shown, Status, diff::EnvDiff,
    envelope::SignalEnvelope, workflow::GIVEN_UP,
};

/// The steps of a comparison, in order.
const STEPS: [&str; 3] = ["probing", "comparing", "explaining"];

/// Two URLs, with names; those of a comparison are asked again as they were.
pub(super) fn form(comparison: Option<(&Comparison, &str)>, own: &str) -> Markup {
    let again = comparison.map_or("", |it| it.1);
    let comparison = comparison.map(|it| it.0);
    let text = |of: fn(&Comparison) -> Option<&str>| comparison.and_then(of).unwrap_or_default();
    html! {
        form.card #compare method="post" action="/drift" {
            @for (side, title, url, label) in [
                ("left", "Left", text(|it| Some(&it.left_url)),
                    text(|it| it.left_label.as_deref())),
                ("right", "Right", text(|it| Some(&it.right_url)),
                    text(|it| it.right_label.as_deref())),
            ] {
                label { (title) " URL"
                    input type="url" name={ (side) "Url" } value=(url) required maxlength="2048"
                        placeholder="https://…"; }
                label { "Label" input name={ (side) "Label" } value=(label) maxlength="100"; }
            }
            @if !again.is_empty() { input type="hidden" name="again" value=(again); }
            div.actions {
                button.button.main { "Compare" }
                button.button #swap type="button" hidden { "Swap" }
            }
        }
        form.demo method="post" action="/drift" {
            @for (side, name) in [("left", "staging"), ("right", "production")] {
                input type="hidden" name={ (side) "Url" } value={ (own) "/api/demo/" (name) };
                input type="hidden" name={ (side) "Label" } value=(name);
            }
            button.button { "Try the demo" }
        }
    }
}

pub(super) fn pair_list(pairs: &[PairEntry]) -> Markup {
    html! {
        section {
            h2 { "Recent pairs" }
            @if pairs.is_empty() { p.empty { "No comparisons yet." } }
            ul.pairs {
                @for it in pairs {
                    li {
                        a href={ "/drift/" (it.last_comparison_id) } {
                            (side_name(&it.comparison.left_label, &it.comparison.left_url))
                            " → "
                            (side_name(&it.comparison.right_label, &it.comparison.right_url))
                        }
                        @if let Some(severity) = &it.max_severity {
                            " " span.severity data-severity=(severity) { (severity) }
                        }
                    }
                }
            }
        }
    }
}

fn side_name<'a>(label: &'a Option<String>, url: &'a str) -> &'a str {
    label.as_deref().unwrap_or(url)
}

/// A comparison: how far it is, or what it came to.
pub(super) fn result(shown: &Shown, history: &[Brief]) -> Markup {
    html! {
        section #result data-id=(shown.comparison_id) data-status=(shown.status.name()) {
            @match shown.status {
                Status::Running => {
                    (steps(shown.step.as_deref()))
                }
                Status::Failed => {
                    p.error role="alert" {
                        (shown.error.as_ref().map_or("it failed", |it| it.message.as_str()))
                    }
                }
                Status::Completed => {
                    @if let Some(result) = &shown.result { (completed(result)) }
                }
            }
            (history_of(shown, history))
        }
    }
}

/// How far it is. A step that this page does not know is shown as it is.
fn steps(step: Option<&str>) -> Markup {
    let at = step.and_then(|it| STEPS.iter().position(|known| *known == it));
    html! {
        ol.steps role="status" {
            @for (number, name) in STEPS.iter().enumerate() {
                li data-done[at.is_some_and(|at| number < at)]
                    aria-current=[(at == Some(number)).then_some("step")] { (name) }
            }
        }
        progress max="3" value=[at] {}
        @if at.is_none() { p { (step.unwrap_or("starting")) "…" } }
    }
}

fn completed(result: &CompareResult) -> Markup {
    let Some(diff) = &result.diff else { return html! {} };
    html! {
        (strip(result, diff))
        (explanation(result))
        (findings(result, diff))
        (requests(result))
        (raw(result))
    }
}

fn count(findings: u64) -> String {
    if findings == 1 { "1 finding".into() } else { format!("{findings} findings") }
}

fn strip(result: &CompareResult, diff: &EnvDiff) -> Markup {
    let worst = diff.max_severity.as_str();
    html! {
        div.card.strip {
            span.severity data-severity=(worst) { (worst) }
            span { (count(diff.findings.len() as u64)) }
            @for (name, envelope) in sides(result) {
                @if let Some(envelope) = envelope { span { (name) ": " (outcome(envelope)) } }
            }
            @if let Some(trend) = &result.trend {
                span.quiet {
                    @if trend.compared_with == 0 {
                        "compared in this direction for the first time"
                    } @else {
                        (trend.new.len()) " new, " (trend.recurring.len()) " seen before, "
                        (trend.resolved.len()) " resolved"
                    }
                }
            }
        }
    }
}

/// Both sides, by the names that they have.
fn sides(result: &CompareResult) -> [(&str, Option<&SignalEnvelope>); 2] {
    let Comparison { left_label, right_label, .. } = &result.comparison;
    [
        (left_label.as_deref().unwrap_or("left"), result.left.as_ref()),
        (right_label.as_deref().unwrap_or("right"), result.right.as_ref()),
    ]
}

fn outcome(envelope: &SignalEnvelope) -> String {
    match (envelope.result.response(), envelope.result.failure()) {
        (Some(it), _) => format!("{} in {} ms", it.response.status, it.duration_ms),
        (None, Some(it)) => it.error.code.as_str().to_owned(),
        (None, None) => String::new(),
    }
}

fn explanation(result: &CompareResult) -> Markup {
    html! {
        section #explanation {
            h2 { "Likely causes" }
            @if let Some(it) = &result.explanation {
                p { (it.summary) }
                ol.causes {
                    @for cause in &it.ranked_causes {
                        li {
                            (cause.cause) " "
                            meter min="0" max="1" value=(cause.confidence) {}
                            " " span.quiet { (format!("{:.0} %", cause.confidence * 100.0)) }
                            @if !cause.evidence.is_empty() {
                                ul.quiet { @for it in &cause.evidence { li { (it) } } }
                            }
                        }
                    }
                }
                @if !it.actions.is_empty() {
                    h3 { "Recommended actions" }
                    ul { @for action in &it.actions {
                        li { strong { (action.action) } " " span.quiet { (action.why) } }
                    } }
                }
                @for note in &it.notes { p.quiet { (note) } }
            } @else {
                @let why = result.explanation_error.as_ref().map_or("", |it| it.message.as_str());
                p.quiet.final[why.ends_with(GIVEN_UP)] { "No explanation: " (why) }
            }
        }
    }
}

fn raw(result: &CompareResult) -> Markup {
    html! {
        details { summary { "Everything as JSON" }
            pre { (pretty_json(result)) }
        }
    }
}

/// A time for people.
fn moment(at_ms: i64) -> String {
    let time = Timestamp(at_ms).rfc3339();
    // Without the milliseconds.
    let time = time.split_once('.').map_or(&*time, |(seconds, _)| seconds);
    format!("{} UTC", time.replace('T', " "))
}

fn history_of(shown: &Shown, history: &[Brief]) -> Markup {
    html! {
        section #history {
            h2 { "Earlier comparisons of this pair" }
            ol reversed {
                @for it in history {
                    li aria-current=[(it.comparison_id == shown.comparison_id).then_some("page")] {
                        a href={ "/drift/" (it.comparison_id) } { "number " (it.sequence) }
                        " " span.quiet { (moment(it.created_at)) } " " (it.status.name())
                        @if let Some(worst) = &it.max_severity {
                            " " span.severity data-severity=(worst) { (worst) }
                            " " span.quiet { (count(it.findings)) }
                        }
                        " " span.quiet {
                            (side_name(&it.comparison.left_label, &it.comparison.left_url)) " → "
                            (side_name(&it.comparison.right_label, &it.comparison.right_url))
                        }
                    }
                }
            }
        }
    }
}
