//! Alarms: many for each object, by name. They are rows of the object's own database, so they
//! commit with turns and are part of past states.
//!
//! The row without a name is the wake-up: the time at which the store wakes the object for the next
//! alarm. It may be too early, because alarms are moved and cancelled, but never too late: if the
//! next alarm is earlier than the wake-up, the same commit sends another one.

use std::time::Duration;

use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast_store::{Due, InvalidInput, Json, Timestamp};

use super::{TurnExecutor, TurnResult, TurnTime};
use crate::{
    Result, body,
    object::{
        CallError,
        database::Table,
        effect::Sending,
        request::Settle,
        transaction::{FiredAlarm, TurnReply, TurnState, call},
    },
};

/// The policy for due times of a repeated alarm that passed while the program was down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CatchUp {
    /// It fires once for all of them.
    #[default]
    Once,
    /// It fires for each of them.
    Each,
    /// It skips them and waits for its next time.
    Skip,
}

steadfast_store::texts! {
    CatchUp { Once = "once", Each = "each", Skip = "skip" }
}

impl CatchUp {
    /// The stored tag.
    pub fn tag(self) -> &'static str {
        self.into()
    }

    fn from_tag(tag: &str) -> Self {
        tag.parse().unwrap_or_default()
    }
}

/// An alarm of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = AlarmEntry))]
pub struct Alarm {
    /// Its name.
    pub name: String,
    /// The time for which it was set.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub due_at: Timestamp,
    /// When it fires: at that time, or later if an attempt failed.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub ring_at: Timestamp,
    /// The message that it delivers.
    pub message: String,
    /// Its period in milliseconds, if it is repeated.
    #[serde(rename = "everyMs", default, with = "body::optional_millis")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub every: Option<Duration>,
    /// How missed times are handled: once, each or skip.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub catch_up: CatchUp,
    /// Failed attempts.
    pub attempts: u32,
    /// Whether all attempts failed.
    // It stays, inactive, until it is set or cancelled. A repeated alarm waits for its next time.
    pub failed: bool,
    /// The error of the last attempt.
    pub error: Option<String>,
    #[serde(skip)]
    pub(in crate::object) body: String,
}

const COLUMNS: &str = "name, due_at, message, every, catch_up, attempts, failed, error, body, \
     ring_at FROM _steadfast_alarm";

impl Alarm {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let every: Option<u64> = row.get(3)?;
        let catch_up: String = row.get(4)?;
        Ok(Self {
            name: row.get(0)?,
            due_at: Timestamp(row.get(1)?),
            message: row.get(2)?,
            every: every.map(Duration::from_millis),
            catch_up: CatchUp::from_tag(&catch_up),
            attempts: row.get(5)?,
            failed: row.get(6)?,
            error: row.get(7)?,
            body: row.get(8)?,
            ring_at: Timestamp(row.get(9)?),
        })
    }

    /// The alarms in a database, by due time; failed ones come last.
    pub(in crate::object) fn list(
        connection: &Connection,
        limit: usize,
    ) -> rusqlite::Result<Vec<Self>> {
        let sql =
            format!("SELECT {COLUMNS} WHERE name <> '' ORDER BY failed, ring_at, name LIMIT ?1");
        let mut list = connection.prepare_cached(&sql)?;
        let alarms = list.query_map([limit], Alarm::read)?;
        alarms.collect()
    }

    /// The next due time of a repeated alarm that fires at `now`.
    fn next_due(&self, every: Duration, now: Timestamp) -> Timestamp {
        let next = self.due_at.after(every);
        if self.catch_up == CatchUp::Each || now < next {
            return next;
        }
        let passed = now.since(self.due_at).as_millis() / every.as_millis().max(1);
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.due_at.after(every.saturating_mul(passed)).after(every)
    }

    /// Whether it missed its time and waits for the next one instead of firing late.
    fn is_skipped(&self, now: Timestamp) -> bool {
        let late = |every: Duration| self.due_at.after(every) <= now;
        self.catch_up == CatchUp::Skip && self.attempts == 0 && self.every.is_some_and(late)
    }
}

impl TurnState {
    pub(in crate::object) fn put_alarm(
        &self,
        row: &[&dyn rusqlite::ToSql],
    ) -> rusqlite::Result<()> {
        self.alarms_changed.set(true);
        let put = "INSERT INTO _steadfast_alarm \
             (name, due_at, ring_at, message, body, every, catch_up, attempts, failed, error) \
             VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, 0, 0, NULL) ON CONFLICT (name) DO UPDATE SET \
             due_at = ?2, ring_at = ?2, message = ?3, body = ?4, every = ?5, catch_up = ?6, \
             attempts = 0, failed = 0, error = NULL";
        self.write(Table::Alarm, put, row)
    }

    /// Removes an alarm; `false` if it is not set.
    pub(in crate::object) fn cancel_alarm(&self, name: &str) -> rusqlite::Result<bool> {
        let delete = "DELETE FROM _steadfast_alarm WHERE name = ?1";
        Ok(!name.is_empty() && 0 < self.change(Table::Alarm, delete, [name])?)
    }

    pub(in crate::object) fn alarms(&self) -> rusqlite::Result<Vec<Alarm>> {
        if !self.tables.has(Table::Alarm) {
            return Ok(Vec::new());
        }
        let all = i64::MAX as usize;
        self.database.guard.system(|| Alarm::list(&self.database.connection, all))
    }

    /// The next alarm that fires at `now`.
    fn due_alarm(&self) -> rusqlite::Result<Option<Alarm>> {
        let sql = format!(
            "SELECT {COLUMNS} WHERE NOT failed AND ring_at <= ?1 AND name <> '' \
             ORDER BY ring_at, name LIMIT 1"
        );
        loop {
            let found = self.find(Table::Alarm, &sql, [self.now.0], Alarm::read)?;
            let Some(alarm) = found else { return Ok(None) };
            if !alarm.is_skipped(self.now) {
                return Ok(Some(alarm));
            }
            self.alarm_handled(&alarm)?;
        }
    }

    /// Removes an alarm that fired, or moves it to its next time.
    fn alarm_handled(&self, alarm: &Alarm) -> rusqlite::Result<()> {
        self.alarms_changed.set(true);
        match alarm.every {
            None => {
                let delete = "DELETE FROM _steadfast_alarm WHERE name = ?1";
                self.change(Table::Alarm, delete, [&alarm.name])
            }
            Some(every) => self.change(
                Table::Alarm,
                "UPDATE _steadfast_alarm SET due_at = ?2, ring_at = ?2, attempts = 0, error = NULL \
                 WHERE name = ?1",
                params![alarm.name, alarm.next_due(every, self.now).0],
            ),
        }
        .map(|_| ())
    }

    /// Moves an alarm whose handler failed by `wait`. Without `wait` it has failed for good; a
    /// repeated alarm waits for its next time and keeps the error until then.
    fn alarm_failed(
        &self,
        alarm: &Alarm,
        wait: Option<Duration>,
        (error, is_final): (&str, bool),
    ) -> rusqlite::Result<()> {
        self.alarms_changed.set(true);
        if let (None, Some(every)) = (wait, alarm.every) {
            let next = "UPDATE _steadfast_alarm SET due_at = ?2, ring_at = ?2, attempts = 0, \
                 error = ?3 WHERE name = ?1";
            // Missed times are not repeated: each of them would fail.
            let catch_up = if is_final { CatchUp::Once } else { alarm.catch_up };
            let due_at = Alarm { catch_up, ..alarm.clone() }.next_due(every, self.now);
            let row = params![alarm.name, due_at.0, error];
            return self.change(Table::Alarm, next, row).map(|_| ());
        }
        let ring_at = wait.map_or(alarm.due_at, |wait| self.now.after(wait));
        let update = "UPDATE _steadfast_alarm SET ring_at = ?2, attempts = attempts + 1, \
             failed = ?3, error = ?4 WHERE name = ?1";
        let row = params![alarm.name, ring_at.0, wait.is_none(), error];
        self.change(Table::Alarm, update, row).map(|_| ())
    }
}

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
    pub(in crate::object) fn arm(&self, arrived: Option<Timestamp>) -> Result<()> {
        if !self.tables.has(Table::Alarm) {
            return Ok(());
        }
        let database = &self.database;
        let wake_at = database.number(WAKE_AT)?;
        let pending = wake_at.filter(|it| arrived != Some(Timestamp(*it)));
        let next = database.number(NEXT)?;
        let to_set = next.filter(|next| pending.is_none_or(|pending| *next < pending));
        match to_set {
            Some(next) => {
                database.execute(SET, [next])?;
                self.send(self.wake_up(next), Due::At(Timestamp(next)));
            }
            None if pending != wake_at => _ = database.execute(CLEAR, ())?,
            None => {}
        }
        Ok(())
    }

    fn wake_up(&self, due_at: i64) -> Result<Sending, InvalidInput> {
        let data = Json::of(&json!({ "dueAt": due_at }))?;
        Sending::to(self.address.clone(), "wake", "alarm", data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_catch_up_never_changes_and_an_unknown_one_rings_once() {
        for (catch_up, tag) in
            [(CatchUp::Once, "once"), (CatchUp::Each, "each"), (CatchUp::Skip, "skip")]
        {
            assert_eq!((catch_up.tag(), CatchUp::from_tag(tag)), (tag, catch_up));
        }
        assert_eq!(CatchUp::from_tag("later"), CatchUp::Once);
    }
}
