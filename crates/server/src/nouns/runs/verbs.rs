//! Output of `steadfast runs …`, and the verbs that follow or wait for a run.

use clap::Args;
use serde_json::Value;
use steadfast_api::{
    Operation, Page,
    runs::{ListRuns, ListWorkflows, RunHistory, ShowRun, StartRun, StartedRun},
};
use steadfast_core::workflow::{HistoryEntry, Phase, RunView, StepStatus, StepView};
use steadfast_store::{Clock, SystemClock};

use crate::{
    args::AskArgs,
    cli::{
        client::Client,
        noun::answer,
        output::{self, Table, print, print_json},
    },
    failure::Failure,
    nouns::runs::page::{columns, workflow_columns},
    waterfall::{Activity, Range, depth, label, spans, words},
};

pub(super) fn status(run: &RunView) -> String {
    format!("run {}/{} is {}\n", run.workflow, run.id, run.status.word())
}

/// Lists the workflows, or the runs of one.
pub(super) fn list(client: &Client, it: ListRuns, ask: &AskArgs) -> Result<(), Failure> {
    let filters = [&it.prefix, &it.since, &it.until, &it.cursor];
    if it.workflow.is_empty() && (it.status.is_some() || filters.iter().any(|it| it.is_some())) {
        return Err(Failure::new("name the workflow whose runs are filtered"));
    }
    match it.workflow.is_empty() {
        true => answer(client, &ListWorkflows {}, ask.json, &|_, page| {
            workflow_columns().write(&page.items)
        }),
        false => answer(client, &it, ask.json, &|_, page| {
            columns().list(&page.items, "no runs; start one with `steadfast runs start`\n")
        }),
    }
}

pub(super) fn start(client: &Client, run: StartRun, ask: &AskArgs) -> Result<(), Failure> {
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

/// Columns of a bar.
const BAR: usize = 40;

/// Maximum characters of a value in a line.
const VALUE_MAX: usize = 200;

/// One run.
pub(super) fn show(run: &RunView) -> String {
    let range = Range::of(run, SystemClock.now());
    let mut text = facts(run, range);
    if !run.steps.is_empty() {
        text.push_str(&format!("\n{}", steps(run, range)));
    }
    if !run.waiting.is_empty() {
        let mut table = Table::new(&["BLOCKED ON"]);
        run.waiting.iter().for_each(|it| table.row([it.why.clone()]));
        text.push_str(&format!("\n{}", table.write()));
    }
    if !run.events.is_empty() {
        let mut table = Table::new(&["UNREAD EVENT", "RECEIVED", "PAYLOAD"]);
        for it in &run.events {
            table.row([it.name.clone(), it.at.to_string(), short(&it.payload.to_string())]);
        }
        text.push_str(&format!("\n{}", table.write()));
    }
    text
}

fn facts(run: &RunView, range: Range) -> String {
    let address = format!("{}/{}", run.workflow, run.id);
    let mut table = Table::new(&["run", &address]);
    let mut fact = |name: &str, text: String| table.row([name.into(), text]);
    fact("status", run.status.word().into());
    if let Some(message) = &run.progress.message {
        let percent = run.progress.percent.map_or(String::new(), |it| format!(" ({it} %)"));
        fact("progress", format!("{message}{percent}"));
    }
    let end = run.ended_at.map_or("not yet".to_owned(), |it| it.to_string());
    fact("started", run.created_at.to_string());
    fact("ended", end);
    let took = if run.ended_at.is_some() { "took" } else { "so far" };
    fact(took, words(range.to - run.created_at.0.0));
    if 0 < run.restarts {
        fact("restarts", run.restarts.to_string());
    }
    fact("input", short(&run.input.to_string()));
    if let Some(output) = &run.output {
        fact("output", short(&output.to_string()));
    }
    if let Some(error) = &run.error {
        fact("error", format!("{} ({})", error.message, error.code));
    }
    table.write()
}

/// One line per step: `=` worked, `x` failed, `>` running, `.` waiting, `-` cancelled.
fn steps(run: &RunView, range: Range) -> String {
    let branched = run.steps.iter().any(|it| !it.branch.is_empty());
    let mut headings = vec!["STEP", "STATUS", "TIME", "TOOK", "ATTEMPTS", "NOTE"];
    if branched {
        headings.insert(1, "BRANCH");
    }
    let mut table = Table::new(&headings);
    for it in &run.steps {
        let took = it.ended_at.map_or(range.to, |it| it.0.0) - it.started_at.0.0;
        let tried = it.attempts.last().map_or("-".to_owned(), |it| it.number.to_string());
        let name = format!("{}{}", "  ".repeat(depth(it)), label(it));
        let mut cells = vec![
            name,
            it.status.word().into(),
            format!("|{}|", bar(it, range)),
            words(took),
            tried,
            note(it),
        ];
        if branched {
            let branch = if it.branch.is_empty() { "-" } else { &it.branch };
            cells.insert(1, branch.into());
        }
        table.row(cells);
    }
    table.write()
}

fn bar(step: &StepView, range: Range) -> String {
    let mut cells = [' '; BAR];
    for span in spans(step, range) {
        let sign = match span.activity {
            Activity::Waiting => '.',
            Activity::Succeeded => '=',
            Activity::Failed => 'x',
            Activity::Running => '>',
            Activity::Cancelled => '-',
        };
        let cell = |at: i64| ((range.position(at) * BAR as f64) as usize).min(BAR - 1);
        let (from, to) = (cell(span.from), cell(span.to));
        cells[from..=to].fill(sign);
    }
    cells.iter().collect()
}

fn note(step: &StepView) -> String {
    let until = step.until.map(|it| it.to_string()).unwrap_or_default();
    let error = step.error.as_ref().map(|it| format!("{}: {}", it.code, it.message));
    let error = error.map(|it| short(&it)).unwrap_or_default();
    let input = step.input.as_ref().map(|it| {
        let message = it.message.as_ref().map(|it| format!(" {}", short(&it.to_string())));
        format!("{}{}", it.to, message.unwrap_or_default())
    });
    match step.status {
        StepStatus::Retrying => format!("{error}; next attempt at {until}"),
        StepStatus::Failed => error,
        StepStatus::Waiting if !until.is_empty() => format!("until {until}"),
        // Most values are short; `--json` prints long ones.
        StepStatus::Done => {
            let output = step.output.as_ref().filter(|it| !it.is_null());
            let output = output.map(|it| short(&it.to_string()));
            input.into_iter().chain(output).collect::<Vec<_>>().join(" → ")
        }
        StepStatus::Waiting | StepStatus::Running | StepStatus::Dropped => String::new(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}… (--json shows all)", &text[..end]),
        None => text.to_owned(),
    }
}

/// The entries received so far.
struct TailState {
    after: i64,
    ended: Option<String>,
    /// The reader of stdout has closed the pipe.
    is_closed: bool,
}

#[derive(Args)]
pub(crate) struct TailArgs {
    /// Workflow name
    workflow: String,
    /// Run id
    id: String,
    /// Begin after the entry with this number
    #[arg(long, env = "STEADFAST_AFTER", value_name = "NUMBER", default_value_t = 0)]
    after: u32,
}

/// Prints the history of a run, and follows it until the run ends.
pub(super) fn tail(client: &Client, args: TailArgs, ask: &AskArgs) -> Result<(), Failure> {
    let mut state = TailState { after: args.after.into(), ended: None, is_closed: false };
    let run = ShowRun { workflow: args.workflow, id: args.id, wait: None };
    if client.is_server() {
        follow(client, &run, &mut state, ask)?;
    } else {
        // Nothing runs in a folder that no server has open.
        read(client, &run, &mut state, ask)?;
    }
    match state.ended.as_deref() {
        Some("errored" | "terminated") => Err(Failure::Quiet),
        Some(_) | None => Ok(()),
    }
}

fn read(
    client: &Client,
    run: &ShowRun,
    state: &mut TailState,
    ask: &AskArgs,
) -> Result<(), Failure> {
    loop {
        let (workflow, id) = (run.workflow.clone(), run.id.clone());
        let cursor = Some(state.after.to_string());
        let history = RunHistory { workflow, id, cursor, ..RunHistory::default() };
        let page: Page<Value> = client.read(&client.request(&history, ask.json)?)?;
        for it in page.items {
            state.print_entry(client, &it.to_string(), ask)?;
        }
        if page.next.is_none() || state.is_closed {
            return Ok(());
        }
    }
}

/// Follows the history. Reconnects after the last entry when the connection breaks.
fn follow(
    client: &Client,
    run: &ShowRun,
    state: &mut TailState,
    ask: &AskArgs,
) -> Result<(), Failure> {
    loop {
        let before = state.after;
        let path = format!("{}/live?after={before}", run.path());
        let mut over = false;
        let mut name = String::new();
        client.follow(&path, ask.json, |line| {
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                match name.as_str() {
                    "" => state.print_entry(client, data, ask)?,
                    "end" => over = true,
                    // The stream ends, and the loop reconnects.
                    _ => {}
                }
            } else if line.is_empty() {
                name.clear();
            }
            Ok(!over && !state.is_closed)
        })?;
        if over || state.is_closed {
            return Ok(());
        }
        if state.after == before {
            let text = format!("the connection broke; continue with --after {before}");
            return Err(Failure::new(text));
        }
    }
}

impl TailState {
    fn print_entry(&mut self, client: &Client, text: &str, ask: &AskArgs) -> Result<(), Failure> {
        let entry: HistoryEntry = client.read(text)?;
        self.after = entry.number;
        self.ended = entry.is_end().then(|| entry.entry.clone());
        let line = if ask.json { format!("{text}\n") } else { line(&entry) };
        self.is_closed = !output::try_print(&line)?;
        Ok(())
    }
}

/// One line: number, time, type, subject, content.
fn line(entry: &HistoryEntry) -> String {
    let HistoryEntry { number, at, entry: what, fields } = entry;
    let about = fields.get("key").map(key).unwrap_or_default();
    let mut rest = fields.clone();
    rest.remove("key");
    let rest = match rest.is_empty() {
        true => String::new(),
        false => Value::Object(rest).to_string(),
    };
    let line = [number.to_string(), at.to_string(), what.clone(), about, rest];
    let line: Vec<String> = line.into_iter().filter(|it| !it.is_empty()).collect();
    Table::new(&[&line.join("  ")]).write()
}

/// The subject of an entry, for people.
fn key(key: &Value) -> String {
    let word = |name: &str| key[name].as_str().unwrap_or_default();
    let (scope, kind, name) = (word("scope"), word("kind"), word("name"));
    let named = if name.is_empty() { kind.to_owned() } else { format!("{kind} {name}") };
    let count = key["count"].as_u64().filter(|it| *it != 1);
    count.map_or(format!("{scope}{named}"), |it| format!("{scope}{named} ({it})"))
}
