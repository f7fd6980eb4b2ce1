//! Messages that leave an object, a run or a client.

use std::time::Duration;

use steadfast_store::{self as store, Due, InvalidInput, Json, Message, Task};

/// A message that a turn sends.
#[doc(hidden)]
pub struct Sending {
    pub(crate) target: store::Address,
    pub(crate) action: &'static str,
    pub(crate) message_type: &'static str,
    pub(crate) data: Json,
    pub(crate) metadata: Json,
    /// The delay before it may be delivered.
    pub(crate) delay: Duration,
    /// It waits for earlier ones to the same target.
    pub(crate) ordered: bool,
}

impl Sending {
    /// The stored form.
    pub(crate) fn message(self, due: Due) -> Result<Message, InvalidInput> {
        let Self { target, action, message_type, data, metadata, delay, ordered } = self;
        let due = if delay.is_zero() { due } else { Due::After(delay) };
        let message = Message::new(message_type, data)?.action(action).metadata(metadata)?;
        Ok(message.task(Task { target, ordered, due }))
    }
}
