//! The wake-up that the store holds for the next alarm of an object.
//!
//! It may come too early, because alarms move and are cancelled, but never too late: whenever the
//! next alarm is earlier than the wake-up, another one is sent in the same commit.

use rusqlite::{OptionalExtension, params};
use serde_json::json;
use steadfast_store::{Due, InvalidInput, Json, Timestamp};

use super::{calls::Sending, turn::Core};
use crate::Result;

const WAKE_AT: &str = "SELECT due_at FROM _steadfast_alarm WHERE name = ''";
const NEXT: &str = "SELECT min(ring_at) FROM _steadfast_alarm WHERE NOT failed AND name <> ''";
const SET: &str = "INSERT INTO _steadfast_alarm \
     (name, due_at, ring_at, message, body, every, catch_up, attempts, failed, error) \
     VALUES ('', ?1, ?1, '', '', NULL, '', 0, 1, NULL) ON CONFLICT (name) DO UPDATE \
     SET due_at = ?1";
const CLEAR: &str = "DELETE FROM _steadfast_alarm WHERE name = ''";

impl Core {
    /// Sees to it that the store wakes the object in time for its next alarm. `arrived` is the
    /// wake-up that this turn ends.
    pub(super) fn arm(&self, arrived: Option<Timestamp>) -> Result<()> {
        if !self.tables.has_alarm() {
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
        let target = self.me.clone();
        let metadata = Json::of(&json!({ "to": target.to_string() }))?;
        let (action, message_type, data) =
            ("wake", "alarm", Json::of(&json!({ "dueAt": due_at }))?);
        let delay = std::time::Duration::ZERO;
        Ok(Sending { target, action, message_type, data, metadata, delay, ordered: false })
    }
}
