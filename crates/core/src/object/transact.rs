//! One turn on the database, in memory: everything in it commits, or nothing does.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use steadfast_store::{self as store, Timestamp};

use super::{CallError, calls::Fault, key::Key, objects::Class, turn::Core};

/// A turn that went well, in memory.
pub(super) struct Done {
    pub(super) reply: String,
    /// The input is not done yet: more alarms ring.
    pub(super) again: bool,
}

impl Done {
    /// Nothing is replied.
    pub(super) fn nothing() -> Self {
        Self { reply: "null".into(), again: false }
    }
}

/// Runs a turn's body in a transaction, in memory.
pub(super) fn transact(
    core: &Rc<Core>,
    woken: Option<Timestamp>,
    body: impl FnOnce(&Rc<Core>) -> Result<Done, CallError>,
) -> Result<Done, CallError> {
    core.database.begin().map_err(|error| broken(core, &error))?;
    let done = body(core)?;
    if core.database.guard.timed_out() {
        return Err(too_long(core));
    }
    if core.database.connection.is_autocommit() || core.database.guard.was_undone() {
        let detail = "an error that its handler did not pass on ended its transaction";
        return Err(rolled_back(&core.me, detail));
    }
    if core.database.guard.was_altered()
        && !core.tables.are_ours(&core.database).map_err(|error| broken(core, &error))?
    {
        return Err(rolled_back(&core.me, "names that begin with _steadfast_ are taken"));
    }
    if core.alarms_touched.get() || (woken.is_some() && !done.again) {
        let arrived = woken.filter(|_| !done.again);
        core.arm(arrived).map_err(CallError::Refused)?;
    }
    if let Some(error) = core.fault.take() {
        return Err(CallError::Refused(error));
    }
    match core.database.commit() {
        Ok(true) => Ok(done),
        Ok(false) => Err(rolled_back(&core.me, "its transaction ended before it did")),
        Err(error) => Err(broken(core, &error)),
    }
}

/// Calls the handler of a message, unless the call was made before under the same key.
pub(super) fn call(
    core: &Rc<Core>,
    class: &Class,
    message: &str,
    body: &str,
    key: Option<&Key>,
) -> Result<Done, CallError> {
    let Some(method) = class.methods.get(message) else {
        let class = core.me.class().to_owned();
        return Err(CallError::UnknownMessage { class, message: message.into() });
    };
    if let Some(key) = key
        && let Some(before) = key.find(core).map_err(|error| broken(core, &error))?
    {
        return before.map(|reply| Done { reply, again: false });
    }
    let reply = guarded(core, message, || (method.run)(core, body))?;
    if let Some(key) = key {
        // What ended the transaction must not be followed by a statement of ours.
        if !core.database.connection.is_autocommit() {
            key.keep(core, &reply)?;
        }
    }
    Ok(Done { reply, again: false })
}

/// Runs code of the user's, and says what went wrong with it.
pub(super) fn guarded<T>(
    core: &Core,
    message: &str,
    handler: impl FnOnce() -> Result<T, Fault>,
) -> Result<T, CallError> {
    match catch_unwind(AssertUnwindSafe(handler)) {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) if core.database.guard.timed_out() => Err(too_long(core)),
        Ok(Err(Fault::Malformed { path, detail })) => {
            Err(CallError::Malformed { message: message.into(), path, detail })
        }
        // What SQLite says when a database has reached its limit.
        Ok(Err(Fault::Refused(error)))
            if error.to_string().contains("database or disk is full") =>
        {
            Err(rolled_back(&core.me, "its database has reached its limit"))
        }
        Ok(Err(Fault::Refused(error))) => Err(CallError::Refused(error)),
        Err(panic) => {
            let detail = crate::dispatch::panic_message(&*panic);
            Err(CallError::Panicked { message: message.into(), detail })
        }
    }
}

fn too_long(core: &Core) -> CallError {
    rolled_back(&core.me, "its SQL took too long")
}

pub(super) fn broken(core: &Core, error: &rusqlite::Error) -> CallError {
    rolled_back(&core.me, &error.to_string())
}

pub(super) fn rolled_back(object: &store::Address, detail: &str) -> CallError {
    CallError::RolledBack { object: object.to_string(), detail: detail.into() }
}
