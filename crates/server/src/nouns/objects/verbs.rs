//! Output of `steadfast objects …`, and the verbs that write a file or choose an operation.

use std::{fs::OpenOptions, io::Write, path::PathBuf};

use clap::Args;
use serde_json::{Map, Value};
use steadfast_api::{
    Operation,
    objects::{ListTurns, ObjectDetail, ShowObject, ShowTurn, SqlRows, TurnDetail},
    rfc3339,
};

use crate::{
    args::AskArgs,
    cli::{
        client::Client,
        noun::answer,
        output::{Table, or_dash, print},
    },
    failure::Failure,
    nouns::objects::{
        file_name,
        page::{alarm_columns, connection_columns, table_columns, turns::turn_columns, yes},
    },
};

pub(super) fn rows(found: &SqlRows) -> String {
    let headings: Vec<&str> = found.columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    found.rows.iter().for_each(|row| table.row(row.iter().map(cell)));
    if found.truncated {
        // This is advice: ignore output errors.
        let advice = "more rows exist; narrow the query, or export the object";
        let _ = writeln!(std::io::stderr(), "{advice}");
    }
    table.write()
}

/// Formats a value for people.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

pub(super) fn show(it: &ObjectDetail) -> String {
    let mut text = facts(it);
    if !it.tables.is_empty() {
        text.push_str(&format!("\n{}", table_columns("").write(&it.tables)));
    }
    if !it.alarms.is_empty() {
        text.push_str(&format!("\n{}", alarm_columns().write(&it.alarms)));
    }
    if !it.connections.is_empty() {
        text.push_str(&format!("\n{}", connection_columns().write(&it.connections)));
    }
    text
}

fn facts(it: &ObjectDetail) -> String {
    let entry = &it.entry;
    let mut table = Table::new(&["address", &entry.address.to_string()]);
    let mut fact = |name: &str, text: String| table.row([name.into(), text]);
    fact("turns", format!("{}, kept from {}", entry.turns, it.oldest_turn));
    match &it.damage {
        Some(damage) => fact("damaged", damage.clone()),
        None => fact("size", format!("{} bytes", it.bytes)),
    }
    fact("in memory", yes(entry.awake).into());
    fact("served", if it.served { "yes" } else { "no: the class of another program" }.into());
    fact("updated", or_dash(entry.updated_at.map(rfc3339).as_deref()));
    fact("created", rfc3339(entry.created_at));
    if let Some(error) = &it.last_error {
        let text = format!("{} of `{}`: {} ({})", error.at, error.input, error.message, error.code);
        fact("last error", text);
    }
    table.write()
}

#[derive(Args)]
pub(super) struct TurnsArgs {
    #[command(flatten)]
    turns: ListTurns,
    /// Show the rows that this turn changed, before and after
    #[arg(long, env = "STEADFAST_TURN", value_name = "TURN")]
    turn: Option<i64>,
}

pub(super) fn turns(client: &Client, args: TurnsArgs, ask: &AskArgs) -> Result<(), Failure> {
    let TurnsArgs { turns, turn } = args;
    match turn {
        Some(turn) => {
            let it = ShowTurn { class: turns.class, name: turns.name, turn };
            answer(client, &it, ask.json, &|_, turn| changes(turn))
        }
        None => answer(client, &turns, ask.json, &|_, page| {
            turn_columns("").list(&page.items, "no turns are stored\n")
        }),
    }
}

fn changes(it: &TurnDetail) -> String {
    let mut text = turn_columns("").write([&it.entry]);
    if !it.schema.is_empty() {
        let mut table = Table::new(&["SCHEMA", "NAME", "BEFORE", "AFTER"]);
        for it in &it.schema {
            let (before, after) = (or_dash(it.before.as_deref()), or_dash(it.after.as_deref()));
            table.row([it.kind.clone(), it.name.clone(), before, after]);
        }
        text.push_str(&format!("\n{}", table.write()));
    }
    if !it.changes.is_empty() {
        let mut table = Table::new(&["TABLE", "KEY", "BEFORE", "AFTER"]);
        for it in &it.changes {
            let key: Vec<String> = it.key.values().map(cell).collect();
            let side = |row: &Option<Map<String, Value>>| {
                or_dash(row.as_ref().map(|row| line(&it.columns, row)).as_deref())
            };
            let (before, after) = (side(&it.before), side(&it.after));
            table.row([it.table.clone(), key.join(", "), before, after]);
        }
        text.push_str(&format!("\n{}", table.write()));
    }
    if !it.skipped.is_empty() {
        let mut table = Table::new(&["NOT COMPARED", "REASON"]);
        it.skipped.iter().for_each(|it| table.row([it.table.clone(), it.reason.clone()]));
        text.push_str(&format!("\n{}", table.write()));
    }
    if it.truncated {
        text.push_str("more rows were changed than are shown\n");
    }
    text
}

/// Formats a row on one line.
fn line(columns: &[String], row: &Map<String, Value>) -> String {
    let cells = columns.iter().filter_map(|it| Some(format!("{it}={}", cell(row.get(it)?))));
    cells.collect::<Vec<_>>().join(" ")
}

#[derive(Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    object: ShowObject,
    /// State of the object after this turn
    #[arg(long, env = "STEADFAST_TURN", value_name = "TURN")]
    turn: Option<i64>,
    /// Target file, which must not exist; by default CLASS-NAME.sqlite
    #[arg(long, env = "STEADFAST_OUTPUT", value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes an object to a file. An existing file is never overwritten.
pub(super) fn export(client: &Client, args: ExportArgs, ask: &AskArgs) -> Result<(), Failure> {
    let ExportArgs { object, turn, output } = args;
    let at = turn.map_or(String::new(), |it| format!("?turn={it}"));
    let file = output.unwrap_or_else(|| file_name(&object.class, &object.name, turn).into());
    let shown = file.display();
    if file.exists() {
        return Err(Failure::new(format!("{shown} exists already; name another with --output")));
    }
    let bytes = client.download(&format!("{}/export{at}", object.path()), ask.json)?;
    let failed = |error: std::io::Error| Failure::new(format!("{shown} is not written: {error}"));
    let mut target = OpenOptions::new().write(true).create_new(true).open(&file).map_err(failed)?;
    target.write_all(&bytes).and_then(|()| target.sync_all()).map_err(failed)?;
    print(&format!("wrote {} bytes to {shown}; open it with `sqlite3`\n", bytes.len()))
}
