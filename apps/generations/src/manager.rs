//! The manager of one request: transient plumbing. One row for each task, changed only from the
//! state that is expected; everything outside is an effect, so that a turn never waits.

mod control;
mod mirror;
mod outcomes;
mod progress;
mod rows;
mod shown;

use std::{sync::Arc, time::Duration};

use steadfast_core::{Both, Connection, Error, Handle, Object, Outcome, Result, Turn};

use self::rows::{SCHEMA, TaskRow};
use crate::{
    AskAgain, AskLate, Begin, Begun, Cancel, Confirm, CountCost, Create, Delete, Discard,
    DiscardAgain, Fetch, FetchAgain, FetchHere, Forget, Generation, GetState, GetWord,
    LibraryChanged, LibraryHeard, Poll, Providers, Record, Retry, RetryUnpaid, Submit, SubmitAgain,
    SubmitHere, TaskState, TimeOut, Webhook,
};

/// How long a finished generation stays here, for webhooks that come late.
pub(crate) const GRACE: Duration = Duration::from_hours(24);

/// A provider is to make it, or does.
const UNDER_WAY: [TaskState; 2] = [TaskState::Pending, TaskState::Submitted];

/// Manages one request; its name is the id that the client got.
#[derive(Clone)]
pub struct GenerationManager {
    /// The providers.
    pub providers: Arc<Providers>,
}

impl Object for GenerationManager {
    const CLASS: &'static str = "generation";
    type Calls = Both<
        (
            Create,
            GetState,
            Begin,
            SubmitAgain,
            FetchAgain,
            Webhook,
            Cancel,
            Retry,
            RetryUnpaid,
            Delete,
            TimeOut,
            AskAgain,
            AskLate,
            Forget,
            LibraryChanged,
            LibraryHeard,
            GetWord,
            Confirm,
            DiscardAgain,
        ),
        (
            Outcome<Record>,
            Outcome<Submit>,
            Outcome<SubmitHere>,
            Outcome<Poll>,
            Outcome<Fetch>,
            Outcome<FetchHere>,
            Outcome<Discard>,
            Outcome<CountCost>,
        ),
    >;
    const MIGRATIONS: &'static [&'static str] = &[SCHEMA];

    const AUTO_REPLY: &'static [(&'static str, &'static str)] = &[("ping", r#"{"type":"pong"}"#)];

    fn connected(&self, turn: &Turn<Self>, _: &Connection) -> Result<()> {
        rows::request(turn)?.map(drop).ok_or_else(|| unknown(turn))
    }
}

impl Handle<GetState> for GenerationManager {
    const NAME: &'static str = "get-state";
    type Reply = Option<Generation>;

    fn handle(&self, turn: &Turn<Self>, _: GetState) -> Result<Option<Generation>> {
        match rows::request(turn)? {
            Some(request) if !request.is_deleted => shown::shown(turn, &request).map(Some),
            _ => Ok(None),
        }
    }
}

impl Handle<Begin> for GenerationManager {
    const NAME: &'static str = "begin";
    type Reply = Begun;

    /// That the provider is asked is durable before it is asked: nothing is paid for twice after a
    /// crash, and nothing that was cancelled, deleted or overtaken by a late success is paid for.
    fn handle(&self, turn: &Turn<Self>, msg: Begin) -> Result<Begun> {
        let Some(kept) = rows::request(turn)?.filter(|it| !it.is_deleted) else {
            return Ok(Begun::Unwanted);
        };
        let task = rows::task_at(turn, msg.index)?;
        let is_wanted = |it: &TaskRow| it.id == msg.task && UNDER_WAY.contains(&it.state);
        let Some(task) = task.filter(is_wanted) else { return Ok(Begun::Unwanted) };
        let provider = &kept.request.provider;
        let may_be_known = task.submitted_at.is_some() || task.may_be_known;
        if let Some(after_ms) = self.providers.hold_of(provider, turn.now()) {
            return Ok(Begun::Held { after_ms, may_be_known });
        }
        if task.submitted_at.is_none() {
            let update = "UPDATE task SET submittedAt = ?2 WHERE idx = ?1";
            turn.sql().execute(update, (task.index, turn.now().0))?;
            progress::watch_time(turn, &kept)?;
        }
        if may_be_known {
            return self.providers.begun_again(provider, task.delivery);
        }
        let update = "UPDATE task SET delivery = ?2 WHERE idx = ?1";
        turn.sql().execute(update, (task.index, serde_json::to_string(&msg.delivery)?))?;
        Ok(Begun::First)
    }
}

pub(crate) fn unknown(turn: &Turn<GenerationManager>) -> Error {
    Error::terminal(format!("there is no generation `{}`", turn.name()))
        .with_code("unknown_generation")
}
