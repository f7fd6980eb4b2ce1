//! Pages of streams and messages: the list, a stream, pending and dead messages.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Redirect,
};
use maud::{Markup, html};
use steadfast_api::{
    DeliveryState,
    streams::{ListDead, ListPending, ListStreams, Message, ReviveMessage, ShowStream, Stream},
};
use steadfast_store::{Address, EntityKind};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
};

use crate::{
    list::Columns,
    nouns::streams as api,
    pages::{
        components::{
            Tone, badge, code_of, command, empty, heading_of, link, live, live_page, optional,
            pager, time,
        },
        links::href_of,
    },
    path,
    server::Server,
};

/// Maximum characters of a message's data on a page; a link shows the rest.
const DATA_CHARACTERS_MAX: usize = 4_000;

/// Lists the streams.
pub(crate) async fn list(
    State(server): State<Arc<Server>>,
    Params(params): Params<ListStreams>,
) -> Result<Page, Problem> {
    let list = api::list(server, params).await?;
    let content = html! {
        h1 { "Streams" }
        @if list.items.is_empty() {
            (empty("No streams", &command(
                "The first message creates a stream. Append one from your application:",
                "streams.append(&address, 0, vec![message]).await?",
            )))
        } @else {
            p.lead {
                "A stream holds the messages of one object, run, process or queue, in order. · "
                a href="/v1/streams" { "JSON" }
            }
            (columns().table(&list.items))
            (pager("/streams", "", list.next.as_deref()))
        }
    };
    Ok(console("Streams", Section::Streams, content))
}

/// The columns of the list.
pub(crate) fn columns() -> Columns<'static, Stream> {
    Columns::<Stream>::new()
        .text("Id", |it| it.id.clone())
        .on_command_line()
        .text("Address", |it| it.address.clone())
        .markup(|it| {
            let name = html! { span.quiet { (it.kind) "/" (it.class) "/" } (it.name) };
            link(format!("/streams/{}", it.id), name)
        })
        .number("Messages", |it| it.version.to_string())
        .time("Updated", |it| it.updated_at.clone())
        .time("Created", |it| it.created_at.clone())
}

/// Shows one stream.
pub(crate) async fn show(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    Params(params): Params<ShowStream>,
) -> Result<Page, Problem> {
    let stream = api::show(server, ShowStream { id, ..params }).await?;
    let path = format!("/streams/{}", stream.id);
    let content = html! {
        (heading_of("/streams", "Streams", &stream.address))
        p.lead {
            (stream.version) @if stream.version == 1 { " message" } @else { " messages" }
            " · id " code { (stream.id) } " · " a href={ "/v1" (path) } { "JSON" }
        }
        @if stream.items.is_empty() {
            (empty("No messages", &html! {
                p { "Messages were sent to this address, but it has recorded none itself." }
            }))
        } @else {
            (live(is_busy(&stream.items), &html! {
                (message_table(&stream.items, true))
                (pager(&path, "", stream.next.as_deref()))
                (revive_hint(&stream.items))
            }))
        }
    };
    Ok(live_page(&stream.address, Section::Streams, content))
}

/// Lists messages that are to be delivered.
pub(crate) async fn pending(
    State(server): State<Arc<Server>>,
    Params(params): Params<ListPending>,
) -> Result<Page, Problem> {
    let list = api::pending(server, params).await?;
    let content = html! {
        h1 { "Pending messages" }
        @if list.items.is_empty() {
            (empty("No pending messages", &html! { p { "All messages are delivered." } }))
        } @else {
            p.lead {
                "Messages that are not delivered yet, oldest first. · "
                a href="/v1/streams/pending" { "JSON" }
            }
            (message_table(&list.items, false))
            (pager("/streams/pending", "", list.next.as_deref()))
        }
    };
    Ok(console("Pending", Section::Pending, content))
}

/// Lists dead messages.
pub(crate) async fn dead(
    State(server): State<Arc<Server>>,
    Params(params): Params<ListDead>,
) -> Result<Page, Problem> {
    let list = api::dead(server, params).await?;
    let content = html! {
        h1 { "Dead messages" }
        @if list.items.is_empty() {
            (empty("No dead messages", &html! { p { "No message has used up its attempts." } }))
        } @else {
            p.lead {
                "Messages whose last attempt failed, oldest first. · "
                a href="/v1/streams/dead" { "JSON" }
            }
            (message_table(&list.items, false))
            (pager("/streams/dead", "", list.next.as_deref()))
            (revive_hint(&list.items))
        }
    };
    Ok(console("Dead", Section::Dead, content))
}

fn revive_hint(messages: &[Message]) -> Markup {
    let dead = messages.iter().find(|it| it.state == Some(DeliveryState::Dead));
    html! {
        @if let Some(message) = dead {
            p.hint {
                "Revive a dead message after you have fixed its cause: "
                code { "steadfast streams revive " (message.global_position) }
            }
        }
    }
}

/// Revives a dead or cancelled message, and shows its stream.
pub(crate) async fn revive(
    State(server): State<Arc<Server>>,
    Path(position): Path<String>,
) -> Result<Redirect, Problem> {
    let message = path::position(&position)?;
    let asked = ReviveMessage { message, idempotency_key: None };
    let message = api::revive(server.clone(), asked).await?;
    // The stream of an object or a run shows more about a message than its page.
    let address = message.stream.parse().ok();
    let process = address.filter(|it: &Address| it.kind() == EntityKind::Process);
    let stream = || format!("/streams/{}", message.stream_id());
    Ok(Redirect::to(&process.map_or_else(stream, |it| href_of(&server, &it))))
}

/// Whether one of the messages is still to be delivered.
pub(crate) fn is_busy(messages: &[Message]) -> bool {
    let waits = |it| matches!(it, DeliveryState::Pending | DeliveryState::InFlight);
    messages.iter().any(|it| it.state.is_some_and(waits))
}

/// The columns of messages of one stream, or of all streams. On the command line the first column
/// is the argument of `revive`.
pub(crate) fn message_columns(is_one: bool) -> Columns<'static, Message> {
    let json = |it: &Message, shown: i64| {
        html! {
            a href={ "/v1/messages/" (it.global_position) }
                title={ "Message " (it.global_position) " as JSON" } { (shown) }
        }
    };
    let number = Columns::<Message>::new().number("Message", |it| it.global_position.to_string());
    let position = match is_one {
        true => number
            .on_command_line()
            .number("Position", |it| it.position.to_string())
            .markup(move |it| json(it, it.position)),
        false => number
            .markup(move |it| json(it, it.global_position))
            .text("Stream", |it| it.stream.clone())
            .markup(|it| link(format!("/streams/{}", it.stream_id()), &it.stream))
            .class("stream")
            .number("Position", |it| it.position.to_string())
            .on_command_line(),
    };
    let delivery = position
        .text("Kind", |it| it.kind.clone())
        .text("Direction", |it| it.direction.clone())
        .text("Type", |it| it.type_.clone())
        .markup(content)
        .class("message")
        .text("State", |it| it.state.map_or(String::new(), |it| it.name().to_owned()))
        .markup(state)
        .class("state")
        .text("Processed", |it| it.processed.map_or("", |it| if it { "yes" } else { "no" }).into())
        .on_command_line()
        .number("Attempts", |it| it.attempts.map_or(String::new(), |it| it.to_string()))
        .text("Due", |it| it.due_at.clone().unwrap_or_default())
        .on_command_line()
        .text("Executed", |it| it.processed_at.clone().unwrap_or_default())
        .on_command_line();
    // Pending and dead messages were not processed.
    let processed = match is_one {
        true => {
            delivery.console("Processed (UTC)", |it| optional(it.processed_at.as_ref().map(time)))
        }
        false => delivery,
    };
    processed.text("Error", |it| it.error.clone().unwrap_or_default()).class("error")
}

/// Messages of one stream, or of all streams, as the rows of a table.
pub(crate) fn message_table(messages: &[Message], is_one: bool) -> Markup {
    message_columns(is_one).table_of("", messages, |it| match it.state {
        Some(DeliveryState::Dead) => "failed",
        _ => "",
    })
}

fn content(message: &Message) -> Markup {
    let all = format!("/v1/messages/{}", message.global_position);
    html! {
        div {
            strong { (message.type_) }
            @if let Some(target) = &message.target { div.quiet.address { "→ " (target) } }
            details data-key={ "data " (message.global_position) } {
                summary { "data" }
                (code_of(message.data.get(), DATA_CHARACTERS_MAX, &all))
                p.quiet { "committed " (time(&message.created_at)) " · id " code { (message.id) } }
            }
        }
    }
}

/// The state of a delivery.
pub(crate) fn delivery_badge(state: DeliveryState) -> Markup {
    let tone = match state {
        DeliveryState::Done => Tone::Good,
        DeliveryState::Dead => Tone::Bad,
        DeliveryState::Pending | DeliveryState::InFlight => Tone::Waiting,
        DeliveryState::Cancelled => Tone::Quiet,
    };
    badge(tone, state.name())
}

fn state(message: &Message) -> Markup {
    let Some(state) = message.state else { return html! {} };
    html! {
        div {
            (delivery_badge(state))
            @if let Some(due) = &message.due_at { div.quiet { "due " (time(due)) } }
            @if state == DeliveryState::Dead {
                form method="post" action={ "/messages/" (message.global_position) "/revive" } {
                    button.button { "Revive" }
                }
            }
        }
    }
}
