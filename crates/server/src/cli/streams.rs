//! `steadfast streams …`.

use steadfast_api::{
    DeliveryState, Page,
    streams::{
        ListDead, ListPending, ListStreams, Message, ReviveMessage, ShowStream, Stream,
        StreamDetail,
    },
};

use super::{
    noun::Noun,
    table::{Table, or_dash},
};

pub(super) fn noun() -> Noun {
    Noun::new("streams", "List message streams, pending and dead messages, revive dead ones")
        .verb::<ListStreams>("list", &["streams list --limit 10"], |_, page| list(page))
        .verb::<ShowStream>(
            "show",
            &[
                "streams show process/checkout/42",
                "streams show 60b5bdcba1353ac8a8b1e05c5d3b9a3e --json",
            ],
            |_, stream| show(stream),
        )
        .verb::<ListPending>(
            "pending",
            &["streams pending --stream process/checkout/42"],
            |_, page| messages(page, "no message is pending\n"),
        )
        .verb::<ListDead>("dead", &["streams dead"], |_, page| {
            messages(page, "no message is dead\n")
        })
        .verb::<ReviveMessage>("revive", &["streams revive 17"], |it, revived| {
            let Message { type_, stream, .. } = revived;
            format!("message {} is pending again: {type_} of {stream}\n", it.message)
        })
}

fn list(page: &Page<Stream>) -> String {
    if page.items.is_empty() {
        return "no streams; the first message creates one\n".into();
    }
    let mut table = Table::new(&["ID", "ADDRESS", "MESSAGES", "UPDATED", "CREATED"]);
    for it in page.items.iter().cloned() {
        table.row([it.id, it.address, it.version.to_string(), it.updated_at, it.created_at]);
    }
    table.write()
}

fn show(stream: &StreamDetail) -> String {
    let StreamDetail { id, address, version, items, .. } = stream;
    format!("{id}  {address}  {version} messages\n\n{}", message_table(items, false))
}

fn messages(page: &Page<Message>, empty: &str) -> String {
    if page.items.is_empty() { empty.into() } else { message_table(&page.items, true) }
}

/// Messages as rows. The first column is the argument of `revive`.
pub(super) fn message_table(messages: &[Message], with_stream: bool) -> String {
    let mut headings = vec!["MESSAGE", "STREAM", "POSITION", "KIND", "DIRECTION", "TYPE", "STATE"];
    headings.extend(["PROCESSED", "ATTEMPTS", "DUE", "EXECUTED", "ERROR"]);
    if !with_stream {
        headings.remove(1);
    }
    let mut table = Table::new(&headings);
    for it in messages {
        let mut cells = vec![
            it.global_position.to_string(),
            it.stream.clone(),
            it.position.to_string(),
            it.kind.clone(),
            it.direction.clone(),
            it.type_.clone(),
            or_dash(it.state.map(DeliveryState::name)),
            or_dash(it.processed.map(|it| if it { "yes" } else { "no" })),
            or_dash(it.attempts.map(|it| it.to_string()).as_deref()),
            or_dash(it.due_at.as_deref()),
            or_dash(it.processed_at.as_deref()),
            or_dash(it.error.as_deref()),
        ];
        if !with_stream {
            cells.remove(1);
        }
        table.row(cells);
    }
    table.write()
}
