//! `steadfast streams pending`, `dead` and `revive`.

use steadfast_web::escaped;

use super::{
    client::Client,
    output::{print, print_json},
    query,
    table::{Table, or_dash},
    tell_next,
};
use crate::{
    api::wire::{List, Message, MessageState},
    args::{AskArgs, ListArgs},
    failure::Failure,
};

/// Lists what is to be delivered.
pub(super) fn pending(
    client: &Client,
    stream: Option<&str>,
    args: &ListArgs,
) -> Result<(), Failure> {
    let filter = stream.map_or(String::new(), |it| format!("&stream={}", escaped(it)));
    let path = format!("/v1/streams/pending{}{filter}", query(args));
    print_list(client, &path, "nothing is pending\n", args)
}

/// Lists what was given up.
pub(super) fn dead(client: &Client, args: &ListArgs) -> Result<(), Failure> {
    let path = format!("/v1/streams/dead{}", query(args));
    print_list(client, &path, "nothing is dead\n", args)
}

fn print_list(client: &Client, path: &str, empty: &str, args: &ListArgs) -> Result<(), Failure> {
    let body = client.get(path, args.ask.json)?;
    if args.ask.json {
        return print_json(&body);
    }
    let list: List<Message> = client.read(&body)?;
    if list.items.is_empty() {
        return print(empty);
    }
    print(&message_table(&list.items, true))?;
    tell_next(list.next.as_deref(), &args.ask);
    Ok(())
}

/// Makes a dead or cancelled message pending again.
pub(super) fn revive(
    client: &Client,
    message: i64,
    key: Option<&str>,
    args: &AskArgs,
) -> Result<(), Failure> {
    let body = client.post(&format!("/v1/messages/{message}/revive"), None, key, args.json)?;
    if args.json {
        return print_json(&body);
    }
    let revived: Message = client.read(&body)?;
    print(&format!("{message}  {} of {} is pending again\n", revived.type_, revived.stream))
}

/// Messages as rows. The first column is what `revive` takes.
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
            or_dash(it.state.map(MessageState::word)),
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
