//! The steps of a run as bars over time, with their details.

use maud::{Markup, html};
use steadfast_core::workflow::{AttemptView, Phase, RunView, StepInput, StepStatus, StepView};

use crate::{
    nouns::runs::page::api_of,
    pages::{
        components::{Tone, badge, button, hidden, json as json_of, time},
        links::page_of,
    },
    waterfall::{Activity, Range, depth, label, spans, words},
};

/// The width of a bar in its own units, and the minimum width of a part.
const WIDTH: f64 = 1_000.0;

const WIDTH_MIN: f64 = 5.0;

/// Maximum indentation of branches.
const DEPTH_MAX: usize = 6;

/// The steps as bars over time. An ended or paused run may be restarted from some of them.
pub(crate) fn steps(run: &RunView, range: Range, path: &str) -> Markup {
    let can_restart = run.status.is_final() || run.status == Phase::Paused;
    let can_retry = !can_restart;
    let legend = [
        Activity::Succeeded,
        Activity::Running,
        Activity::Failed,
        Activity::Waiting,
        Activity::Cancelled,
    ];
    html! {
        div.waterfall {
            div.axis {
                span { (time(run.created_at.to_string())) }
                span { (words(range.to - range.from)) }
            }
            @for it in &run.steps {
                (step(it, range, &html! {
                    @if can_retry && it.status == StepStatus::Retrying {
                        (button(&format!("{path}/retry"), "Retry now", true))
                    }
                    // A restart names a step outside of branches: the first one with its name.
                    @if can_restart && it.kind == "step" && it.branch.is_empty() && it.count == 1 {
                        form method="post" action={ (path) "/restart" } {
                            (hidden("from", &it.name))
                            button.button { "Restart from here" }
                        }
                    }
                }, &api_of(&run.workflow, &run.id)))
            }
        }
        p.legend {
            @for activity in legend {
                span {
                    svg.key viewBox="0 0 10 10" aria-hidden="true" {
                        rect.(class(activity)) width="10" height="10" rx="2" {}
                    }
                    (activity_word(activity))
                }
            }
        }
    }
}

fn step(step: &StepView, range: Range, actions: &Markup, api: &str) -> Markup {
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
                (step_status(step.status))
            }
            div.inside { (step_details(step, api)) (actions) }
        }
    }
}

fn step_status(status: StepStatus) -> Markup {
    let tone = match status {
        StepStatus::Done => Tone::Good,
        StepStatus::Failed => Tone::Bad,
        StepStatus::Waiting | StepStatus::Retrying => Tone::Waiting,
        StepStatus::Running => Tone::Active,
        StepStatus::Dropped => Tone::Quiet,
    };
    badge(tone, status.word())
}

fn bar(step: &StepView, range: Range) -> Markup {
    html! {
        svg.bar viewBox="0 0 1000 16" preserveAspectRatio="none" aria-hidden="true" {
            @for span in spans(step, range) {
                @let from = (range.position(span.from) * WIDTH).min(WIDTH - WIDTH_MIN);
                @let to = (range.position(span.to) * WIDTH).max(from + WIDTH_MIN);
                @let (y, height) = match span.activity {
                    Activity::Waiting | Activity::Cancelled => ("6", "4"),
                    Activity::Succeeded | Activity::Failed | Activity::Running => ("1", "14"),
                };
                rect.(class(span.activity)) x=(format!("{from:.1}")) y=(y)
                    width=(format!("{:.1}", to - from)) height=(height) {
                    title { (activity_word(span.activity)) " for " (words(span.to - span.from)) }
                }
            }
        }
    }
}

fn class(activity: Activity) -> &'static str {
    match activity {
        Activity::Waiting => "waited",
        Activity::Succeeded => "worked",
        Activity::Failed => "failed",
        Activity::Running => "works",
        Activity::Cancelled => "dropped",
    }
}

/// The word of the legend.
fn activity_word(activity: Activity) -> &'static str {
    match activity {
        Activity::Running => "running",
        Activity::Cancelled => "cancelled",
        Activity::Waiting | Activity::Succeeded | Activity::Failed => class(activity),
    }
}

/// The details of a step: times, attempts, input, output.
fn step_details(step: &StepView, api: &str) -> Markup {
    html! {
        p.quiet {
            "from " (time(step.started_at.to_string()))
            @if let Some(at) = &step.ended_at { " to " (time(at.to_string())) }
            @if let Some(at) = &step.until {
                @if step.status == StepStatus::Retrying { " · next attempt at " }
                @else { " · until " }
                (time(at.to_string()))
            }
            @if !step.branch.is_empty() { " · in branch " code { (step.branch) } }
        }
        @if let Some(error) = &step.error {
            p.bad { (error.message) " " code { (error.code) } }
        }
        @if 1 < step.attempts.len() || step.attempts.iter().any(|it| it.error.is_some()) {
            ol.attempts { @for it in &step.attempts { (attempt(it)) } }
        }
        (input(step, api))
        @if let Some(output) = &step.output { h3 { "Output" } (json_of(output, api)) }
    }
}

/// The input of a step. Waits have none: the row shows their times and names.
fn input(step: &StepView, api: &str) -> Markup {
    let missing = match step.kind.as_str() {
        "step" => {
            "A step has no input of its own; its code uses the run's input and earlier outputs."
        }
        "call" if step.ended_at.is_none() => "Recorded when the first attempt has ended.",
        "call" | "send" => "Not recorded by the version of the program that made it.",
        _ => return html! {},
    };
    html! {
        h3 { "Input" }
        @match &step.input {
            Some(StepInput { to, message, bytes }) => {
                p { "to " (receiver(to)) }
                @match message {
                    Some(message) => (json_of(message, api)),
                    None => p.quiet { (bytes) " bytes, too large for the record" },
                }
            },
            None => p.quiet { (missing) },
        }
    }
}

/// The address of a receiver, with a link to its page.
fn receiver(to: &str) -> Markup {
    match to.parse() {
        Ok(address) => html! { a href=(page_of(&address)) { (to) } },
        Err(_) => html! { code { (to) } },
    }
}

fn attempt(it: &AttemptView) -> Markup {
    html! {
        li value=(it.number) {
            (time(it.started_at.to_string()))
            @match it.ended_at {
                Some(end) => { ", " (words(end.0.0 - it.started_at.0.0)) },
                None => ", running",
            }
            @match &it.error {
                Some(error) => { ": " span.bad { (error.message) } " " code { (error.code) } },
                None => @if it.ended_at.is_some() { ": worked" },
            }
        }
    }
}
