//! One turn, as a handler sees it: its database, messages, jobs, runs, alarms, keys and values.

use std::{marker::PhantomData, time::Duration};

use rusqlite::{OptionalExtension, params};
use serde_json::json;
use steadfast_store::{self as store, AddressError, Due, InvalidInput, Json, Timestamp, limits};

use super::{
    CallError,
    api::{Address, Destination, Handle, Lists, Object, Turn},
    connection::Caller,
    database::{Sql, Table},
    effect::{self, Job, Outcome, Sending},
    executor::alarms::{Alarm, CatchUp},
    transaction::{FiredAlarm, TurnState},
};
use crate::{Body, Error, Result, RunAddress, RunEnded, RunError, Workflow, workflow::OnEnd};

/// Bytes of one job.
const JOB_BYTES_MAX: usize = limits::DATA_BYTES_MAX / 2;

impl<C: Object> Turn<C> {
    /// The name of the object.
    pub fn name(&self) -> &str {
        self.state.address.name()
    }

    /// The address of the object.
    pub fn address(&self) -> Address<C> {
        C::at(self.name())
    }

    /// The time of the turn. It is constant during the turn, in SQL as well.
    pub fn now(&self) -> Timestamp {
        self.state.now
    }

    /// The number of this turn in the history of the object, if it changes something.
    pub fn seq(&self) -> i64 {
        self.state.seq
    }

    /// The caller of this turn.
    pub fn caller(&self) -> Caller {
        self.state.caller.borrow().clone()
    }

    /// The alarm that started this turn, if it was one.
    pub fn alarm(&self) -> Option<FiredAlarm> {
        self.state.fired.borrow().clone()
    }

    /// The object's own database, inside of the turn's transaction.
    pub fn sql(&self) -> &Sql {
        &self.state.database.connection
    }

    /// Keys and values in the same database.
    pub fn kv(&self) -> KeyValue<'_> {
        KeyValue::new(&self.state)
    }

    /// Runs `body`; if it fails, its SQL and everything that it recorded are undone, and the turn
    /// continues.
    pub fn attempt<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.state.attempt(body)
    }

    /// Sends a message to another object or to a queue.
    pub fn send<M: Body, I>(&self, to: impl Destination<M, I>, msg: M) {
        self.send_after(Duration::ZERO, to, msg);
    }

    /// Sends a message that is not delivered before this delay.
    pub fn send_after<M: Body, I>(&self, after: Duration, to: impl Destination<M, I>, msg: M) {
        self.state.send(to.sending(msg), Due::After(after));
    }

    /// Starts a run of a workflow, or finds it: one run for each id. The turn fails if the program
    /// does not serve the workflow, or if the id is invalid.
    pub fn start<W: Workflow>(&self, run: RunAddress<W>, input: W::Input) -> StartedRun<'_, W> {
        let run = send_to_run(&self.state, W::NAME, run.resolve(), "start", Json::of(&input));
        StartedRun { state: &self.state, run, workflow: PhantomData }
    }

    /// Terminates a run of a workflow, if it exists and has not ended.
    pub fn terminate<W: Workflow>(&self, run: RunAddress<W>) {
        let _ = send_to_run(&self.state, W::NAME, run.resolve(), "terminate", Json::of(&()));
    }

    /// Requests work outside of the turn; the outcome arrives as a turn of its own.
    pub fn perform<J: Job, I>(&self, job: &J)
    where
        C: Handle<Outcome<J>>,
        C::Calls: Lists<Outcome<J>, I>,
    {
        let sending = sending_of_job(&self.state.address, (J::NAME, C::NAME), Json::of(job));
        self.state.send(sending, Due::After(Duration::ZERO));
    }

    /// Deletes the object with this turn: its database, its alarms and its keys. Messages of the
    /// same turn are sent. A later call finds a new, empty object.
    pub fn delete(&self) {
        self.state.deleted.set(true);
    }
}

/// A run that a turn has started.
pub struct StartedRun<'a, W> {
    state: &'a TurnState,
    /// The run, and the index of the message that starts it; `None` if it could not be sent.
    run: Option<(store::Address, usize)>,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> StartedRun<'_, W> {
    /// Sends [`RunEnded`] to this object when the run ends, in the commit of the end. Only the
    /// start that creates the run sets it; a start that finds the run changes nothing. A restarted
    /// run sends a message for each end, and a later one may arrive first.
    pub fn on_end<C: Handle<RunEnded<W>>, I>(self, to: Address<C>)
    where
        C::Calls: Lists<RunEnded<W>, I>,
    {
        // A start that failed fails the turn.
        let Some((run, index)) = self.run else { return };
        let to = to.resolve().map(|it| OnEnd { to: it.to_string(), message: C::NAME.into() });
        set_on_end(self.state, (&run, index), C::CLASS, to);
    }
}

fn set_on_end(
    state: &TurnState,
    (run, index): (&store::Address, usize),
    class: &str,
    on_end: Result<OnEnd, AddressError>,
) {
    if !state.served.as_ref().is_none_or(|it| it.has_class(class)) {
        let text = CallError::UnknownClass { class: class.into() }.to_string();
        return state.fail(Error::terminal(text).with_code("class_not_found"));
    }
    let mut outgoing = state.outgoing.borrow_mut();
    // It is undone if the attempt that started the run has failed.
    let Some(message) = outgoing.get_mut(index).filter(|it| it.is_for(run, "start")) else {
        return;
    };
    let metadata = || Json::of(&json!({ "to": run.to_string(), "onEnd": on_end? }));
    match metadata().and_then(|it| message.clone().metadata(it)) {
        Ok(with_end) => *message = with_end,
        Err(error) => state.fail(Error::terminal(error).with_code("invalid_input")),
    }
}

fn sending_of_job(
    object: &store::Address,
    (job, outcome): (&'static str, &'static str),
    data: Result<Json, InvalidInput>,
) -> Result<Sending, InvalidInput> {
    let target = effect::target(job)?;
    let metadata = Json::of(&json!({ "to": object.to_string(), "outcome": outcome }))?;
    let data = data?;
    // The outcome holds the job as well.
    let len = data.as_str().len();
    if JOB_BYTES_MAX < len {
        return Err(InvalidInput::DataSize { len: 2 * len });
    }
    let (action, message_type, delay, ordered) = ("perform", job, Duration::ZERO, false);
    Ok(Sending { target, action, message_type, data, metadata, delay, ordered })
}

fn send_to_run(
    state: &TurnState,
    workflow: &'static str,
    run: Result<store::Address, RunError>,
    action: &'static str,
    data: Result<Json, InvalidInput>,
) -> Option<(store::Address, usize)> {
    // A run of a workflow that is no longer served can still be terminated.
    let served = state.served.as_ref().is_none_or(|it| it.has_workflow(workflow));
    let target = match served || action != "start" {
        true => run,
        false => Err(RunError::UnknownWorkflow { workflow: workflow.into() }),
    };
    let target = match target {
        Ok(target) => target,
        Err(error) => {
            let code = error.code().to_owned();
            state.fail(Error::terminal(error).with_code(&code));
            return None;
        }
    };
    let sending = || {
        let metadata = Json::of(&json!({ "to": target.to_string() }))?;
        let (message_type, data, delay) = (workflow, data?, Duration::ZERO);
        let target = target.clone();
        // The run is started before it is terminated.
        let ordered = true;
        Ok(Sending { target, action, message_type, data, metadata, delay, ordered })
    };
    let sent = state.outgoing.borrow().len();
    state.send(sending(), Due::After(Duration::ZERO));
    (sent < state.outgoing.borrow().len()).then_some((target, sent))
}

impl<C: Object> Turn<C> {
    /// Sets the alarm `name`, or moves it: after this delay, `msg` arrives as a turn.
    pub fn set_alarm<M: Body, I>(&self, name: &str, after: Duration, msg: M)
    where
        C: Handle<M>,
        C::Calls: Lists<M, I>,
    {
        self.set(name, self.now().after(after), None, CatchUp::Once, C::NAME, &msg);
    }

    /// The same, at a time.
    pub fn set_alarm_at<M: Body, I>(&self, name: &str, at: Timestamp, msg: M)
    where
        C: Handle<M>,
        C::Calls: Lists<M, I>,
    {
        self.set(name, at, None, CatchUp::Once, C::NAME, &msg);
    }

    /// Sets an alarm that repeats until it is cancelled.
    pub fn repeat_alarm<M: Body, I>(&self, name: &str, every: Duration, catch_up: CatchUp, msg: M)
    where
        C: Handle<M>,
        C::Calls: Lists<M, I>,
    {
        let every = every.max(Duration::from_millis(1));
        self.set(name, self.now().after(every), Some(every), catch_up, C::NAME, &msg);
    }

    fn set(
        &self,
        name: &str,
        due_at: Timestamp,
        every: Option<Duration>,
        catch_up: CatchUp,
        message: &str,
        msg: &impl Body,
    ) {
        let set = || {
            if name.is_empty() || 512 < name.len() {
                let text = format!("alarm name has {} bytes, it must have 1 to 512", name.len());
                return Err(Error::terminal(text).with_code("invalid_input"));
            }
            let body = serde_json::to_string(msg)?;
            let every = every.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
            let row = params![name, due_at.0, message, body, every, catch_up.tag()];
            self.state.put_alarm(row)?;
            Ok(())
        };
        if let Err(error) = set() {
            self.state.fail(error);
        }
    }

    /// Cancels an alarm; `false` if it is not set.
    pub fn cancel_alarm(&self, name: &str) -> bool {
        self.state.cancel_alarm(name).unwrap_or_else(|error| {
            self.state.fail(error.into());
            false
        })
    }

    /// The alarms that are set, by due time; failed ones come last.
    pub fn alarms(&self) -> Result<Vec<Alarm>> {
        Ok(self.state.alarms()?)
    }
}

/// The keys and values of an object. They commit with the turn and are part of the object's
/// database.
pub struct KeyValue<'a> {
    state: &'a TurnState,
}

impl<'a> KeyValue<'a> {
    pub(super) fn new(state: &'a TurnState) -> Self {
        Self { state }
    }

    /// The value of a key.
    pub fn get<T: Body>(&self, key: &str) -> Result<Option<T>> {
        if !self.state.tables.has(Table::KeyValue) {
            return Ok(None);
        }
        let text: Option<String> = self.system(|sql| {
            let mut get = sql.prepare_cached("SELECT value FROM _steadfast_kv WHERE key = ?1")?;
            get.query_row([key], |row| row.get(0)).optional()
        })?;
        Ok(text.map(|it| serde_json::from_str(&it)).transpose()?)
    }

    /// Sets a key to a value.
    pub fn put<T: Body>(&self, key: &str, value: &T) -> Result<()> {
        self.state.tables.need(Table::KeyValue, &self.state.database)?;
        let text = serde_json::to_string(value)?;
        let put = "INSERT INTO _steadfast_kv (key, value) VALUES (?1, ?2) \
             ON CONFLICT (key) DO UPDATE SET value = ?2";
        self.system(|sql| sql.prepare_cached(put)?.execute(params![key, text]))?;
        Ok(())
    }

    /// Removes a key; `false` if it was not there.
    pub fn delete(&self, key: &str) -> Result<bool> {
        if !self.state.tables.has(Table::KeyValue) {
            return Ok(false);
        }
        let delete = "DELETE FROM _steadfast_kv WHERE key = ?1";
        Ok(0 < self.system(|sql| sql.prepare_cached(delete)?.execute([key]))?)
    }

    /// The keys that begin with `prefix` and follow `after`, in order.
    pub fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        if !self.state.tables.has(Table::KeyValue) {
            return Ok(Vec::new());
        }
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let list = "SELECT key FROM _steadfast_kv WHERE key >= ?1 AND key > ?2 \
             AND key < ?1 || char(1114111) ORDER BY key LIMIT ?3";
        Ok(self.system(|sql| {
            let mut list = sql.prepare_cached(list)?;
            let keys =
                list.query_map(params![prefix, after.unwrap_or(""), limit], |row| row.get(0))?;
            keys.collect()
        })?)
    }

    fn system<T>(
        &self,
        f: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let database = &self.state.database;
        database.guard.system(|| f(&database.connection))
    }
}
