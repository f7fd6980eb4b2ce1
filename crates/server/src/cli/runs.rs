//! `steadfast runs …`.

mod show;
mod tail;

use serde_json::Value;
use steadfast_api::{
    Page,
    runs::{
        DeleteRun, ListRuns, ListWorkflows, PauseRun, RestartRun, ResumeRun, RetryRun, SendEvent,
        ShowRun, StartRun, StartedRun, TerminateRun,
    },
};
use steadfast_core::workflow::{Phase, RunItem, RunView};

use super::{
    client::Client,
    noun::{Noun, answer},
    output::{print, print_json},
};
use crate::{
    args::AskArgs,
    failure::Failure,
    pages::runs::{columns, workflow_columns},
};

pub(super) fn noun() -> Noun {
    Noun::new("runs", "List workflows, start runs, send events, pause and terminate")
        .custom(
            "list",
            (
                "List the workflows, or the runs of one, newest first",
                &["runs list", "runs list order --status waiting --since 2026-11-15 --prefix o-"],
            ),
            list,
        )
        .verb::<ShowRun>("show", &["runs show order o-1"], |_, run| show::show(run))
        .custom(
            "tail",
            (
                "Print the history of a run and follow it until it ends; exit code 1 if it failed",
                &["runs tail order o-1", "runs tail checkout o-1 --after 17 --json"],
            ),
            tail::tail,
        )
        .custom(
            "start",
            (
                "Start a run, or find the one with this id; exit code 1 if it has failed",
                &[
                    "runs start order --id o-1 --input '{\"orderId\": \"o-1\", \"amount\": 500}'",
                    "runs start reminder --input @reminder.json --wait 10",
                ],
            ),
            start,
        )
        .verb::<PauseRun>("pause", &["runs pause order o-1"], |_, run| status(run))
        .verb::<ResumeRun>("resume", &["runs resume order o-1"], |_, run| status(run))
        .verb::<RetryRun>("retry", &["runs retry order o-1"], |_, run| status(run))
        .destroys::<TerminateRun>(
            "terminate",
            &["runs terminate order o-1 --yes"],
            (|it| format!("Terminate run {}/{}?", it.workflow, it.id), |_, run| status(run)),
        )
        .destroys::<DeleteRun>(
            "delete",
            &["runs delete order o-1 --yes"],
            (
                |it| format!("Delete run {}/{}?", it.workflow, it.id),
                |it, ()| format!("deleted run {}/{}\n", it.workflow, it.id),
            ),
        )
        .verb::<RestartRun>(
            "restart",
            &["runs restart order o-1", "runs restart order o-1 --from ship"],
            |_, run| status(run),
        )
        .verb::<SendEvent>(
            "send-event",
            &["runs send-event order o-1 payment --payload '{\"amount\": 500}'"],
            |_, run| status(run),
        )
}

fn status(run: &RunView) -> String {
    format!("run {}/{} is {}\n", run.workflow, run.id, run.status.word())
}

/// Lists the workflows, or the runs of one.
fn list(client: &Client, it: ListRuns, ask: &AskArgs) -> Result<(), Failure> {
    let filters = [&it.prefix, &it.since, &it.until, &it.cursor];
    if it.workflow.is_empty() && (it.status.is_some() || filters.iter().any(|it| it.is_some())) {
        return Err(Failure::new("name the workflow whose runs are filtered"));
    }
    match it.workflow.is_empty() {
        true => answer(client, &ListWorkflows {}, ask.json, |_, page| {
            workflow_columns().write(&page.items)
        }),
        false => answer(client, &it, ask.json, |_, page| runs(page)),
    }
}

fn runs(page: &Page<RunItem>) -> String {
    if page.items.is_empty() {
        return "no runs; start one with `steadfast runs start`\n".into();
    }
    columns().write(&page.items)
}

fn start(client: &Client, run: StartRun, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.request(&run, ask.json)?;
    let started: StartedRun = client.read(&body)?;
    if ask.json {
        print_json(&body)?;
    } else {
        let StartedRun { workflow, id, created, status, output, error } = &started;
        let verb = if *created { "started" } else { "found" };
        print(&format!("{verb} run {workflow}/{id}; it is {}\n", status.word()))?;
        let ended = output.as_ref().map(Value::to_string);
        let failed = error.as_ref().map(|it| format!("{} ({})", it.message, it.code));
        if let Some(text) = ended.or(failed) {
            print(&format!("{text}\n"))?;
        }
    }
    match started.status {
        Phase::Errored | Phase::Terminated => Err(Failure::Quiet),
        Phase::Queued | Phase::Running | Phase::Waiting | Phase::Paused | Phase::Complete => Ok(()),
    }
}
