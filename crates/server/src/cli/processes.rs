//! `steadfast processes list`, `show` and `send`.

use serde_json::{json, value::RawValue};
use steadfast_web::escaped;

use super::{
    client::Client,
    messages::message_table,
    output::{print, print_json},
    query,
    table::{Table, or_dash},
    tell_next,
};
use crate::{
    api::wire::{Decision, Instance, InstanceDetail, List, Process},
    args::{ListArgs, SendArgs, StatusArg},
    failure::Failure,
};

/// Lists the processes, or the instances of one.
pub(super) fn list(
    client: &Client,
    name: Option<&str>,
    status: Option<StatusArg>,
    args: &ListArgs,
) -> Result<(), Failure> {
    let Some(name) = name else { return names(client, args) };
    let status = status.map_or(String::new(), |it| format!("&status={}", it.word()));
    let path = format!("/v1/processes/{}{}{status}", escaped(name), query(args));
    let body = client.get(&path, args.ask.json)?;
    if args.ask.json {
        return print_json(&body);
    }
    let list: List<Instance> = client.read(&body)?;
    if list.items.is_empty() {
        print("no instances here: one begins with its first input\n")?;
    } else {
        let mut table =
            Table::new(&["ID", "STATUS", "MESSAGES", "UPDATED", "CREATED", "COMPLETED"]);
        for it in list.items {
            let (status, version) = (it.status.word().into(), it.version.to_string());
            let completed = or_dash(it.completed_at.as_deref());
            table.row([it.id, status, version, it.updated_at, it.created_at, completed]);
        }
        print(&table.write())?;
    }
    tell_next(list.next.as_deref(), &args.ask);
    Ok(())
}

fn names(client: &Client, args: &ListArgs) -> Result<(), Failure> {
    let body = client.get("/v1/processes", args.ask.json)?;
    if args.ask.json {
        return print_json(&body);
    }
    let list: List<Process> = client.read(&body)?;
    let mut table = Table::new(&["NAME"]);
    list.items.into_iter().for_each(|it| table.row([it.name]));
    print(&table.write())
}

/// Shows an instance.
pub(super) fn show(client: &Client, name: &str, id: &str, args: &ListArgs) -> Result<(), Failure> {
    let path = format!("/v1/processes/{}/{}{}", escaped(name), escaped(id), query(args));
    let body = client.get(&path, args.ask.json)?;
    if args.ask.json {
        return print_json(&body);
    }
    let it: InstanceDetail = client.read(&body)?;
    let (address, status, messages) = (&it.address, it.status.word(), it.version);
    print(&format!("{address}  {status}  {messages} messages\n\n{:#}\n\n", it.state))?;
    print(&message_table(&it.items, false))?;
    tell_next(it.next.as_deref(), &args.ask);
    Ok(())
}

/// Gives an instance an input.
pub(super) fn send(client: &Client, args: &SendArgs) -> Result<(), Failure> {
    let SendArgs { name, id, type_, body, idempotency_key, ask } = args;
    let data: &RawValue = serde_json::from_str(body.as_deref().unwrap_or("null"))
        .map_err(|error| Failure::new(format!("--body is not JSON: {error}")))?;
    let input = format!("{{\"type\":{},\"data\":{}}}", json!(type_), data.get());
    let path = format!("/v1/processes/{}/{}/inputs", escaped(name), escaped(id));
    let body = client.post(&path, Some(&input), idempotency_key.as_deref(), ask.json)?;
    if ask.json {
        return print_json(&body);
    }
    let decision: Decision = client.read(&body)?;
    let end = if decision.ignored { ", ignored: it came after the end" } else { "" };
    print(&format!("{type_} is message {} of {name}/{id}{end}\n", decision.position))?;
    if !decision.outputs.is_empty() {
        let mut table = Table::new(&["ACTION", "TYPE", "DATA"]);
        for it in decision.outputs {
            table.row([it.action, it.type_, it.data.to_string()]);
        }
        print(&format!("\n{}", table.write()))?;
    }
    Ok(())
}
