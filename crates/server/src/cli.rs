//! Verbs that ask: over HTTP, or in process on a folder that no server holds.

mod buckets;
mod client;
mod doctor;
mod keys;
mod messages;
mod objects;
mod output;
mod processes;
mod queues;
mod runs;
mod streams;
mod table;
mod tokens;

use steadfast_core::{App, Error};
use steadfast_web::escaped;

pub(crate) use self::client::Client;
use crate::{
    args::{
        Ask, AskArgs, KeysVerb, ListArgs, ObjectsVerb, ProcessesVerb, QueuesVerb, RunsVerb, Source,
        StreamsVerb,
    },
    failure::Failure,
};

/// Asks, and prints the answer.
pub(crate) fn run(
    ask: Ask,
    source: Source,
    app: steadfast_core::Result<App>,
) -> Result<(), Failure> {
    let client = Client::open(source, Some(app))?;
    answer(&client, ask)
}

/// A failure as an error.
pub(crate) fn told(failure: Failure) -> Error {
    match failure {
        Failure::Told(text) => Error::terminal(text),
        Failure::Quiet | Failure::Exit(_) => Error::terminal("it failed"),
    }
}

fn answer(client: &Client, ask: Ask) -> Result<(), Failure> {
    match ask {
        Ask::Doctor(args) => doctor::doctor(client, &args),
        Ask::Processes(verb) => match verb {
            ProcessesVerb::List { name, status, list } => {
                processes::list(client, name.as_deref(), status, &list)
            }
            ProcessesVerb::Show { name, id, list } => processes::show(client, &name, &id, &list),
            ProcessesVerb::Send(send) => processes::send(client, &send),
        },
        Ask::Objects(verb) => match verb {
            ObjectsVerb::Classes(ask) => objects::classes(client, &ask),
            ObjectsVerb::List { class, prefix, list } => {
                objects::list(client, &class, prefix.as_deref(), &list)
            }
            ObjectsVerb::Show { object, ask } => objects::show(client, &object, &ask),
            ObjectsVerb::Call(call) => objects::call(client, &call),
            ObjectsVerb::Sql(sql) => objects::sql(client, &sql),
            ObjectsVerb::Turns { object, turn: None, list } => {
                objects::turns(client, &object, &list)
            }
            ObjectsVerb::Turns { object, turn: Some(turn), list } => {
                objects::turn(client, &object, turn, &list.ask)
            }
            ObjectsVerb::Export(export) => objects::export(client, &export),
            ObjectsVerb::Delete { object, ask } => objects::delete(client, &object, &ask),
        },
        Ask::Queues(verb) => ask_queues(client, verb),
        Ask::Keys(verb) => match verb {
            KeysVerb::Create(create) => keys::create(client, &create),
            KeysVerb::List(list) => keys::list(client, &list),
            KeysVerb::Revoke { id, ask } => keys::revoke(client, &id, &ask),
        },
        Ask::Buckets(verb) => buckets::ask(client, verb),
        Ask::Tokens(verb) => tokens::ask(client, verb),
        Ask::Runs(verb) => match verb {
            RunsVerb::List(list) => runs::list(client, &list),
            RunsVerb::Show { run, ask } => runs::show(client, &run, &ask),
            RunsVerb::Tail { run, after, ask } => runs::tail(client, &run, after, &ask),
            RunsVerb::Start(start) => runs::start(client, &start),
            RunsVerb::Pause { run, ask } => runs::control(client, &run, "pause", None, &ask),
            RunsVerb::Resume { run, ask } => runs::control(client, &run, "resume", None, &ask),
            RunsVerb::Terminate { run, ask } => {
                runs::control(client, &run, "terminate", None, &ask)
            }
            RunsVerb::Delete { run, ask } => runs::delete(client, &run, &ask),
            RunsVerb::Restart { run, from, ask } => {
                runs::restart(client, &run, from.as_deref(), &ask)
            }
            RunsVerb::SendEvent(event) => runs::send_event(client, &event),
        },
        Ask::Streams(verb) => match verb {
            StreamsVerb::List(list) => streams::list(client, &list),
            StreamsVerb::Show { id, list } => streams::show(client, &id, &list),
            StreamsVerb::Pending { stream, list } => {
                messages::pending(client, stream.as_deref(), &list)
            }
            StreamsVerb::Dead(list) => messages::dead(client, &list),
            StreamsVerb::Revive { message, idempotency_key, ask } => {
                messages::revive(client, message, idempotency_key.as_deref(), &ask)
            }
        },
    }
}

fn ask_queues(client: &Client, verb: QueuesVerb) -> Result<(), Failure> {
    match verb {
        QueuesVerb::List(ask) => queues::list(client, &ask),
        QueuesVerb::Show { queue, ask } => queues::show(client, &queue, &ask),
        QueuesVerb::Peek { queue, state, list } => queues::peek(client, &queue, state, &list),
        QueuesVerb::Send(send) => queues::send(client, &send),
        QueuesVerb::Pause { queue, ask } => queues::control(client, &queue, "pause", &ask),
        QueuesVerb::Resume { queue, ask } => queues::control(client, &queue, "resume", &ask),
        QueuesVerb::Purge(purge) => queues::purge(client, &purge),
        QueuesVerb::Dlq { queue, limit, ask } => queues::dlq(client, &queue, limit, &ask),
        QueuesVerb::Redrive(redrive) => queues::redrive(client, &redrive),
    }
}

/// The query of a list.
fn query(list: &ListArgs) -> String {
    let limit = format!("?limit={}", list.limit);
    list.cursor.as_deref().map_or(limit.clone(), |it| format!("{limit}&cursor={}", escaped(it)))
}

/// Says how to go on with a list that did not end.
fn tell_next(next: Option<&str>, args: &AskArgs) {
    use std::io::Write;
    if let Some(next) = next.filter(|_| !args.json) {
        // Advice only: it does not matter if nobody reads it.
        let _ = writeln!(std::io::stderr(), "there is more; go on with --cursor {next}");
    }
}
