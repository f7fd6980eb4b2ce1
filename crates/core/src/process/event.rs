//! The events that a stream records.

use std::time::Duration;

use super::{Action, Actions, Process};

/// One record in the stream of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<I, O> {
    /// The instance began.
    Began,
    /// The first input.
    InitiatedBy(I),
    /// A further input.
    Received(I),
    /// A reply.
    Replied(O),
    /// A command.
    Sent(O),
    /// A published event.
    Published(O),
    /// An input for the instance itself, after this delay.
    Scheduled(Duration, I),
    /// The instance ended.
    Completed,
}

/// One record in the stream of this process.
pub type EventOf<P> = Event<<P as Process>::Input, <P as Process>::Output>;

/// The events of an input and of its decisions.
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
