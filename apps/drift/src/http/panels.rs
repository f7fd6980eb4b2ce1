//! The parts of the page.

use maud::{Markup, html};

use crate::{
    CompareResult, Comparison, PairEntry, Shown, Status,
    diff::{DiffFinding, EnvDiff},
    envelope::{Hop, SignalEnvelope},
};

/// Two URLs, with names.
pub(super) fn form(comparison: Option<&Comparison>, own: &str) -> Markup {
    let text = |of: fn(&Comparison) -> Option<&str>| comparison.and_then(of).unwrap_or_default();
    html! {
        form #compare method="post" action="/drift" {
            @for (side, url, label) in [
                ("left", text(|it| Some(&it.left_url)), text(|it| it.left_label.as_deref())),
                ("right", text(|it| Some(&it.right_url)), text(|it| it.right_label.as_deref())),
            ] {
                label { (side) " URL"
                    input type="url" name={ (side) "Url" } value=(url) required maxlength="2048"
                        placeholder="https://…"; }
                label { "called" input name={ (side) "Label" } value=(label) maxlength="100"; }
            }
            button.main { "Compare" }
            button #swap type="button" hidden { "Swap" }
        }
        form.demo method="post" action="/drift" {
            @for (side, name) in [("left", "staging"), ("right", "production")] {
                input type="hidden" name={ (side) "Url" } value={ (own) "/api/demo/" (name) };
                input type="hidden" name={ (side) "Label" } value=(name);
            }
            button { "Try the demo" }
        }
    }
}

pub(super) fn pair_list(pairs: &[PairEntry]) -> Markup {
    html! {
        section {
            h2 { "Compared before" }
            @if pairs.is_empty() { p.quiet { "Nothing yet." } }
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
pub(super) fn result(shown: &Shown, history: &[Shown]) -> Markup {
    html! {
        section #result data-id=(shown.comparison_id) data-status=(shown.status.name()) {
            @match shown.status {
                Status::Running => {
                    p.step role="status" { (shown.step.as_deref().unwrap_or("starting")) "…" }
                    progress {}
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

fn completed(result: &CompareResult) -> Markup {
    let Some(diff) = &result.diff else { return html! {} };
    html! {
        (strip(result, diff))
        (explanation(result))
        (findings(result, diff))
        (waterfalls(result))
        (raw(result))
    }
}

fn severity_name(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn strip(result: &CompareResult, diff: &EnvDiff) -> Markup {
    let worst = severity_name(&diff.max_severity);
    html! {
        div.strip {
            span.severity data-severity=(worst) { (worst) }
            span { (diff.findings.len()) " findings" }
            @for (name, envelope) in [("left", &result.left), ("right", &result.right)] {
                @if let Some(envelope) = envelope { span { (name) ": " (outcome(envelope)) } }
            }
            @if let Some(trend) = &result.trend {
                span.quiet {
                    (trend.new.len()) " new, " (trend.recurring.len()) " again, "
                    (trend.resolved.len()) " gone since " (trend.compared_with) " before"
                }
            }
        }
    }
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
            h2 { "What it may be" }
            @if let Some(it) = &result.explanation {
                p { (it.summary) }
                ol.causes {
                    @for cause in &it.ranked_causes {
                        li {
                            (cause.cause) " "
                            meter min="0" max="1" value=(cause.confidence) {}
                            " " span.quiet { (format!("{:.0} %", cause.confidence * 100.0)) }
                        }
                    }
                }
                @if !it.actions.is_empty() {
                    h3 { "What to do" }
                    ul { @for action in &it.actions {
                        li { strong { (action.action) } " " span.quiet { (action.why) } }
                    } }
                }
            } @else {
                p.quiet {
                    "No explanation yet: "
                    (result.explanation_error.as_ref().map_or("", |it| it.message.as_str()))
                    " It is tried again."
                }
            }
        }
    }
}

fn findings(result: &CompareResult, diff: &EnvDiff) -> Markup {
    let mut groups: Vec<(String, Vec<&DiffFinding>)> = Vec::new();
    for finding in &diff.findings {
        let category = severity_name(&finding.category);
        match groups.iter_mut().find(|it| it.0 == category) {
            Some(group) => group.1.push(finding),
            None => groups.push((category, vec![finding])),
        }
    }
    html! {
        section #findings {
            h2 { "What differs" }
            @if groups.is_empty() { p { "Nothing that matters." } }
            @for (category, findings) in &groups {
                h3 { (category) }
                @for finding in findings { (finding_card(result, finding)) }
            }
        }
    }
}

fn finding_card(result: &CompareResult, finding: &DiffFinding) -> Markup {
    let severity = severity_name(&finding.severity);
    let is_new = result.trend.as_ref().is_some_and(|it| it.new.contains(&finding.id));
    html! {
        details.finding data-severity=(severity) {
            summary {
                span.severity data-severity=(severity) { (severity) }
                " " (finding.message)
                @if is_new { " " span.new { "new" } }
            }
            table {
                tr { th { "left" } th { "right" } }
                tr {
                    td { (finding.left_value.as_deref().unwrap_or("–")) }
                    td { (finding.right_value.as_deref().unwrap_or("–")) }
                }
            }
            @for it in &finding.recommendations { p { (it) } }
            p.quiet { code { (finding.id) } }
        }
    }
}

/// How long each part of each request took, on one scale.
fn waterfalls(result: &CompareResult) -> Markup {
    let sides = [("left", &result.left), ("right", &result.right)];
    let hops = |it: &SignalEnvelope| it.result.response().map_or(Vec::new(), |it| it.hops.clone());
    let total = |hops: &[Hop]| hops.iter().map(|it| it.timing.total_ms).sum::<f64>();
    let longest =
        sides.iter().filter_map(|it| it.1.as_ref()).map(|it| total(&hops(it))).fold(1.0, f64::max);
    html! {
        section #timing {
            h2 { "Where the time went" }
            @for (name, envelope) in sides {
                @if let Some(envelope) = envelope {
                    h3 { (name) }
                    (waterfall(&hops(envelope), longest))
                    (chain(envelope))
                }
            }
        }
    }
}

const PARTS: [&str; 5] = ["dns", "connect", "tls", "first byte", "rest"];

fn waterfall(hops: &[Hop], longest: f64) -> Markup {
    let height = 22 * hops.len().max(1);
    let scale = 600.0 / longest;
    let mut begin = 0.0;
    let mut bars = Vec::new();
    for (row, hop) in hops.iter().enumerate() {
        let timing = &hop.timing;
        let tls = timing.tls_ms.unwrap_or(0.0);
        let before = [timing.dns_ms, timing.connect_ms, tls, timing.first_byte_ms];
        let rest = (timing.total_ms - before.iter().sum::<f64>()).max(0.0);
        let mut at = begin;
        for (part, length) in before.into_iter().chain([rest]).enumerate() {
            if 0.0 < length {
                bars.push((part, row, at * scale, length * scale, length));
            }
            at += length;
        }
        begin += timing.total_ms;
    }
    html! {
        svg viewBox={ "0 0 600 " (height) } width="600" height=(height) role="img"
            aria-label="Timing of each request" {
            @for (part, row, x, width, length) in bars {
                rect.bar data-part=(part) x=(format!("{x:.1}")) y=(row * 22 + 3)
                    width=(format!("{:.1}", width.max(1.0))) height="16" {
                    title { (PARTS[part]) " " (format!("{length:.1} ms")) }
                }
            }
        }
    }
}

fn chain(envelope: &SignalEnvelope) -> Markup {
    let Some(response) = envelope.result.response() else { return html! {} };
    html! {
        @if !response.redirects.is_empty() {
            ol.chain {
                @for hop in &response.redirects {
                    li { (hop.status) " " code { (hop.from_url) } " → " code { (hop.to_url) } }
                }
            }
        }
    }
}

fn raw(result: &CompareResult) -> Markup {
    html! {
        details { summary { "Everything as JSON" }
            pre { (serde_json::to_string_pretty(result).unwrap_or_default()) }
        }
    }
}

fn history_of(shown: &Shown, history: &[Shown]) -> Markup {
    html! {
        section #history {
            h2 { "This pair before" }
            ol reversed {
                @for it in history {
                    li aria-current=[(it.comparison_id == shown.comparison_id).then_some("page")] {
                        a href={ "/drift/" (it.comparison_id) } { "number " (it.sequence) }
                        " " (it.status.name())
                        @if let Some(diff) = it.result.as_ref().and_then(|it| it.diff.as_ref()) {
                            " " span.severity data-severity=(severity_name(&diff.max_severity)) {
                                (severity_name(&diff.max_severity))
                            }
                            " " span.quiet { (diff.findings.len()) " findings" }
                        }
                    }
                }
            }
        }
    }
}
