//! One turn, as a handler sees it: its database, messages, jobs, alarms, keys and values.

use std::time::Duration;

use rusqlite::params;
use serde_json::json;
use steadfast_store::{self as store, Due, InvalidInput, Json, Timestamp, limits};

use super::{
    api::{Address, Destination, Handle, Lists, Object, Turn},
    connection::Caller,
    database::{Sql, Table},
    effect::{self, Job, Outcome, Sending},
    executor::alarms::{Alarm, CatchUp},
    transaction::{FiredAlarm, TurnState},
};
use crate::{Body, Error, Result};

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
        let get = "SELECT value FROM _steadfast_kv WHERE key = ?1";
        let text = self.state.find(Table::KeyValue, get, [key], |row| row.get::<_, String>(0))?;
        Ok(text.map(|it| serde_json::from_str(&it)).transpose()?)
    }

    /// Sets a key to a value.
    pub fn put<T: Body>(&self, key: &str, value: &T) -> Result<()> {
        let text = serde_json::to_string(value)?;
        let put = "INSERT INTO _steadfast_kv (key, value) VALUES (?1, ?2) \
             ON CONFLICT (key) DO UPDATE SET value = ?2";
        Ok(self.state.write(Table::KeyValue, put, params![key, text])?)
    }

    /// Removes a key; `false` if it was not there.
    pub fn delete(&self, key: &str) -> Result<bool> {
        let delete = "DELETE FROM _steadfast_kv WHERE key = ?1";
        Ok(0 < self.state.change(Table::KeyValue, delete, [key])?)
    }

    /// The keys that begin with `prefix` and follow `after`, in order.
    pub fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let list = "SELECT key FROM _steadfast_kv WHERE key >= ?1 AND key > ?2 \
             AND key < ?1 || char(1114111) ORDER BY key LIMIT ?3";
        let row = params![prefix, after.unwrap_or(""), limit];
        Ok(self.state.list(Table::KeyValue, list, row, |row| row.get(0))?)
    }
}
