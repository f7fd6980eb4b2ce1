//! `steadfast objects show`.

use super::{
    super::{
        client::Client,
        output::{print, print_json},
        table::{Table, or_dash},
    },
    at_least,
};
use crate::{
    api::wire::ObjectDetail,
    args::{AskArgs, ObjectArgs},
    failure::Failure,
};

/// Shows what is known of an object.
pub(in super::super) fn show(
    client: &Client,
    object: &ObjectArgs,
    ask: &AskArgs,
) -> Result<(), Failure> {
    let body = client.get(&object.path(), ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let it: ObjectDetail = client.read(&body)?;
    print(&facts(&it))?;
    if !it.tables.is_empty() {
        let mut table = Table::new(&["TABLE", "ROWS", "COLUMNS"]);
        for it in &it.tables {
            let rows = it.rows.map(|rows| at_least(rows, it.more));
            table.row([it.name.clone(), or_dash(rows.as_deref()), it.columns.join(", ")]);
        }
        print(&format!("\n{}", table.write()))?;
    }
    if !it.alarms.is_empty() {
        let mut table = Table::new(&["ALARM", "RINGS", "MESSAGE", "ATTEMPTS", "STATE", "ERROR"]);
        for it in &it.alarms {
            let (ring_at, message) = (it.ring_at.clone(), it.message.clone());
            let state = if it.failed { "given up" } else { "set" };
            let error = or_dash(it.error.as_deref());
            let attempts = it.attempts.to_string();
            table.row([it.name.clone(), ring_at, message, attempts, state.into(), error]);
        }
        print(&format!("\n{}", table.write()))?;
    }
    if !it.connections.is_empty() {
        let mut table = Table::new(&["CONNECTION", "SINCE", "TAGS", "ATTACHMENT"]);
        for it in &it.connections {
            let (id, since) = (it.id.to_string(), it.connected_at.clone());
            table.row([id, since, it.tags.join(", "), it.attachment.to_string()]);
        }
        print(&format!("\n{}", table.write()))?;
    }
    Ok(())
}

fn facts(it: &ObjectDetail) -> String {
    let entry = &it.entry;
    let mut table = Table::new(&["address", &entry.address]);
    let mut fact = |name: &str, text: String| table.row([name.into(), text]);
    fact("turns", format!("{}, can be seen from {} on", entry.turns, it.oldest_turn));
    match &it.damage {
        Some(damage) => fact("damaged", damage.clone()),
        None => fact("size", format!("{} bytes", it.bytes)),
    }
    fact("awake", if entry.awake { "yes" } else { "no" }.into());
    fact("served", if it.served { "yes" } else { "no: another program's class" }.into());
    fact("updated", or_dash(entry.updated_at.as_deref()));
    fact("created", entry.created_at.clone());
    if let Some(error) = &it.last_error {
        let text = format!("{} of `{}`: {} ({})", error.at, error.input, error.message, error.code);
        fact("last error", text);
    }
    table.write()
}
