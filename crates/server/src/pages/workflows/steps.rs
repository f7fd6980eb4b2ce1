//! The steps of a run as bars over time. A bar is drawn by attributes: the pages allow no style in
//! the markup.

use maud::{Markup, html};
use steadfast_core::workflow::{AttemptView, Phase, RunView, StepStatus, StepView};

use super::{super::table::time, value};
use crate::waterfall::{Did, Range, depth, label, spans, words};

/// The width of a bar in its own units.
const WIDTH: f64 = 1_000.0;

/// What is short is seen all the same.
const WIDTH_MIN: f64 = 5.0;

/// Indents up to here; what is deeper stands as deep.
const DEPTH_MAX: usize = 6;

/// All steps; while the run stands still, it may be restarted from some.
pub(super) fn steps(run: &RunView, range: Range, path: &str) -> Markup {
    let restartable = run.status.is_final() || run.status == Phase::Paused;
    html! {
        div.waterfall {
            div.axis {
                span { (time(&run.created_at.to_string())) }
                span { (words(range.to - range.from)) }
            }
            @for it in &run.steps { (step(it, range, restartable.then_some(path))) }
        }
        p.legend {
            @for (class, word) in [
                ("worked", "worked"), ("works", "under way"), ("failed", "failed"),
                ("waited", "waited"), ("dropped", "given up"),
            ] {
                span {
                    svg.key viewBox="0 0 10 10" aria-hidden="true" {
                        rect.(class) width="10" height="10" rx="2" {}
                    }
                    (word)
                }
            }
        }
    }
}

fn step(step: &StepView, range: Range, restart: Option<&str>) -> Markup {
    let indent = format!("d{}", depth(step).min(DEPTH_MAX));
    let end = step.ended_at.map_or(range.to, |it| it.0.0);
    let key = format!("{}/{}/{}/{}", step.branch, step.kind, step.name, step.count);
    let branch = step.branch.rsplit('/').next().unwrap_or_default();
    html! {
        details.step data-key=(key) {
            summary {
                span.name.(indent) {
                    (label(step))
                    @if !branch.is_empty() { " " span.quiet { (branch) } }
                    @if 1 < step.attempts.len() {
                        " " span.quiet { (step.attempts.len()) " attempts" }
                    }
                }
                (bar(step, range))
                span.took { (words(end - step.started_at.0.0)) }
                (badge(step.status))
            }
            (inside(step, restart))
        }
    }
}

fn badge(status: StepStatus) -> Markup {
    let class = match status {
        StepStatus::Done => "done",
        StepStatus::Failed => "dead",
        StepStatus::Waiting | StepStatus::Retrying => "waiting",
        StepStatus::Running => "going",
        StepStatus::Dropped => "quiet",
    };
    html! { span.badge.(class) { (status.word()) } }
}

fn bar(step: &StepView, range: Range) -> Markup {
    html! {
        svg.bar viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true" {
            @for span in spans(step, range) {
                @let from = (range.place(span.from) * WIDTH).min(WIDTH - WIDTH_MIN);
                @let to = (range.place(span.to) * WIDTH).max(from + WIDTH_MIN);
                @let (y, height) = if span.did == Did::Waited || span.did == Did::Dropped {
                    ("6", "4")
                } else {
                    ("1", "14")
                };
                rect.(class(span.did)) x=(format!("{from:.1}")) y=(y)
                    width=(format!("{:.1}", to - from)) height=(height) {
                    title { (said(span.did)) " " (words(span.to - span.from)) }
                }
            }
        }
    }
}

fn class(did: Did) -> &'static str {
    match did {
        Did::Waited => "waited",
        Did::Worked => "worked",
        Did::Failed => "failed",
        Did::Works => "works",
        Did::Dropped => "dropped",
    }
}

/// The legend's word, for a pointer on a part of a bar.
fn said(did: Did) -> &'static str {
    match did {
        Did::Waited => "waited",
        Did::Worked => "worked",
        Did::Failed => "failed after",
        Did::Works => "under way for",
        Did::Dropped => "given up after",
    }
}

/// What is known of a step: its times, its attempts, what it gave.
fn inside(step: &StepView, restart: Option<&str>) -> Markup {
    html! {
        div.inside {
            p.quiet {
                "from " (time(&step.started_at.to_string()))
                @if let Some(at) = &step.ended_at { " to " (time(&at.to_string())) }
                @if let Some(at) = &step.until {
                    @if step.status == StepStatus::Retrying { " · next attempt at " }
                    @else { " · until " }
                    (time(&at.to_string()))
                }
                @if !step.branch.is_empty() { " · in branch " code { (step.branch) } }
            }
            @if let Some(error) = &step.error {
                p.bad { (error.message) " " code { (error.code) } }
            }
            @if 1 < step.attempts.len() || step.attempts.iter().any(|it| it.error.is_some()) {
                ol.attempts { @for it in &step.attempts { (attempt(it)) } }
            }
            @if let Some(output) = &step.output {
                h3 { "Output" }
                (value(output))
            }
            // A restart names a step outside of branches, and means the first of that name.
            @if let Some(path) = restart.filter(|_| can_restart(step)) {
                form method="post" action={ (path) "/restart" } {
                    input type="hidden" name="from" value=(step.name);
                    button.button { "Restart from here" }
                }
            }
        }
    }
}

fn can_restart(step: &StepView) -> bool {
    step.kind == "step" && step.branch.is_empty() && step.count == 1
}

fn attempt(it: &AttemptView) -> Markup {
    html! {
        li value=(it.number) {
            (time(&it.started_at.to_string()))
            @match it.ended_at {
                Some(end) => { ", " (words(end.0.0 - it.started_at.0.0)) },
                None => ", under way",
            }
            @match &it.error {
                Some(error) => { ": " span.bad { (error.message) } " " code { (error.code) } },
                None => @if it.ended_at.is_some() { ": worked" },
            }
        }
    }
}
