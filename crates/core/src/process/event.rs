//! What a stream records.

use std::time::Duration;

use super::{Action, Actions, Process};

/// One record in the stream of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<I, O> {
    /// The instance began.
    Began,
    /// With this input.
    InitiatedBy(I),
    /// A further input.
    Received(I),
    /// It answered.
    Replied(O),
    /// It sent a command.
    Sent(O),
    /// It said that something happened.
    Published(O),
    /// It gave itself an input, so much later.
    Scheduled(Duration, I),
    /// It ended.
    Completed,
}

/// One record in the stream of this process.
pub type EventOf<P> = Event<<P as Process>::Input, <P as Process>::Output>;

/// The records of an input and of what was decided on it.
pub fn translate<P: Process>(
    begins: bool,
    input: P::Input,
    actions: Actions<P>,
) -> Vec<EventOf<P>> {
    let mut events = if begins {
        vec![Event::Began, Event::InitiatedBy(input)]
    } else {
        vec![Event::Received(input)]
    };
    events.extend(actions.into_iter().map(|action| match action {
        Action::Reply(output) => Event::Replied(output),
        Action::Send(output) => Event::Sent(output),
        Action::Publish(output) => Event::Published(output),
        Action::Schedule(after, input) => Event::Scheduled(after, input),
        Action::Complete => Event::Completed,
    }));
    events
}
