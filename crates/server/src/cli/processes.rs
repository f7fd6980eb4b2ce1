//! `steadfast processes …`.

use steadfast_api::{
    Page,
    processes::{
        Decision, Instance, InstanceDetail, ListInstances, ListProcesses, Process, SendInput,
        ShowInstance,
    },
};

use super::{
    client::Client,
    noun::{Noun, answer},
    table::Table,
};
use crate::{
    args::AskArgs,
    failure::Failure,
    pages::{processes::columns, streams::message_columns},
};

pub(super) fn noun() -> Noun {
    Noun::new("processes", "List processes, show instances, send inputs")
        .custom(
            "list",
            (
                "List the processes, or the instances of one",
                &["processes list", "processes list group-checkout --status open"],
            ),
            list,
        )
        .verb::<ShowInstance>("show", &["processes show group-checkout g-1"], |_, it| show(it))
        .verb::<SendInput>(
            "send",
            &["processes send traffic-fine r-1 --type PoliceReportPublished --body \
               '{\"policeReportId\": \"r-1\", \"offense\": \"parkingViolation\"}'"],
            send,
        )
}

fn list(client: &Client, it: ListInstances, ask: &AskArgs) -> Result<(), Failure> {
    if it.name.is_empty() && (it.status.is_some() || it.cursor.is_some()) {
        return Err(Failure::new("name the process whose instances are filtered"));
    }
    match it.name.is_empty() {
        true => answer(client, &ListProcesses {}, ask.json, |_, page| names(page)),
        false => answer(client, &it, ask.json, |_, page| instances(page)),
    }
}

fn names(page: &Page<Process>) -> String {
    let mut table = Table::new(&["NAME"]);
    page.items.iter().for_each(|it| table.row([it.name.clone()]));
    table.write()
}

fn instances(page: &Page<Instance>) -> String {
    if page.items.is_empty() {
        return "no instances; the first input creates one\n".into();
    }
    columns("").write(&page.items)
}

fn show(it: &InstanceDetail) -> String {
    let (address, status, messages) = (&it.address, it.status.name(), it.version);
    let table = message_columns(true).write(&it.items);
    format!("{address}  {status}  {messages} messages\n\n{:#}\n\n{table}", it.state)
}

fn send(input: &SendInput, decision: &Decision) -> String {
    let SendInput { name, id, type_, .. } = input;
    let end = if decision.ignored { "; ignored, because the instance has ended" } else { "" };
    let mut text =
        format!("recorded {type_} as message {} of {name}/{id}{end}\n", decision.position);
    if !decision.outputs.is_empty() {
        let mut table = Table::new(&["ACTION", "TYPE", "DATA"]);
        for it in &decision.outputs {
            table.row([it.action.clone(), it.type_.clone(), it.data.to_string()]);
        }
        text.push_str(&format!("\n{}", table.write()));
    }
    text
}
