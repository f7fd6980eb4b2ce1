//! Messages of a run: the commit that records a send also sends the message.

use std::{panic::Location, time::Duration};

use serde_json::Value;
use steadfast_store::Due;

use super::{
    Ctx,
    fold::StepResult,
    record::{Attempt, Entry},
};
use crate::{Body, Error, Result, object::Destination};

impl Ctx {
    /// Sends a message to a queue, an object or a run, once: the record and the message are in the
    /// same commit. It does not wait for the delivery.
    #[track_caller]
    pub fn send<M: Body, I>(
        &self,
        to: impl Destination<M, I> + Send,
        msg: M,
    ) -> impl Future<Output = Result<()>> + Send {
        let (line, sending) = (Location::caller(), to.sending(msg));
        async move {
            let name = sending.as_ref().map_or("", |it| it.message_type);
            let key = self.key("send", name, line).await;
            match self.known(&key) {
                Some(StepResult::Failed(error)) => return Err(error),
                Some(StepResult::Value(_) | StepResult::Timer(_)) => return Ok(()),
                None => {}
            }
            let now = self.clock_now();
            match sending.and_then(|it| it.message(Due::After(Duration::ZERO))) {
                Ok(message) => {
                    // The record has the message itself, after this entry.
                    let done = Entry::Done { key, value: Value::Null, attempt: None, input: None };
                    self.state().give(now, done, Some(message));
                    Ok(())
                }
                Err(error) => {
                    let text = format!("{key} cannot be sent: {error}");
                    let error = Error::terminal(text).with_code("invalid_input");
                    let attempt = Attempt { number: 1, began_at: now.0 };
                    self.give(Entry::Failed { key, error: error.clone(), attempt, input: None });
                    Err(error)
                }
            }
        }
    }
}
