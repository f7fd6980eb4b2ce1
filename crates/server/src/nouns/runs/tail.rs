//! `steadfast runs tail`: prints the history of a run until it ends.

use clap::Args;
use serde_json::Value;
use steadfast_api::{
    Operation, Page,
    runs::{RunHistory, ShowRun},
};
use steadfast_core::workflow::HistoryEntry;

use crate::{
    args::AskArgs,
    cli::{client::Client, output, table::Table},
    failure::Failure,
};

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
pub(crate) fn tail(client: &Client, args: TailArgs, ask: &AskArgs) -> Result<(), Failure> {
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
