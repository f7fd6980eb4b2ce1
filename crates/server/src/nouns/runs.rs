//! Workflows and runs.

pub(crate) mod page;
mod verbs;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
};
use serde::Deserialize;
use serde_json::Value;
use steadfast_api::{
    Code, JsonText, Operation, Page, read_time,
    runs::{
        DeleteRun, ListRuns, ListWorkflows, PauseRun, RestartRun, ResumeRun, RetryRun, RunHistory,
        SendEvent, ShowRun, StartRun, StartedRun, TerminateRun, Wait, WorkflowEntry,
    },
};
use steadfast_core::{
    RequestKey, RunError, Runs,
    workflow::{
        HistoryEntry, RunItem, RunQuery, RunView, StartOutcome, StartedRecord, Status, Time,
    },
};
use steadfast_store::{Entropy, SeededEntropy, Timestamp};
use steadfast_web::{Params, Problem, Role, bad_cursor, escaped, needs};
use utoipa_axum::routes;

use crate::{
    access::Admission,
    cli::noun::Noun,
    listener::ConnectionInfo,
    live::history::{Follower, answer},
    operation::{ApiRoutes, fails_with, request_key},
    pages::{PageRoute, form, get, links::run_path, post},
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    ApiRoutes::default()
        .operation(workflows)
        .operation(list)
        .operation(start)
        .operation(show)
        .operation(delete)
        .operation(history)
        .operation(pause)
        .operation(resume)
        .operation(retry)
        .operation(terminate)
        .operation(restart)
        .operation(event)
        .routes(
            ShowRun::INFO.scope,
            fails_with(ShowRun::INFO.codes(), needs(Role::Viewer, routes!(live))),
        )
}

/// The pages of the console.
pub(crate) fn pages() -> Vec<PageRoute> {
    vec![
        get("/workflows", page::workflows),
        get("/workflows/{name}", page::runs),
        get("/workflows/{name}/{id}", page::show),
        get("/workflows/{name}/{id}/history", page::history),
        post("/workflows/{name}/{id}/events", SendEvent::NEEDS, page::event),
        form("/workflows/{name}/{id}/pause", pause, |it| run_path(&it.workflow, &it.id)),
        form("/workflows/{name}/{id}/resume", resume, |it| run_path(&it.workflow, &it.id)),
        form("/workflows/{name}/{id}/terminate", terminate, |it| run_path(&it.workflow, &it.id)),
        form("/workflows/{name}/{id}/restart", restart, |it| run_path(&it.workflow, &it.id)),
        form("/workflows/{name}/{id}/retry", retry, |it| run_path(&it.workflow, &it.id)),
        form("/workflows/{name}/{id}/delete", delete, |it| {
            format!("/workflows/{}?deleted={}", escaped(&it.workflow), escaped(&it.id))
        }),
    ]
}

/// The verbs of the command line.
pub(crate) fn verbs() -> Noun {
    Noun::new("runs", "List workflows, start runs, send events, pause and terminate")
        .custom(
            "list",
            (
                "List the workflows, or the runs of one, newest first",
                &["runs list", "runs list order --status waiting --since 2026-11-15 --prefix o-"],
            ),
            verbs::list,
        )
        .verb::<ShowRun>("show", &["runs show order o-1"], |_, run| verbs::show(run))
        .custom(
            "tail",
            (
                "Print the history of a run and follow it until it ends; exit code 1 if it failed",
                &["runs tail order o-1", "runs tail checkout o-1 --after 17 --json"],
            ),
            verbs::tail,
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
            verbs::start,
        )
        .verb::<PauseRun>("pause", &["runs pause order o-1"], |_, run| verbs::status(run))
        .verb::<ResumeRun>("resume", &["runs resume order o-1"], |_, run| verbs::status(run))
        .verb::<RetryRun>("retry", &["runs retry order o-1"], |_, run| verbs::status(run))
        .destroys::<TerminateRun>(
            "terminate",
            &["runs terminate order o-1 --yes"],
            (
                |it: &TerminateRun| format!("Terminate run {}/{}?", it.workflow, it.id),
                |_: &TerminateRun, run: &RunView| verbs::status(run),
            ),
        )
        .deletes::<DeleteRun>(&["runs delete order o-1 --yes"], |it| {
            format!("run {}/{}", it.workflow, it.id)
        })
        .verb::<RestartRun>(
            "restart",
            &["runs restart order o-1", "runs restart order o-1 --from ship"],
            |_, run| verbs::status(run),
        )
        .verb::<SendEvent>(
            "send-event",
            &["runs send-event order o-1 payment --payload '{\"amount\": 500}'"],
            |_, run| verbs::status(run),
        )
}

pub(crate) async fn workflows(
    server: Arc<Server>,
    _: ListWorkflows,
) -> Result<Page<WorkflowEntry>, Problem> {
    let counts = server.runtime.runs().counts().await?;
    let all = counts.into_iter().zip(server.runtime.runs().workflows());
    let entry = |(counts, (_, limits))| WorkflowEntry { counts, limits };
    Ok(Page::whole(all.map(entry).collect()))
}

pub(crate) async fn list(server: Arc<Server>, it: ListRuns) -> Result<Page<RunItem>, Problem> {
    let query = RunQuery {
        workflow: it.workflow,
        status: it.status,
        prefix: it.prefix.unwrap_or_default(),
        since: parse_time("since", it.since)?.map(Time),
        until: parse_time("until", it.until)?.map(Time),
        after: given(it.cursor),
        limit: it.limit.rows(),
    };
    // Only the cursor of a query can be malformed.
    let is_cursor = |it: &RunError| matches!(it, RunError::Malformed { .. });
    let page = server
        .runtime
        .runs()
        .list(&query)
        .await
        .map_err(|error| if is_cursor(&error) { bad_cursor() } else { Problem::from(error) })?;
    Ok(Page { items: page.items, next: page.next })
}

/// An empty field of a form counts as left out.
pub(crate) fn given(text: Option<String>) -> Option<String> {
    text.filter(|it| !it.is_empty())
}

pub(crate) fn parse_time(name: &str, text: Option<String>) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = given(text) else { return Ok(None) };
    let time = read_time(&text).ok_or_else(|| {
        let detail = format!("`{name}` must be a time like 2026-11-15T12:30:00Z, not `{text}`");
        Problem::of(Code::BadRequest, detail).at(name)
    })?;
    Ok(Some(time))
}

async fn start(server: Arc<Server>, it: StartRun) -> Result<StartedRun, Problem> {
    if let Some(key) = request_key(&it)? {
        return start_once(&server, it, key).await;
    }
    let id = it.id.unwrap_or_else(generated_id);
    let input = it.input.map_or(Ok(Value::Null), |it| value_of(&it))?;
    let wait = seconds(it.wait);
    let runs = server.runtime.runs();
    let StartOutcome { created, status } =
        runs.start_json_and_wait(&it.workflow, &id, input, wait_or_stop(&server, wait)).await?;
    let is_over = status.is_final() || status.is_paused();
    let status = match is_over || wait.is_zero() {
        true => status,
        false => status_after_start(runs.status(&it.workflow, &id).await, created)?,
    };
    Ok(StartedRun::new(it.workflow, id, created, status))
}

/// Starts a run with an idempotency key. Every repetition returns the run of the first request,
/// with its current status.
async fn start_once(server: &Server, it: StartRun, key: RequestKey) -> Result<StartedRun, Problem> {
    let runs = server.runtime.runs().keyed(key);
    let wait = seconds(it.wait);
    let mut record = runs.started_before().await?;
    if record.is_none() {
        let input = it.input.map_or(Ok(Value::Null), |it| value_of(&it))?;
        runs.start_json(&it.workflow, &it.id.unwrap_or_else(generated_id), input).await?;
        let recorded = runs.started_before().await;
        record = recorded.map_err(|it| Problem::from(it).after_change())?;
    }
    let lost = || Problem::of(Code::OutcomeUnknown, "applied, but its key is not recorded");
    let StartedRecord { id, created } = record.ok_or_else(lost)?;
    let ended = async {
        tokio::select! {
            ended = runs.wait(&it.workflow, &id) => ended.map(drop),
            () = wait_or_stop(server, wait) => Ok(()),
        }
    };
    let status = match ended.await {
        Ok(()) => runs.status(&it.workflow, &id).await,
        Err(error) => Err(error),
    };
    let status = status_after_start(status, true)?;
    Ok(StartedRun::new(it.workflow, id, created, status))
}

fn value_of(json: &JsonText) -> Result<Value, Problem> {
    let value = serde_json::from_str(json.get());
    value.map_err(|error| Problem::of(Code::BadRequest, error.to_string()))
}

/// The status of a run that this request started or found.
fn status_after_start(status: Result<Status, RunError>, is_new: bool) -> Result<Status, Problem> {
    match status {
        // The run was deleted meanwhile: return its status at the start.
        Err(RunError::UnknownRun { .. }) => Ok(Status::Queued),
        Err(error) if is_new => Err(Problem::from(error).after_change()),
        status => Ok(status?),
    }
}

fn generated_id() -> String {
    let entropy = SeededEntropy::from_system();
    format!("{:016x}{:016x}", entropy.next(), entropy.next())
}

fn seconds(wait: Option<Wait>) -> Duration {
    wait.map_or(Duration::ZERO, |it| Duration::from_secs(it.seconds()))
}

/// Returns after the wait, or when the server stops: then the current status is the response.
async fn wait_or_stop(server: &Server, wait: Duration) {
    if !wait.is_zero() {
        // Both outcomes are fine.
        let _ = tokio::time::timeout(wait, server.stopping.cancelled()).await;
    }
}

pub(crate) async fn show(server: Arc<Server>, it: ShowRun) -> Result<RunView, Problem> {
    let wait = seconds(it.wait);
    if !wait.is_zero() {
        tokio::select! {
            ended = server.runtime.runs().wait(&it.workflow, &it.id) => drop(ended?),
            () = wait_or_stop(&server, wait) => {}
        }
    }
    Ok(server.runtime.runs().look(&it.workflow, &it.id).await?)
}

/// The run after a change through this handle.
async fn changed(runs: &Runs, workflow: &str, id: &str) -> Result<RunView, Problem> {
    runs.look_then(workflow, id).await.map_err(|it| Problem::from(it).after_change())
}

/// The runs; their next change is recorded with the idempotency key of an operation.
fn keyed<O: Operation>(server: &Server, it: &O) -> Result<Runs, Problem> {
    Ok(server.runtime.runs().keyed(request_key(it)?))
}

pub(crate) async fn delete(server: Arc<Server>, it: DeleteRun) -> Result<(), Problem> {
    Ok(server.runtime.runs().delete(&it.workflow, &it.id).await?)
}

pub(crate) async fn pause(server: Arc<Server>, it: PauseRun) -> Result<RunView, Problem> {
    let runs = keyed(&server, &it)?;
    runs.pause(&it.workflow, &it.id).await?;
    changed(&runs, &it.workflow, &it.id).await
}

pub(crate) async fn resume(server: Arc<Server>, it: ResumeRun) -> Result<RunView, Problem> {
    let runs = keyed(&server, &it)?;
    runs.resume(&it.workflow, &it.id).await?;
    changed(&runs, &it.workflow, &it.id).await
}

pub(crate) async fn terminate(server: Arc<Server>, it: TerminateRun) -> Result<RunView, Problem> {
    let runs = keyed(&server, &it)?;
    runs.terminate(&it.workflow, &it.id).await?;
    changed(&runs, &it.workflow, &it.id).await
}

pub(crate) async fn retry(server: Arc<Server>, it: RetryRun) -> Result<RunView, Problem> {
    let runs = keyed(&server, &it)?;
    runs.retry(&it.workflow, &it.id).await?;
    changed(&runs, &it.workflow, &it.id).await
}

pub(crate) async fn restart(server: Arc<Server>, it: RestartRun) -> Result<RunView, Problem> {
    let runs = keyed(&server, &it)?;
    runs.restart(&it.workflow, &it.id, it.from.as_deref()).await?;
    changed(&runs, &it.workflow, &it.id).await
}

pub(crate) async fn event(server: Arc<Server>, it: SendEvent) -> Result<RunView, Problem> {
    let payload = value_of(&it.payload)?;
    let runs = keyed(&server, &it)?;
    runs.send_event(&it.workflow, &it.id, &it.event, &payload).await?;
    changed(&runs, &it.workflow, &it.id).await
}

pub(crate) async fn history(
    server: Arc<Server>,
    it: RunHistory,
) -> Result<Page<HistoryEntry>, Problem> {
    let after = it.cursor.as_deref().map_or(Ok(0), |it| number(it, "cursor"))?;
    let runs = server.runtime.runs();
    let items = runs.history(&it.workflow, &it.id, after, it.limit.rows()).await?;
    // A page may end early: its bytes are limited too.
    let length = runs.length(&it.workflow, &it.id).await?;
    let next = items.last().filter(|it| it.number < length).map(|it| it.number.to_string());
    Ok(Page { items, next })
}

fn number(text: &str, name: &str) -> Result<i64, Problem> {
    text.parse().ok().filter(|it| 0 <= *it).ok_or_else(|| {
        let detail = format!("`{name}` must be the number of an entry, not `{text}`");
        Problem::of(Code::BadRequest, detail).at(name)
    })
}

/// The query of a followed history.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LiveParams {
    after: Option<String>,
}

/// Follow the history of a run.
///
/// Server-sent events: each entry has its number as id, so that a client that reconnects continues
/// after the last one. The last event is `end` when the run has ended, or `closed` when the server
/// stops or the client is too slow: then reconnect.
#[utoipa::path(get, path = "/v1/workflows/{workflow}/runs/{id}/live", tag = "workflows",
    params(
        ("workflow" = String, Path, description = "Workflow name"),
        ("id" = String, Path, description = "Run id"),
        ("after" = Option<i64>, Query, description = "Continue after this entry"),
        ("Last-Event-ID" = Option<i64>, Header, description =
            "The number of the last entry, as browsers send it when they reconnect"),
    ),
    responses(
        (status = 200, body = String, content_type = "text/event-stream"),
    ),
)]
async fn live(
    State(server): State<Arc<Server>>,
    Path((workflow, id)): Path<(String, String)>,
    Params(params): Params<LiveParams>,
    headers: HeaderMap,
    Extension(admission): Extension<Admission>,
    connection: Option<Extension<ConnectionInfo>>,
) -> Result<Response, Problem> {
    // A browser that reconnects repeats the query of its first request; the header is newer.
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let after = match last.filter(|it| !it.is_empty()) {
        Some(last) => number(last, "Last-Event-ID")?,
        None => number(params.after.as_deref().unwrap_or("0"), "after")?,
    };
    // The run must exist before the response begins.
    server.runtime.runs().history(&workflow, &id, after, 1).await?;
    let client = connection.as_ref().map(|it| &it.client);
    let place = server.wait_place(&admission.caller, client)?;
    let follower = Follower { server, admission, workflow, id, after, place };
    Ok(answer(follower, connection.map(|Extension(it)| it.slot)))
}
