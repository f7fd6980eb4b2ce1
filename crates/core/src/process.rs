//! Processes: pure `decide` and `evolve` over a stream that is both inbox and outbox.

mod codec;
mod error;
mod event;
mod execute;
mod handlers;
mod instance;
pub mod kit;
mod publish;
mod record;
mod registry;
mod runner;
mod stage;

use std::{fmt::Debug, time::Duration};

use serde_json::Value;

pub(crate) use self::record::encoded;
pub use self::{
    codec::CodecError,
    error::InputError,
    event::{Event, EventOf, translate},
    execute::Execute,
    publish::Published,
    registry::{InstanceView, Processes},
    runner::{Decided, Output},
};
pub use crate::Body;

/// A state machine over a message stream. Each input is decided on the state that the stream folds
/// to; input and decision are recorded in one commit.
///
/// `decide` and `evolve` are pure: no clock, no randomness, no I/O. Inputs and outputs are enums
/// that serde writes as `{"type": …, "data": …}`: `#[serde(tag = "type", content = "data",
/// rename_all_fields = "camelCase")]`.
pub trait Process: Send + Sync + Sized + 'static {
    /// The name of the process. It is stored: it may never change.
    const NAME: &'static str;
    /// The version in which inputs and outputs are written now; see [`Process::upcast`].
    const SCHEMA: i32 = 1;
    /// The version of `evolve`. Snapshots of other versions are ignored.
    const VERSION: i32 = 1;
    /// Whether commands of one instance are executed one at a time, in their order.
    const ORDERED: bool = false;
    /// The inputs.
    type Input: Body + Clone + Debug + PartialEq;
    /// The outputs.
    type Output: Body + Clone + Debug + PartialEq;
    /// The state that inputs are decided on.
    type State: Body + Clone + Debug + Default;

    /// The instance that an input belongs to; `None` if it belongs to none.
    fn route(input: &Self::Input) -> Option<String>;

    /// Decides an input. The input is recorded even if the list is empty.
    fn decide(input: &Self::Input, state: &Self::State) -> Result<Actions<Self>, Refused>;

    /// The state after an event. It gets inputs and decisions, and must ignore events that do not
    /// concern it.
    fn evolve(state: Self::State, event: &EventOf<Self>) -> Self::State;

    /// Whether an input is a command; otherwise it is an event.
    fn is_command(input: &Self::Input) -> bool {
        let _ = input;
        false
    }

    /// Converts a message that was stored under an older `SCHEMA` to the current form.
    fn upcast(message_type: &str, schema: i32, data: Value) -> Result<(String, Value), String> {
        let _ = schema;
        Ok((message_type.to_owned(), data))
    }
}

/// A decision of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Action<I, O> {
    /// Replies to the caller that gave the input, with [`Decided::reply`]. The reply is recorded: a
    /// repetition with the same key gets the same reply.
    Reply(O),
    /// Executes a command.
    Send(O),
    /// Publishes an event to all subscribers: see [`App::subscribe`](crate::App::subscribe) and
    /// [`App::follow`](crate::App::follow).
    Publish(O),
    /// Gives the instance an input later, for example a timeout.
    Schedule(Duration, I),
    /// Ends the instance. Pending schedules are cancelled, later inputs are recorded as ignored.
    Complete,
}

/// The decisions of a process on one input.
pub type Actions<P> = Vec<Action<<P as Process>::Input, <P as Process>::Output>>;

/// The process refuses the input in this state; it is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// The reason.
    pub reason: String,
}

impl Refused {
    /// Refuses with a reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}
