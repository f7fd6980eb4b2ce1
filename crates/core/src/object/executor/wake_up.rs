//! The wake-up in the store for the next alarm of an object.
//!
//! It may be too early, because alarms are moved and cancelled, but never too late: if the next
//! alarm is earlier than the wake-up, the same commit sends another one.

use rusqlite::{OptionalExtension, params};
use serde_json::json;
use steadfast_store::{Due, InvalidInput, Json, Timestamp};

use super::{
    TurnExecutor, TurnResult, TurnTime,
    alarms::Alarm,
    tables::Table,
    transaction::{TurnReply, call},
    turn_state::{FiredAlarm, TurnState},
};
use crate::{
    Result,
    object::{CallError, outgoing::Sending, request::Settle},
};

const WAKE_AT: &str = "SELECT due_at FROM _steadfast_alarm WHERE name = ''";
const NEXT: &str = "SELECT min(ring_at) FROM _steadfast_alarm WHERE NOT failed AND name <> ''";
const SET: &str = "INSERT INTO _steadfast_alarm \
     (name, due_at, ring_at, message, body, every, catch_up, attempts, failed, error) \
     VALUES ('', ?1, ?1, '', '', NULL, '', 0, 1, NULL) ON CONFLICT (name) DO UPDATE \
     SET due_at = ?1";
const CLEAR: &str = "DELETE FROM _steadfast_alarm WHERE name = ''";

impl TurnExecutor {
    /// Runs the due alarms, one turn each; the last turn settles the wake-up.
    pub(super) fn wake(
        &mut self,
        due_at: Timestamp,
        settle: Option<Settle>,
        at: TurnTime<'_>,
    ) -> TurnResult {
        let class = self.class.clone();
        let mut fired = None;
        let step = self.turn("alarm", settle, at.now, Some(due_at), |state| {
            let Some(alarm) = state.due_alarm().map_err(|error| state.sql_failed(&error))? else {
                return Ok(TurnReply::nothing());
            };
            let (name, due_at, attempt) = (alarm.name.clone(), alarm.due_at, alarm.attempts + 1);
            state.fired.replace(Some(FiredAlarm { name, due_at, attempt }));
            fired = Some(alarm.clone());
            state.alarm_handled(&alarm).map_err(|error| state.sql_failed(&error))?;
            let done = call(state, &class, &alarm.message, &alarm.body, None)?;
            let more = state.due_alarm().map_err(|error| state.sql_failed(&error))?.is_some();
            Ok(TurnReply { reply: done.reply, again: more })
        });
        match (step.reply, fired) {
            (Err(error), Some(alarm)) if step.usable => {
                self.put_off(&alarm, &error, due_at, settle, at)
            }
            (reply, _) => TurnResult { reply, ..step },
        }
    }

    /// Records that the handler of an alarm failed: the alarm fires again later, or has failed for
    /// good, but its row stays.
    fn put_off(
        &mut self,
        alarm: &Alarm,
        error: &CallError,
        due_at: Timestamp,
        settle: Option<Settle>,
        at: TurnTime<'_>,
    ) -> TurnResult {
        let wait = self.options.alarm_retry.wait(alarm.attempts + 1, at.entropy);
        let wait = wait.filter(|_| !error.is_final());
        let (object, name) = (self.address.to_string(), &alarm.name);
        match wait {
            Some(_) => tracing::warn!(object, alarm = name, error = %error, "alarm failed"),
            None if alarm.every.is_some() => {
                tracing::error!(object, alarm = name, error = %error, "repeated alarm failed");
            }
            None => tracing::error!(object, alarm = name, error = %error, "alarm failed for good"),
        }
        let text = error.to_string();
        self.turn("alarm failed", settle, at.now, Some(due_at), |state| {
            let put_off = state.alarm_failed(alarm, wait, (&text, error.is_final()));
            put_off.map_err(|error| state.sql_failed(&error))?;
            let more = state.due_alarm().map_err(|error| state.sql_failed(&error))?.is_some();
            Ok(TurnReply { reply: "null".into(), again: more })
        })
    }
}

impl TurnState {
    /// Ensures that the store wakes the object in time for its next alarm. `arrived` is the wake-up
    /// that this turn settles.
    pub(super) fn arm(&self, arrived: Option<Timestamp>) -> Result<()> {
        if !self.tables.has(Table::Alarm) {
            return Ok(());
        }
        let database = &self.database;
        let wake_at = database.guard.system(|| {
            let mut wake_at = database.connection.prepare_cached(WAKE_AT)?;
            wake_at.query_row((), |row| row.get::<_, i64>(0)).optional()
        })?;
        let pending = wake_at.filter(|it| arrived != Some(Timestamp(*it)));
        let next = database.number(NEXT)?;
        let to_set = next.filter(|next| pending.is_none_or(|pending| *next < pending));
        match to_set {
            Some(next) => {
                database
                    .guard
                    .system(|| database.connection.prepare_cached(SET)?.execute(params![next]))?;
                self.send(self.wake_up(next), Due::At(Timestamp(next)));
            }
            None if pending != wake_at => database.execute(CLEAR)?,
            None => {}
        }
        Ok(())
    }

    fn wake_up(&self, due_at: i64) -> Result<Sending, InvalidInput> {
        let target = self.address.clone();
        let metadata = Json::of(&json!({ "to": target.to_string() }))?;
        let (action, message_type, data) =
            ("wake", "alarm", Json::of(&json!({ "dueAt": due_at }))?);
        let delay = std::time::Duration::ZERO;
        Ok(Sending { target, action, message_type, data, metadata, delay, ordered: false })
    }
}
