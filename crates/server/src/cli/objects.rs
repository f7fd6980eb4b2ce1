//! `steadfast objects …`.

mod show;
mod turns;

use std::{fs::OpenOptions, io::Write};

use serde_json::Value;
use steadfast_web::escaped;

pub(super) use self::{
    show::show,
    turns::{turn, turns},
};
use super::{
    client::Client,
    output::{print, print_json},
    query,
    table::{Table, or_dash},
    tell_next,
};
use crate::{
    api::{
        objects::export::file_name,
        wire::{List, ObjectClass, ObjectEntry, SqlBody, SqlRows},
    },
    args::{AskArgs, CallArgs, ExportArgs, ListArgs, ObjectArgs, SqlArgs},
    failure::Failure,
};

impl ObjectArgs {
    /// Where the API has it.
    fn path(&self) -> String {
        format!("/v1/objects/{}/{}", escaped(&self.class), escaped(&self.name))
    }
}

/// Lists the classes.
pub(super) fn classes(client: &Client, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.get("/v1/objects", ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let list: List<ObjectClass> = client.read(&body)?;
    let mut table = Table::new(&["CLASS", "OBJECTS", "SERVED"]);
    for it in list.items {
        let served = if it.served { "yes" } else { "no" };
        table.row([it.name, at_least(it.objects, it.more), served.into()]);
    }
    print(&table.write())
}

/// A number that may be more.
fn at_least(number: usize, more: bool) -> String {
    format!("{number}{}", if more { "+" } else { "" })
}

/// Lists the objects of a class.
pub(super) fn list(
    client: &Client,
    class: &str,
    prefix: Option<&str>,
    args: &ListArgs,
) -> Result<(), Failure> {
    let prefix = prefix.map_or(String::new(), |it| format!("&prefix={}", escaped(it)));
    let path = format!("/v1/objects/{}{}{prefix}", escaped(class), query(args));
    let body = client.get(&path, args.ask.json)?;
    if args.ask.json {
        return print_json(&body);
    }
    let list: List<ObjectEntry> = client.read(&body)?;
    if list.items.is_empty() {
        return print("no objects here: one begins with the first call that changes it\n");
    }
    let mut table = Table::new(&["NAME", "TURNS", "AWAKE", "UPDATED", "CREATED"]);
    for it in list.items {
        let (turns, awake) = (it.turns.to_string(), if it.awake { "yes" } else { "no" });
        let updated = or_dash(it.updated_at.as_deref());
        table.row([it.name, turns, awake.into(), updated, it.created_at]);
    }
    print(&table.write())?;
    tell_next(list.next.as_deref(), &args.ask);
    Ok(())
}

/// Calls an object and prints the reply, which is JSON.
pub(super) fn call(client: &Client, args: &CallArgs) -> Result<(), Failure> {
    let CallArgs { object, message, body, idempotency_key, ask } = args;
    let path = format!("{}/calls/{}", object.path(), escaped(message));
    let reply = client.post(&path, body.as_deref(), idempotency_key.as_deref(), ask.json)?;
    print_json(&reply)
}

/// Runs a statement.
pub(super) fn sql(client: &Client, args: &SqlArgs) -> Result<(), Failure> {
    let SqlArgs { object, sql, params, turn, ask } = args;
    let params: Value = serde_json::from_str(params.as_deref().unwrap_or("null"))
        .map_err(|error| Failure::new(format!("--params is not JSON: {error}")))?;
    let question = SqlBody { sql: sql.clone(), params, turn: *turn };
    let question =
        serde_json::to_string(&question).map_err(|error| Failure::new(error.to_string()))?;
    let path = format!("{}/sql", object.path());
    let body = client.post(&path, Some(&question), None, ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let found: SqlRows = client.read(&body)?;
    let headings: Vec<&str> = found.columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    found.rows.iter().for_each(|row| table.row(row.iter().map(cell)));
    print(&table.write())?;
    if found.truncated {
        // Advice only: it does not matter if nobody reads it.
        let _ = writeln!(std::io::stderr(), "there is more; ask for less, or export the object");
    }
    Ok(())
}

/// A value as people read it.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Writes an object to a file. What is there is never overwritten.
pub(super) fn export(client: &Client, args: &ExportArgs) -> Result<(), Failure> {
    let ExportArgs { object, turn, output, ask } = args;
    let at = turn.map_or(String::new(), |it| format!("?turn={it}"));
    let file =
        output.clone().unwrap_or_else(|| file_name(&object.class, &object.name, *turn).into());
    let shown = file.display();
    if file.exists() {
        return Err(Failure::new(format!("{shown} is there already; name another with --output")));
    }
    let bytes = client.download(&format!("{}/export{at}", object.path()), ask.json)?;
    let failed = |error: std::io::Error| Failure::new(format!("{shown} is not written: {error}"));
    let mut target = OpenOptions::new().write(true).create_new(true).open(&file).map_err(failed)?;
    target.write_all(&bytes).and_then(|()| target.sync_all()).map_err(failed)?;
    print(&format!("{shown}: {} bytes; open it with `sqlite3`\n", bytes.len()))
}

/// Deletes an object.
pub(super) fn delete(client: &Client, object: &ObjectArgs, ask: &AskArgs) -> Result<(), Failure> {
    let body = client.delete(&object.path(), ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    print(&format!("object/{}/{} is deleted\n", object.class, object.name))
}
