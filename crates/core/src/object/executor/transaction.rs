//! One turn on the database, in memory: everything in it commits, or nothing does.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use steadfast_store::Timestamp;

use super::{
    class::{Class, HandlerError},
    keys,
    turn_state::TurnState,
};
use crate::object::{CallError, call_key::Key};

/// A successful turn, in memory.
pub(super) struct TurnReply {
    pub(super) reply: String,
    /// More alarms are due: the request must run again.
    pub(super) again: bool,
}

impl TurnReply {
    /// Without a reply.
    pub(super) fn nothing() -> Self {
        Self { reply: "null".into(), again: false }
    }
}

/// Runs a turn's body in a transaction, in memory.
pub(super) fn transact(
    state: &Rc<TurnState>,
    woken: Option<Timestamp>,
    body: impl FnOnce(&Rc<TurnState>) -> Result<TurnReply, CallError>,
) -> Result<TurnReply, CallError> {
    state.database.begin().map_err(|error| state.sql_failed(&error))?;
    let done = body(state)?;
    if state.database.guard.timed_out() {
        return Err(too_long(state));
    }
    if state.database.connection.is_autocommit() || state.database.guard.was_undone() {
        let detail = "an error that its handler did not pass on ended its transaction";
        return Err(CallError::rolled_back(&state.address, detail));
    }
    if state.database.guard.was_altered()
        && !state.tables.are_ours(&state.database).map_err(|error| state.sql_failed(&error))?
    {
        return Err(CallError::rolled_back(
            &state.address,
            "names that begin with _steadfast_ are taken",
        ));
    }
    if state.alarms_changed.get() || (woken.is_some() && !done.again) {
        let arrived = woken.filter(|_| !done.again);
        state.arm(arrived).map_err(CallError::Refused)?;
    }
    if let Some(error) = state.failure.take() {
        return Err(CallError::Refused(error));
    }
    match state.database.commit() {
        Ok(true) => Ok(done),
        Ok(false) => {
            Err(CallError::rolled_back(&state.address, "its transaction ended before it did"))
        }
        Err(error) => Err(state.sql_failed(&error)),
    }
}

/// Calls the handler of a message, unless the call was made before under the same key. With the key
/// comes the time by which keys have expired.
pub(super) fn call(
    state: &Rc<TurnState>,
    class: &Class,
    message: &str,
    body: &str,
    key: Option<(&Key, Timestamp)>,
) -> Result<TurnReply, CallError> {
    let Some(method) = class.methods.get(message) else {
        let class = state.address.class().to_owned();
        return Err(CallError::UnknownMessage { class, message: message.into() });
    };
    if let Some((key, expired)) = key
        && let Some(reply) = keys::find(state, key, expired)?
    {
        return Ok(TurnReply { reply, again: false });
    }
    let reply = guarded(state, message, || (method.run)(state, body))?;
    if let Some((key, expired)) = key {
        // No statement of the runtime may follow one that ended the transaction.
        if !state.database.connection.is_autocommit() {
            keys::keep(state, key, expired, &reply)?;
        }
    }
    Ok(TurnReply { reply, again: false })
}

/// Runs user code, and converts its failure.
pub(super) fn guarded<T>(
    state: &TurnState,
    message: &str,
    handler: impl FnOnce() -> Result<T, HandlerError>,
) -> Result<T, CallError> {
    match catch_unwind(AssertUnwindSafe(handler)) {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) if state.database.guard.timed_out() => Err(too_long(state)),
        Ok(Err(HandlerError::Malformed { path, detail })) => {
            Err(CallError::Malformed { message: message.into(), path, detail })
        }
        // SQLite returns this error for a database that has reached its size limit.
        Ok(Err(HandlerError::Refused(error)))
            if error.to_string().contains("database or disk is full") =>
        {
            Err(CallError::rolled_back(&state.address, "its database has reached its limit"))
        }
        Ok(Err(HandlerError::Refused(error))) => Err(CallError::Refused(error)),
        Err(panic) => {
            let detail = crate::dispatch::panic_message(&*panic);
            Err(CallError::Panicked { message: message.into(), detail })
        }
    }
}

fn too_long(state: &TurnState) -> CallError {
    CallError::rolled_back(&state.address, "its SQL took too long")
}
