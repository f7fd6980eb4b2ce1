//! `steadfast runs …`.

mod show;
mod tail;

use serde_json::{Value, json, value::RawValue};
use steadfast_core::workflow::{Phase, RunPage, RunView};
use steadfast_web::escaped;

pub(super) use self::{show::show, tail::tail};
use super::{
    client::Client,
    output::{print, print_json},
    table::Table,
    tell_next,
};
use crate::{
    api::{
        runs::{StartedEntry, list::WorkflowEntry},
        wire::List,
    },
    args::{AskArgs, EventArgs, RunArgs, RunListArgs, StartArgs},
    failure::Failure,
};

impl RunArgs {
    /// Where the API has it.
    fn path(&self) -> String {
        format!("{}/{}", runs_of(&self.workflow), escaped(&self.id))
    }
}

fn runs_of(workflow: &str) -> String {
    format!("/v1/workflows/{}/runs", escaped(workflow))
}

/// Lists the workflows, or the runs of one.
pub(super) fn list(client: &Client, args: &RunListArgs) -> Result<(), Failure> {
    let ask = &args.list.ask;
    let Some(workflow) = &args.workflow else { return workflows(client, ask) };
    let mut path = format!("{}?limit={}", runs_of(workflow), args.list.limit);
    let status = args.status.map(|it| it.0.word().to_owned());
    let parts = [
        ("status", &status),
        ("prefix", &args.prefix),
        ("since", &args.since),
        ("until", &args.until),
        ("after", &args.list.cursor),
    ];
    for (name, value) in parts {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", escaped(value)));
        }
    }
    let body = client.get(&path, ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let page: RunPage = client.read(&body)?;
    if page.items.is_empty() {
        return print("no runs here: begin one with `steadfast runs start`\n");
    }
    let mut table = Table::new(&["ID", "STATUS", "CHANGED", "STARTED"]);
    for it in page.items {
        let (changed, started) = (it.changed_at.to_string(), it.created_at.to_string());
        table.row([it.id, it.status.word().into(), changed, started]);
    }
    print(&table.write())?;
    tell_next(page.next.as_deref(), ask);
    Ok(())
}

fn workflows(client: &Client, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.get("/v1/workflows", ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let list: List<WorkflowEntry> = client.read(&body)?;
    let words = Phase::ALL.map(|it| it.word().to_uppercase());
    let mut headings = vec!["WORKFLOW"];
    headings.extend(words.iter().map(String::as_str));
    headings.push("AT ONCE");
    let mut table = Table::new(&headings);
    for it in list.items {
        let WorkflowEntry { counts, limits } = it;
        let count = |phase| counts.runs.get(&phase).copied().unwrap_or(0).to_string();
        let mut row = vec![counts.name.clone()];
        row.extend(Phase::ALL.map(count));
        row.push(limits.concurrency.to_string());
        table.row(row);
    }
    print(&table.write())
}

/// Starts a run.
pub(super) fn start(client: &Client, args: &StartArgs) -> Result<(), Failure> {
    let StartArgs { workflow, id, input, wait, ask } = args;
    let text = match input.as_deref().map(|it| (it, it.strip_prefix('@'))) {
        Some((_, Some(file))) => std::fs::read_to_string(file)
            .map_err(|error| Failure::new(format!("--input @{file} cannot be read: {error}")))?,
        Some((text, None)) => text.to_owned(),
        None => "null".to_owned(),
    };
    let input = raw("--input", &text)?;
    let id = id.as_ref().map_or(String::new(), |it| format!("\"id\":{},", json!(it)));
    let body = format!("{{{id}\"input\":{}}}", input.get());
    let wait = wait.map_or(String::new(), |it| format!("?wait={it}"));
    let answer =
        client.post(&format!("{}{wait}", runs_of(workflow)), Some(&body), None, ask.json)?;
    let started: StartedEntry = client.read(&answer)?;
    if ask.json {
        print_json(&answer)?;
    } else {
        let StartedEntry { id, created, status, output, error, .. } = &started;
        let what = if *created { "is started" } else { "was there" };
        print(&format!("{id}  {what}, and is {}\n", status.word()))?;
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

/// Pauses, resumes, terminates or restarts a run.
pub(super) fn control(
    client: &Client,
    run: &RunArgs,
    verb: &str,
    body: Option<&str>,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let answer = client.post(&format!("{}/{verb}", run.path()), body, None, ask.json)?;
    tell(client, &answer, ask)
}

/// Erases a run.
pub(super) fn delete(client: &Client, run: &RunArgs, ask: &AskArgs) -> Result<(), Failure> {
    // Nothing is left of it that JSON could show.
    client.delete(&run.path(), ask.json)?;
    match ask.json {
        true => Ok(()),
        false => print(&format!("{}/{} is deleted\n", run.workflow, run.id)),
    }
}

/// Lets a run begin anew.
pub(super) fn restart(
    client: &Client,
    run: &RunArgs,
    from: Option<&str>,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let body = from.map(|step| json!({ "from": step }).to_string());
    control(client, run, "restart", body.as_deref(), ask)
}

/// Tells a run of an event.
pub(super) fn send_event(client: &Client, args: &EventArgs) -> Result<(), Failure> {
    let EventArgs { run, type_, payload, ask } = args;
    let payload = raw("--payload", payload.as_deref().unwrap_or("null"))?;
    let path = format!("{}/events/{}", run.path(), escaped(type_));
    let answer = client.post(&path, Some(payload.get()), None, ask.json)?;
    tell(client, &answer, ask)
}

/// Says what a run is now.
fn tell(client: &Client, answer: &str, ask: &AskArgs) -> Result<(), Failure> {
    if ask.json {
        return print_json(answer);
    }
    let run: RunView = client.read(answer)?;
    print(&format!("{}/{} is {}\n", run.workflow, run.id, run.status.word()))
}

/// JSON as it was written.
fn raw<'a>(flag: &str, text: &'a str) -> Result<&'a RawValue, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::new(format!("{flag} is not JSON: {error}")))
}
