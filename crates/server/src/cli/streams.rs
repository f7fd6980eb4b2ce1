//! `steadfast streams list` and `show`.

use steadfast_web::escaped;

use super::{
    client::Client,
    messages::message_table,
    output::{print, print_json},
    query,
    table::Table,
    tell_next,
};
use crate::{
    api::wire::{List, Stream, StreamDetail},
    args::ListArgs,
    failure::Failure,
};

/// Lists the streams.
pub(super) fn list(client: &Client, args: &ListArgs) -> Result<(), Failure> {
    let body = client.get(&format!("/v1/streams{}", query(args)), args.ask.json)?;
    if args.ask.json {
        return print_json(&body);
    }
    let list: List<Stream> = client.read(&body)?;
    if list.items.is_empty() {
        return print("no streams yet: one begins with its first message\n");
    }
    let mut table = Table::new(&["ID", "ADDRESS", "MESSAGES", "UPDATED", "CREATED"]);
    for it in list.items {
        table.row([it.id, it.address, it.version.to_string(), it.updated_at, it.created_at]);
    }
    print(&table.write())?;
    tell_next(list.next.as_deref(), &args.ask);
    Ok(())
}

/// Shows the messages of a stream.
pub(super) fn show(client: &Client, id: &str, args: &ListArgs) -> Result<(), Failure> {
    let path = format!("/v1/streams/{}{}", escaped(id), query(args));
    let body = client.get(&path, args.ask.json)?;
    if args.ask.json {
        return print_json(&body);
    }
    let stream: StreamDetail = client.read(&body)?;
    let (address, messages) = (&stream.address, stream.version);
    print(&format!("{}  {address}  {messages} messages\n\n", stream.id))?;
    print(&message_table(&stream.items, false))?;
    tell_next(stream.next.as_deref(), &args.ask);
    Ok(())
}
