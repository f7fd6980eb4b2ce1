//! `steadfast objects turns`.

use serde_json::{Map, Value};

use super::{
    super::{
        client::Client,
        output::{print, print_json},
        query,
        table::{Table, or_dash},
        tell_next,
    },
    cell,
};
use crate::{
    api::wire::{List, TurnDetail, TurnEntry},
    args::{AskArgs, ListArgs, ObjectArgs},
    failure::Failure,
};

/// Lists the turns of an object.
pub(in super::super) fn turns(
    client: &Client,
    object: &ObjectArgs,
    args: &ListArgs,
) -> Result<(), Failure> {
    let body = client.get(&format!("{}/turns{}", object.path(), query(args)), args.ask.json)?;
    if args.ask.json {
        return print_json(&body);
    }
    let list: List<TurnEntry> = client.read(&body)?;
    if list.items.is_empty() {
        return print("no turn is kept any more\n");
    }
    print(&table(&list.items))?;
    tell_next(list.next.as_deref(), &args.ask);
    Ok(())
}

fn table(turns: &[TurnEntry]) -> String {
    let mut table = Table::new(&["TURN", "AT", "INPUT", "BYTES", "SENT", "CAUSE"]);
    for it in turns {
        let (turn, bytes, sent) = (it.turn.to_string(), it.bytes.to_string(), it.sent.to_string());
        let cause = or_dash(it.cause.map(|it| it.to_string()).as_deref());
        table.row([turn, it.at.clone(), it.input.clone(), bytes, sent, cause]);
    }
    table.write()
}

/// Shows what one turn changed.
pub(in super::super) fn turn(
    client: &Client,
    object: &ObjectArgs,
    turn: i64,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let body = client.get(&format!("{}/turns/{turn}", object.path()), ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let it: TurnDetail = client.read(&body)?;
    print(&table(&[it.entry]))?;
    if !it.schema.is_empty() {
        let mut table = Table::new(&["SCHEMA", "NAME", "BEFORE", "AFTER"]);
        for it in it.schema {
            let (before, after) = (or_dash(it.before.as_deref()), or_dash(it.after.as_deref()));
            table.row([it.kind, it.name, before, after]);
        }
        print(&format!("\n{}", table.write()))?;
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
        print(&format!("\n{}", table.write()))?;
    }
    if !it.skipped.is_empty() {
        let mut table = Table::new(&["NOT COMPARED", "REASON"]);
        it.skipped.into_iter().for_each(|it| table.row([it.table, it.reason]));
        print(&format!("\n{}", table.write()))?;
    }
    if it.truncated {
        print("more rows were changed than are shown\n")?;
    }
    Ok(())
}

/// A row on one line.
fn line(columns: &[String], row: &Map<String, Value>) -> String {
    let cells = columns.iter().filter_map(|it| Some(format!("{it}={}", cell(row.get(it)?))));
    cells.collect::<Vec<_>>().join(" ")
}
