//! `steadfast runs tail`: the history of a run, until it ends.

use serde_json::Value;
use steadfast_core::workflow::HistoryEntry;

use super::super::{client::Client, output, table::Table};
use crate::{
    api::wire::List,
    args::{AskArgs, RunArgs},
    failure::Failure,
};

/// What was heard so far.
struct Heard {
    after: i64,
    ended: Option<String>,
    /// Nobody reads what is printed.
    enough: bool,
}

/// Prints the history of a run, and what is added to it.
pub(in super::super) fn tail(
    client: &Client,
    run: &RunArgs,
    after: u32,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let mut heard = Heard { after: after.into(), ended: None, enough: false };
    if client.is_server() {
        follow(client, run, &mut heard, ask)?;
    } else {
        // In a folder that no server holds, nothing goes on.
        read(client, run, &mut heard, ask)?;
    }
    match heard.ended.as_deref() {
        Some("errored" | "terminated") => Err(Failure::Quiet),
        Some(_) | None => Ok(()),
    }
}

fn read(client: &Client, run: &RunArgs, heard: &mut Heard, ask: &AskArgs) -> Result<(), Failure> {
    loop {
        let path = format!("{}/history?after={}&limit=1000", run.path(), heard.after);
        let page: List<Value> = client.read(&client.get(&path, ask.json)?)?;
        for it in page.items {
            heard.tell(client, &it.to_string(), ask)?;
        }
        if page.next.is_none() || heard.enough {
            return Ok(());
        }
    }
}

/// Goes on behind what was heard when the line breaks.
fn follow(client: &Client, run: &RunArgs, heard: &mut Heard, ask: &AskArgs) -> Result<(), Failure> {
    loop {
        let before = heard.after;
        let path = format!("{}/live?after={before}", run.path());
        let mut over = false;
        let mut name = String::new();
        client.follow(&path, ask.json, |line| {
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                match name.as_str() {
                    "" => heard.tell(client, data, ask)?,
                    "end" => over = true,
                    // The line ends, and is taken up again.
                    _ => {}
                }
            } else if line.is_empty() {
                name.clear();
            }
            Ok(!over && !heard.enough)
        })?;
        if over || heard.enough {
            return Ok(());
        }
        if heard.after == before {
            let text = format!("the line broke; go on with --after {before}");
            return Err(Failure::new(text));
        }
    }
}

impl Heard {
    fn tell(&mut self, client: &Client, text: &str, ask: &AskArgs) -> Result<(), Failure> {
        let entry: HistoryEntry = client.read(text)?;
        self.after = entry.number;
        self.ended = entry.is_end().then(|| entry.entry.clone());
        let line = if ask.json { format!("{text}\n") } else { line(&entry) };
        self.enough = !output::tell(&line)?;
        Ok(())
    }
}

/// One line: number, time, what it is, what it is about, what it says.
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

/// What an entry is about, as people say it.
fn key(key: &Value) -> String {
    let word = |name: &str| key[name].as_str().unwrap_or_default();
    let (scope, kind, name) = (word("scope"), word("kind"), word("name"));
    let named = if name.is_empty() { kind.to_owned() } else { format!("{kind} {name}") };
    let count = key["count"].as_u64().filter(|it| *it != 1);
    count.map_or(format!("{scope}{named}"), |it| format!("{scope}{named} ({it})"))
}
