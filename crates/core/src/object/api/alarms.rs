//! The alarms of an object, as a handler sets them.

use std::time::Duration;

use rusqlite::params;
use steadfast_store::Timestamp;

use super::{Handle, Object, calls::Lists, turn::Turn};
use crate::{
    Body, Error, Result,
    object::executor::{Alarm, CatchUp},
};

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
