//! Pages of queues: the list, and a queue with its messages, dead letters and actions.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde_json::Value;
use steadfast_api::{
    Code, Limit, Page as List,
    queues::{
        EditMessage, ListQueues, MessageState, PeekQueue, Queue, QueueMessage, QueueSample,
        RedriveFilter, RedriveQueue, Redriven, ShowQueue,
    },
    rfc3339,
};
use steadfast_store::{Clock, SystemClock, Timestamp};
use steadfast_web::{Page, Params, Problem, console::Section};

use crate::{
    list::Columns,
    nouns::queues as api,
    pages::{
        chart::{Line, chart, spark},
        components::{
            Tone, alarm, badge, button, card, code_of, command, confirm, count, empty, field,
            figure, heading_of, hidden, lines, link, live, live_page, number, pager, table, tabs,
            text, time,
        },
        forms::Fields,
        links::queue_path,
    },
    path,
    server::Server,
    waterfall::{words, words_of},
};

/// Maximum characters of a body on a page; a link shows the rest.
const BODY_CHARACTERS_MAX: usize = 4_000;

/// Maximum characters of a body in a line of the terminal.
const LINE_CHARACTERS_MAX: usize = 100;

/// Whether a queue is delivered.
pub(crate) fn state(queue: &Queue) -> &'static str {
    match (queue.paused, queue.consumed) {
        (true, _) => "paused",
        (false, true) => "consumed",
        (false, false) => "pull only",
    }
}

fn status(queue: &Queue) -> Markup {
    let tone = match (queue.paused, queue.consumed) {
        (true, _) => Tone::Waiting,
        (false, true) => Tone::Good,
        (false, false) => Tone::Quiet,
    };
    badge(tone, state(queue))
}

fn age(queue: &Queue) -> Option<String> {
    queue.oldest_age_ms.map(words_of)
}

/// Messages per second.
fn rate(rate: f64) -> String {
    if rate == 0.0 { "–".into() } else { format!("{rate:.1}") }
}

/// The samples of a queue, and its current value.
fn samples(queue: &Queue, value: fn(&QueueSample) -> u64, now: u64) -> Vec<(Timestamp, u64)> {
    let at = SystemClock.now();
    let before = queue.history.iter();
    let before = before.map(|it| (it.at.0, value(it)));
    before.filter(|it| it.0 < at).chain([(at, now)]).collect()
}

fn depths(queue: &Queue) -> Vec<(Timestamp, u64)> {
    samples(queue, |it| it.depth, queue.depth)
}

fn ages(queue: &Queue) -> Vec<(Timestamp, u64)> {
    samples(queue, |it| it.oldest_age_ms, queue.oldest_age_ms.unwrap_or(0))
}

/// Lists the queues.
pub(crate) async fn list(
    State(server): State<Arc<Server>>,
    Params(params): Params<ListQueues>,
) -> Result<Page, Problem> {
    let List { items: queues, next } = api::list(server, params).await?;
    let content = html! {
        h1 { "Queues" }
        p.lead {
            "Messages that are delivered at least once, in due order. · "
            a href="/v1/queues" { "JSON" }
        }
        (live(true, &html! {
            @if queues.is_empty() {
                (empty("No queue here", &command(
                    "A queue is created by its first message:",
                    "steadfast queues send QUEUE --body JSON",
                )))
            } @else { (columns().table_of("queues", &queues, |_| "")) }
            (pager("/queues", "", next.as_deref()))
        }))
    };
    Ok(live_page("Queues", Section::Queues, content))
}

/// The columns of the list.
pub(crate) fn columns() -> Columns<'static, Queue> {
    let counted = |it: &Queue, number: u64, state: &str| {
        count(number, format!("{}?state={state}", queue_path(&it.name)))
    };
    Columns::<Queue>::new()
        .text("Queue", |it| it.name.clone())
        .markup(|it| link(queue_path(&it.name), &it.name))
        .text("State", |it| state(it).to_owned())
        .markup(status)
        .number("Depth", |it| it.depth.to_string())
        .markup(move |it| counted(it, it.depth, "pending"))
        .console("Depth over time", |it| spark(&depths(it), "depth over the last hour"))
        .class("picture")
        .number("Ready", |it| it.ready.to_string())
        .on_command_line()
        .number("Delayed", |it| it.delayed.to_string())
        .on_command_line()
        .number("In flight", |it| it.in_flight.to_string())
        .markup(move |it| counted(it, it.in_flight, "in-flight"))
        .number("Dead", |it| it.dead.to_string())
        .markup(move |it| counted(it, it.dead, "dead"))
        .number("Oldest", |it| age(it).unwrap_or_default())
        .console("Age over time", |it| spark(&ages(it), "age of the oldest over the last hour"))
        .class("picture")
        .number("Sent/s", |it| format!("{:.1}", it.rates.sent))
        .markup(|it| text(rate(it.rates.sent)))
        .number("Done/s", |it| format!("{:.1}", it.rates.done))
        .markup(|it| text(rate(it.rates.done)))
}

/// Shows a queue and its messages in one state.
pub(crate) async fn show(
    State(server): State<Arc<Server>>,
    Path(queue): Path<String>,
    Params(params): Params<PeekQueue>,
) -> Result<Page, Problem> {
    let params = PeekQueue { queue: queue.clone(), ..params };
    let (state, limit) = (params.state, params.limit);
    // Later pages are not refreshed.
    let busy = params.cursor.is_none();
    let view = api::show(server.clone(), ShowQueue { queue: queue.clone() }).await?;
    let page = api::peek(server, params).await?;
    let content = html! {
        (heading_of("/queues", "Queues", &queue))
        (live(busy, &html! {
            (summary(&view))
            (messages(&view, &page, state, limit))
            section.columns.next { (rates(&view)) (settings(&view)) }
        }))
    };
    Ok(live_page(&queue, Section::Queues, content))
}

fn summary(view: &Queue) -> Markup {
    let path = queue_path(&view.name);
    html! {
        p.lead {
            (status(view))
            @if let Some(queue) = &view.settings.dead_letter_queue {
                " dead letters go to " a href=(queue_path(queue)) { (queue) }
            } @else {
                " no dead-letter queue: dead letters stay here"
            }
            " · " a href={ "/v1" (path) } { "JSON" }
        }
        div.actions {
            (button(&format!("{path}/pause"), "Pause", !view.paused))
            (button(&format!("{path}/resume"), "Resume", view.paused))
            (confirm(
                &format!("{path}/purge"),
                "Purge",
                "Cancels all messages that no consumer holds.",
                "Purge it",
            ))
        }
        (figures(view, &path))
        (charts(view))
    }
}

fn figures(view: &Queue, path: &str) -> Markup {
    let delayed = html! { "depth" @if 0 < view.delayed { ", " (view.delayed) " delayed" } };
    let to = |state: &str| format!("{path}?state={state}");
    html! {
        section.figures aria-label="Figures" {
            (figure(Some(&to("pending")), view.depth, &delayed))
            (figure(None, age(view).unwrap_or("–".into()), &text("age of the oldest")))
            (figure(Some(&to("in-flight")), view.in_flight, &text("in flight")))
            (alarm(&to("dead"), view.dead, "dead letters here"))
        }
    }
}

/// Depth and age over the last hour.
fn charts(view: &Queue) -> Markup {
    let now = SystemClock.now();
    let millis = |it: f64| words(it as i64);
    let depths = [Line::on_change("value", &depths(view))];
    let ages = [Line::on_change("value", &ages(view))];
    html! {
        section.charts.two aria-label="The last hour" {
            (chart("Depth", &depths, now, |it| format!("{it:.0}")))
            (chart("Age of the oldest", &ages, now, millis))
        }
        p.quiet.measured {
            "The last hour, sampled while messages move. A restart clears these charts."
        }
    }
}

/// The rates of a queue with their names, per second.
pub(crate) fn named_rates(view: &Queue) -> [(&'static str, f64); 5] {
    let rates = &view.rates;
    [
        ("sent", rates.sent),
        ("delivered", rates.delivered),
        ("done", rates.done),
        ("retried", rates.retried),
        ("dead", rates.dead),
    ]
}

/// The settings of a queue with their names; `None` if one is not set.
pub(crate) fn named_settings(view: &Queue) -> Vec<(String, Option<String>)> {
    let settings = serde_json::to_value(&view.settings).unwrap_or_default();
    let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    let named = |(name, it): (&String, &Value)| (name.clone(), (!it.is_null()).then(|| text(it)));
    settings.as_object().into_iter().flatten().map(named).collect()
}

fn rates(view: &Queue) -> Markup {
    let line = |(word, it): (&'static str, f64)| {
        (text(word), html! { (rate(it)) @if it != 0.0 { " per second" } })
    };
    card("Last minute", &lines(named_rates(view).map(line)))
}

fn settings(view: &Queue) -> Markup {
    let line = |(name, value): (String, Option<String>)| {
        (html! { code { (name) } }, text(value.unwrap_or("–".into())))
    };
    card("Settings", &lines(named_settings(view).into_iter().map(line)))
}

fn messages(view: &Queue, page: &List<QueueMessage>, state: MessageState, limit: Limit) -> Markup {
    let path = queue_path(&view.name);
    let counts = [
        (MessageState::Pending, "Pending", view.ready + view.delayed),
        (MessageState::InFlight, "In flight", view.in_flight),
        (MessageState::Dead, "Dead", view.dead),
    ];
    let tab = |(it, word, count): (MessageState, &str, u64)| {
        (format!("{path}?state={}", it.name()), format!("{word} {count}"), it == state)
    };
    let filters = match limit == Limit::default() {
        true => format!("state={}", state.name()),
        false => format!("state={}&limit={limit}", state.name()),
    };
    html! {
        h2.next { "Messages" }
        (tabs("Messages", counts.map(tab)))
        @if page.items.is_empty() {
            (empty(&format!("No message is {}", state.name()), &html! {}))
        } @else {
            @if page.items.iter().any(is_dead_letter) { (redrive_form(&path, state)) }
            (message_columns(&path).table(&page.items))
        }
        (pager(&path, &filters, page.next.as_deref()))
    }
}

/// Whether it is a dead letter: of this queue, or of the queue that it was sent to.
fn is_dead_letter(message: &QueueMessage) -> bool {
    message.from.is_some() || message.state == MessageState::Dead
}

/// The columns of the messages of the queue whose page has this path.
pub(crate) fn message_columns(path: &str) -> Columns<'_, QueueMessage> {
    let json = |it: &QueueMessage| format!("/v1/messages/{}", it.id);
    Columns::<QueueMessage>::new()
        .number("Id", |it| it.id.to_string())
        .markup(move |it| {
            html! { a href=(json(it)) title={ "Message " (it.id) " as JSON" } { (it.id) } }
        })
        .time("Sent", |it| rfc3339(it.enqueued_at))
        .markup(sent)
        .time("Due", |it| it.due_at.map(rfc3339).unwrap_or_default())
        .on_command_line()
        .number("Attempts", attempts)
        .markup(|it| {
            html! {
                div {
                    (it.attempts)
                    @if 0 < it.attempts_before {
                        div.quiet { "and " (it.attempts_before) " before" }
                    }
                }
            }
        })
        .text("Last error", |it| it.last_error.clone().unwrap_or_default())
        .class("error")
        .text("Body", short)
        .class("message content")
        .markup(move |it| {
            html! {
                div {
                    (code_of(it.body.get(), BODY_CHARACTERS_MAX, &json(it)))
                    @if is_dead_letter(it) { (dead_letter_actions(it, path)) }
                }
            }
        })
}

/// Attempts, and those before it was moved to this queue.
pub(crate) fn attempts(message: &QueueMessage) -> String {
    match message.attempts_before {
        0 => message.attempts.to_string(),
        before => format!("{} + {before}", message.attempts),
    }
}

/// The beginning of a body.
pub(crate) fn short(message: &QueueMessage) -> String {
    let text = message.body.get();
    match text.char_indices().nth(LINE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn sent(it: &QueueMessage) -> Markup {
    let due = if it.state == MessageState::InFlight { "leased until" } else { "due" };
    html! {
        div {
            (time(rfc3339(it.enqueued_at)))
            @if let Some(from) = &it.from { div.quiet { "to " (from) } }
            @if let Some(at) = it.due_at.filter(|at| *at != it.enqueued_at) {
                div.quiet { (due) " " (time(rfc3339(at))) }
            }
        }
    }
}

/// Redrives one message, unchanged or with another body.
fn dead_letter_actions(it: &QueueMessage, path: &str) -> Markup {
    html! {
        div.mend {
            form method="post" action={ (path) "/redrive" } {
                (hidden("state", it.state.name())) (hidden("id", it.id))
                button.button { "Redrive" }
            }
            details data-key={ "edit " (it.id) } {
                summary { "Edit" }
                form.ask method="post" action={ (path) "/messages/" (it.id) "/edit" } {
                    (hidden("state", it.state.name()))
                    label for={ "body-" (it.id) } { "Body, as JSON" }
                    textarea id={ "body-" (it.id) } name="body" rows="4" spellcheck="false"
                        required { (it.body.get()) }
                    div.line { button.button { "Send edited" } }
                }
            }
        }
    }
}

/// Redrives all matching messages; the default button only previews them.
fn redrive_form(path: &str, state: MessageState) -> Markup {
    html! {
        form.search method="post" action={ (path) "/redrive" } {
            (hidden("state", state.name()))
            (field("Error contains", "error", "", ""))
            (field("To queue", "to", "", "original queue"))
            (field("Per second", "rate", "", "all at once"))
            button.button name="preview" value="1" { "Preview" }
            button.button { "Redrive all" }
        }
    }
}

/// Redrives messages and shows the queue, or shows the preview.
pub(crate) async fn redrive(
    State(server): State<Arc<Server>>,
    Path(queue): Path<String>,
    mut form: Fields,
) -> Result<Response, Problem> {
    let (tab, id) = (form.text("state"), form.text("id"));
    let to = back(&queue, tab.as_deref())?;
    let wanted = RedriveQueue {
        to: form.text("to"),
        filter: RedriveFilter { ids: id.map(|it| vec![it]), error_contains: form.text("error") },
        rate_per_second: form.parsed("rate")?,
        dry_run: form.text("preview").is_some(),
        queue,
        idempotency_key: None,
    };
    form.end()?;
    let found = api::redrive(server, wanted.clone()).await?;
    if wanted.dry_run {
        return Ok(preview(&wanted, &found, &to, tab.as_deref()).into_response());
    }
    Ok(Redirect::to(&to).into_response())
}

/// The preview of a redrive, with the button that starts it.
fn preview(wanted: &RedriveQueue, found: &Redriven, back: &str, tab: Option<&str>) -> Page {
    let rate = wanted.rate_per_second.map(|it| it.to_string());
    let more = found.matched.saturating_sub(found.first.len() as u64);
    let said = [("to", &wanted.to), ("error", &wanted.filter.error_contains), ("rate", &rate)];
    let content = html! {
        (heading_of(back, &wanted.queue, "Preview of the redrive"))
        p.lead {
            strong { (found.matched) @if found.matched == 1 { " message" } @else { " messages" } }
            " would move to "
            @if let Some(to) = &wanted.to { a href=(queue_path(to)) { (to) } }
            @else { "the queue that each was sent to" }
            @if let Some(rate) = &rate { ", " (rate) " per second" }
            ". Nothing has moved yet."
        }
        @if !found.first.is_empty() {
            (table(&[number("Id").class("")], found.first.iter().map(|id| {
                [html! { a href={ "/v1/messages/" (id) } { (id) } }]
            })))
        }
        @if 0 < more { p.quiet { "and " (more) " more" } }
        form.actions.next method="post" action={ (queue_path(&wanted.queue)) "/redrive" } {
            @if let Some(tab) = tab { (hidden("state", tab)) }
            @for (name, value) in said { @if let Some(value) = value { (hidden(name, value)) } }
            button.button disabled[found.matched == 0] { "Redrive " (found.matched) }
            a.button href=(back) { "Cancel" }
        }
    };
    live_page("Preview of the redrive", Section::Queues, content)
}

/// Replaces a message by one with another body, and shows the queue.
pub(crate) async fn edit(
    State(server): State<Arc<Server>>,
    Path((queue, id)): Path<(String, String)>,
    mut form: Fields,
) -> Result<Redirect, Problem> {
    let to = back(&queue, form.text("state").as_deref())?;
    let body = form.json("body")?;
    let body = body.ok_or_else(|| Problem::of(Code::BadRequest, "the body is missing"))?;
    form.end()?;
    let id = path::position(&id)?;
    let _ =
        api::edit(server, EditMessage { queue, id, body, to: None, idempotency_key: None }).await?;
    Ok(Redirect::to(&to))
}

/// The page of a queue with the previous tab.
fn back(queue: &str, tab: Option<&str>) -> Result<String, Problem> {
    let path = queue_path(queue);
    let Some(tab) = tab else { return Ok(path) };
    let state = MessageState::ALL.into_iter().find(|it| it.name() == tab);
    let unknown = || Problem::of(Code::BadRequest, format!("unknown state `{tab}`"));
    Ok(format!("{path}?state={}", state.ok_or_else(unknown)?.name()))
}
