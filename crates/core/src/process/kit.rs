//! Given, when, then: tests of a process without a store. [`Stage`] runs a whole process on
//! a store in memory, with a virtual clock.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! # use steadfast::process::{Action::{self, *}, Actions, Event, Process, Refused, kit::given};
//! # #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! # #[serde(tag = "type", content = "data")]
//! # enum Input { Open { id: String }, Close { id: String } }
//! # #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
//! # #[serde(tag = "type", content = "data")]
//! # enum Output { Closed }
//! # struct Door;
//! # impl Process for Door {
//! #     const NAME: &'static str = "door";
//! #     type Input = Input;
//! #     type Output = Output;
//! #     type State = bool;
//! #     fn route(input: &Input) -> Option<String> {
//! #         let (Input::Open { id } | Input::Close { id }) = input;
//! #         Some(id.clone())
//! #     }
//! #     fn decide(input: &Input, open: &bool) -> Result<Actions<Self>, Refused> {
//! #         match input {
//! #             Input::Open { .. } => Ok(vec![]),
//! #             Input::Close { .. } if !open => Err(Refused::because("it is not open")),
//! #             Input::Close { .. } => Ok(vec![Publish(Output::Closed), Complete]),
//! #         }
//! #     }
//! #     fn evolve(open: bool, event: &Event<Input, Output>) -> bool {
//! #         open || matches!(event, Event::InitiatedBy(Input::Open { .. }))
//! #     }
//! # }
//! # let open = || Input::Open { id: "1".into() };
//! # let close = || Input::Close { id: "1".into() };
//! given::<Door>([]).when(open()).then_nothing();
//! given::<Door>([open()]).when(close()).then([Publish(Output::Closed), Complete]);
//! given::<Door>([]).when(close()).then_refused("it is not open");
//! ```

use std::{marker::PhantomData, sync::Arc, time::Duration};

use serde_json::Value;
use steadfast_store::{
    Address, Clock, EntityKind, ManualClock, MemoryStore, SeededEntropy, Store, StoreError,
    Timestamp,
};

use super::{
    definition::{
        Action, Actions, Event, EventOf, Execute, InputError, Process, Refused, translate,
    },
    record,
    registry::Processes,
    runner::Decided,
};
use crate::Dispatcher;

/// A process that has decided some inputs.
pub struct Given<P: Process> {
    state: P::State,
    begun: bool,
    completed: bool,
}

/// The decision of a process.
pub struct When<P: Process> {
    decided: Result<Actions<P>, Refused>,
}

/// A process that has decided these inputs, in this order.
///
/// # Panics
///
/// If it refuses one of them.
#[track_caller]
pub fn given<P: Process>(inputs: impl IntoIterator<Item = P::Input>) -> Given<P> {
    let mut given = Given { state: P::State::default(), begun: false, completed: false };
    for input in inputs {
        let actions = given
            .decide(&input)
            .unwrap_or_else(|refused| panic!("given {input:?}, which is refused: {refused}"));
        given.take(input, actions);
    }
    given
}

/// A process whose stream holds these events.
pub fn given_events<P: Process>(
    events: impl IntoIterator<Item = Event<P::Input, P::Output>>,
) -> Given<P> {
    let mut given = Given { state: P::State::default(), begun: false, completed: false };
    events.into_iter().for_each(|event| given.apply(&event));
    given
}

impl<P: Process> Given<P> {
    /// Gives it one more input.
    pub fn when(self, input: P::Input) -> When<P> {
        When { decided: self.decide(&input) }
    }

    /// The state it is in.
    pub fn state(&self) -> &P::State {
        &self.state
    }

    /// After completion inputs are ignored, whatever `decide` would return.
    fn decide(&self, input: &P::Input) -> Result<Actions<P>, Refused> {
        if self.completed { Ok(Vec::new()) } else { P::decide(input, &self.state) }
    }

    fn take(&mut self, input: P::Input, actions: Actions<P>) {
        if !self.completed {
            let events = translate::<P>(!self.begun, input, actions);
            events.iter().for_each(|event| self.apply(event));
        }
    }

    fn apply(&mut self, event: &Event<P::Input, P::Output>) {
        self.begun = true;
        self.completed |= *event == Event::Completed;
        self.state = P::evolve(std::mem::take(&mut self.state), event);
    }
}

impl<P: Process> When<P> {
    /// Asserts that it decides this.
    #[track_caller]
    pub fn then(self, actions: impl IntoIterator<Item = Action<P::Input, P::Output>>) {
        assert_eq!(self.decided, Ok(actions.into_iter().collect()));
    }

    /// Asserts that it records the input and decides nothing.
    #[track_caller]
    pub fn then_nothing(self) {
        self.then([]);
    }

    /// Asserts that it refuses, with a reason that contains this.
    #[track_caller]
    pub fn then_refused(self, reason: &str) {
        match self.decided {
            Err(refused) if refused.reason.contains(reason) => {}
            other => panic!("expected a refusal with `{reason}`, got {other:?}"),
        }
    }
}

/// A whole process under test: store, clock, dispatcher and executor.
///
/// ```
/// # use std::time::Duration;
/// # use serde::{Deserialize, Serialize};
/// # use steadfast::Failure;
/// # use steadfast::process::{Action::*, Actions, Event, EventOf, Execute, Process, Refused};
/// # use steadfast::process::kit::Stage;
/// # #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// # #[serde(tag = "type", content = "data")]
/// # enum Input { Start { id: String }, Ring { id: String } }
/// # #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// # #[serde(tag = "type", content = "data")]
/// # enum Output { Rang }
/// # struct Egg;
/// # impl Process for Egg {
/// #     const NAME: &'static str = "egg";
/// #     type Input = Input;
/// #     type Output = Output;
/// #     type State = ();
/// #     fn route(input: &Input) -> Option<String> {
/// #         let (Input::Start { id } | Input::Ring { id }) = input;
/// #         Some(id.clone())
/// #     }
/// #     fn decide(input: &Input, _: &()) -> Result<Actions<Self>, Refused> {
/// #         Ok(match input.clone() {
/// #             Input::Start { id } => vec![Schedule(Duration::from_mins(5), Input::Ring { id })],
/// #             Input::Ring { .. } => vec![Publish(Output::Rang), Complete],
/// #         })
/// #     }
/// #     fn evolve(_: (), _: &EventOf<Self>) {}
/// # }
/// # struct Nobody;
/// # impl Execute<Egg> for Nobody {
/// #     async fn execute(&self, _: Output, _: &str) -> Result<Option<Input>, Failure> { Ok(None) }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let stage = Stage::<Egg>::new(Nobody).await?;
/// stage.input(Input::Start { id: "1".into() }).await?;
/// stage.advance(Duration::from_mins(4)).await;
/// assert_eq!(stage.events("1").await?.len(), 3);
/// stage.advance(Duration::from_mins(1)).await;
/// assert_eq!(stage.events("1").await?.last(), Some(&Event::Completed));
/// # Ok(())
/// # }
/// ```
pub struct Stage<P: Process> {
    store: Arc<dyn Store>,
    clock: ManualClock,
    processes: Processes,
    dispatcher: Dispatcher,
    process: PhantomData<P>,
}

impl<P: Process> Stage<P> {
    /// Starts everything; time passes only by [`Stage::advance`].
    pub async fn new(executor: impl Execute<P>) -> Result<Self, StoreError> {
        let clock = ManualClock::at(Timestamp(1_700_000_000_000));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let processes = Processes::new(store.clone()).with::<P>(executor);
        let dispatcher = Dispatcher::builder(store.clone())
            .entropy(SeededEntropy::new(1))
            .route(processes.clone())
            .start()
            .await?;
        Ok(Self { store, clock, processes, dispatcher, process: PhantomData })
    }

    /// Gives an input and waits until all work that is due now is done.
    #[steadfast_store::boxed]
    pub async fn input(&self, input: P::Input) -> Result<Decided, InputError> {
        let decided = self.processes.input::<P>(&input, None).await?;
        self.dispatcher.settled().await;
        Ok(decided)
    }

    /// Lets time pass and waits until all work that becomes due is done.
    #[steadfast_store::boxed]
    pub async fn advance(&self, duration: Duration) {
        let until = self.clock.now().after(duration);
        // In small steps, so that work runs at its due time.
        let step = (duration / 100).max(Duration::from_millis(1));
        while self.clock.now() < until {
            self.clock.advance(step.min(until.since(self.clock.now())));
            self.dispatcher.settled().await;
        }
    }

    /// The recorded events of an instance.
    #[steadfast_store::boxed]
    pub async fn events(&self, name: &str) -> Result<Vec<EventOf<P>>, InputError> {
        let stream = Address::new(EntityKind::Process, P::NAME, name)?;
        let messages = self.store.read_stream(stream.id(), 1, usize::MAX).await?;
        let events = messages.iter().map(|message| record::event::<P>(message));
        Ok(events.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The state of an instance, as JSON.
    #[steadfast_store::boxed]
    pub async fn state(&self, name: &str) -> Result<Option<Value>, InputError> {
        Ok(self.processes.look(P::NAME, name).await?.map(|it| it.state))
    }

    /// The virtual clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }
}
