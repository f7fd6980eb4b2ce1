//! A whole process on a store in memory, with a virtual clock.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use serde_json::Value;
use steadfast_store::{
    Address, Clock, EntityKind, ManualClock, MemoryStore, SeededEntropy, Store, StoreError,
    Timestamp,
};

use super::{Decided, EventOf, Execute, InputError, Process, Processes, record};
use crate::Dispatcher;

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
