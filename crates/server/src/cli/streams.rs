//! `steadfast streams …`.

use steadfast_api::{
    Page,
    streams::{
        ListDead, ListPending, ListStreams, Message, ReviveMessage, ShowStream, Stream,
        StreamDetail,
    },
};

use super::noun::Noun;
use crate::pages::streams::{columns, message_columns};

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
    columns().write(&page.items)
}

fn show(stream: &StreamDetail) -> String {
    let StreamDetail { id, address, version, items, .. } = stream;
    format!("{id}  {address}  {version} messages\n\n{}", message_columns(true).write(items))
}

fn messages(page: &Page<Message>, empty: &str) -> String {
    if page.items.is_empty() { empty.into() } else { message_columns(false).write(&page.items) }
}
