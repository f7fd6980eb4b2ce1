//! The declaration of a process in a program, with the events that its stream records, the
//! executors of its commands, the form in which the store keeps its messages, and the errors of
//! inputs.

use std::{fmt::Debug, pin::Pin, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use steadfast_store::{AddressError, Code, InvalidInput, Json, StoreError};

use crate::{
    Failure,
    body::{Body, from_value, to_value},
};

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
    /// Replies to the caller that gave the input, with [`Decided::reply`](super::Decided::reply).
    /// The reply is recorded: a repetition with the same key gets the same reply.
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

/// Executes the outputs of a process. Its dependencies are its fields.
pub trait Execute<P: Process>: Send + Sync + 'static {
    /// Executes one output; the returned input is recorded exactly once. Write it as `async fn
    /// execute(&self, output: …, key: &str) -> Result<Option<…>, Failure>`.
    ///
    /// It may run again after a crash, with the same `key`: pass the key on to effects that must
    /// not happen twice.
    fn execute(
        &self,
        output: P::Output,
        key: &str,
    ) -> impl Future<Output = Result<Option<P::Input>, Failure>> + Send;
}

impl<P: Process, E: Execute<P>> Execute<P> for Arc<E> {
    async fn execute(&self, output: P::Output, key: &str) -> Result<Option<P::Input>, Failure> {
        E::execute(&**self, output, key).await
    }
}

type Executing<'a, P> =
    Pin<Box<dyn Future<Output = Result<Option<<P as Process>::Input>, Failure>> + Send + 'a>>;

/// An executor without its type.
pub(super) trait AnyExecutor<P: Process>: Send + Sync + 'static {
    fn execute_boxed<'a>(&'a self, output: P::Output, key: &'a str) -> Executing<'a, P>;
}

impl<P: Process, E: Execute<P>> AnyExecutor<P> for E {
    fn execute_boxed<'a>(&'a self, output: P::Output, key: &'a str) -> Executing<'a, P> {
        Box::pin(self.execute(output, key))
    }
}

/// A message cannot be serialized or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// It is not serialized as type and data.
    #[error(
        "a message must be written as type and data: use serde(tag = \"type\", content = \"data\")"
    )]
    Shape,
    /// It is not one of the messages of the process.
    #[error("`{message_type}` is not a message of this process: {reason}")]
    Unknown {
        /// Its type.
        message_type: String,
        /// The message of serde, with the path.
        reason: String,
    },
    /// The store rejects it.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
}

/// Writes a message as type and data.
pub(crate) fn encode<T: Body>(message: &T) -> Result<(String, Json), CodecError> {
    let Ok(Value::Object(mut object)) = to_value(message) else {
        return Err(CodecError::Shape);
    };
    let Some(Value::String(message_type)) = object.remove("type") else {
        return Err(CodecError::Shape);
    };
    let data = object.remove("data").unwrap_or(Value::Null);
    if !object.is_empty() {
        return Err(CodecError::Shape);
    }
    let json = Json::of(&data)?;
    // A message that cannot be read must not get into a stream: every later input would read it.
    decode::<T>(&message_type, data)?;
    Ok((message_type, json))
}

/// Reads a message from type and data.
pub(crate) fn decode<T: Body>(message_type: &str, data: Value) -> Result<T, CodecError> {
    let mut object = Map::new();
    object.insert("type".into(), message_type.into());
    object.insert("data".into(), data);
    from_value(&Value::Object(object)).map_err(|error| CodecError::Unknown {
        message_type: message_type.into(),
        reason: error.to_string(),
    })
}

/// Why an input was not accepted. Nothing was recorded, unless the store does not know the outcome.
#[derive(Clone, Debug, thiserror::Error)]
pub enum InputError {
    /// It is not a message of this process.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// There is no such process.
    #[error("there is no process `{name}`")]
    Process {
        /// The requested name.
        name: String,
    },
    /// It belongs to another instance or to none.
    #[error("the input belongs to {belongs}, not to `{given}`")]
    Instance {
        /// The instance that it belongs to.
        belongs: String,
        /// The instance that it was sent to.
        given: String,
    },
    /// The process refuses it in its present state.
    #[error("the process refuses the input: {0}")]
    Refused(#[from] Refused),
    /// The key was used for another input.
    #[error("idempotency key `{key}` was used for another input; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// Concurrent decisions kept winning.
    #[error("instance `{instance}` was changed concurrently {attempts} times in a row; try again")]
    Contended {
        /// The instance.
        instance: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] AddressError),
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl InputError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            InputError::Codec(_) => Code::MalformedMessage,
            InputError::Process { .. } => Code::ProcessNotFound,
            InputError::Refused(_) => Code::Refused,
            InputError::KeyReused { .. } => Code::KeyReused,
            InputError::Contended { .. } => Code::Contended,
            InputError::Instance { .. } | InputError::Name(_) => Code::InvalidInput,
            InputError::Store(error) => error.kind(),
        }
    }

    /// The stable code as text.
    pub fn code(&self) -> &'static str {
        self.kind().tag()
    }

    /// Whether the same input may be sent again.
    pub fn is_retryable(&self) -> bool {
        if let InputError::Store(error) = self {
            return error.is_retryable();
        }
        self.kind().is_retryable()
    }
}
