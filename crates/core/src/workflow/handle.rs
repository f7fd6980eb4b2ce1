//! One run, with the types of its workflow.

use std::{marker::PhantomData, time::Duration};

use serde_json::json as object;
use steadfast_store::{InvalidInput, Json, StoreError};

use super::{Ctx, RunAddress, RunError, Status, Workflow};
use crate::{
    Body, Client, Receive, Result,
    body::from_value,
    object::{Destination, Sending},
    remote::{Backend, RunChange},
};

/// Names an event that runs wait for, with the type of its payload.
/// ```
/// use steadfast::Event;
///
/// const PAYMENT: Event<u64> = Event::named("payment");
/// ```
pub struct Event<T> {
    name: &'static str,
    payload: PhantomData<fn() -> T>,
}

impl<T> Clone for Event<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Event<T> {}

impl<T> Event<T> {
    /// An event of this name. It is stored: it may never change.
    pub const fn named(name: &'static str) -> Self {
        Self { name, payload: PhantomData }
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// An event of one run: a destination for messages.
pub struct RunEvent<W, T> {
    run: RunAddress<W>,
    event: Event<T>,
}

impl<W: Workflow> RunAddress<W> {
    /// An event of this run. A message that is sent there is kept until the run waits for it.
    pub fn event<T>(self, event: Event<T>) -> RunEvent<W, T> {
        RunEvent { run: self, event }
    }
}

impl<W: Workflow, T: Body> Destination<T, ()> for RunEvent<W, T> {
    fn sending(self, msg: T) -> Result<Sending, InvalidInput> {
        let target = self
            .run
            .resolve()
            .map_err(|_| InvalidInput::NotARun { address: format!("{:?}", self.run).into() })?;
        let metadata = Json::of(&object!({ "to": target.to_string() }))?;
        let (action, message_type) = ("event", self.event.name);
        // Behind the message that starts the run.
        let (data, delay, ordered) = (Json::of(&msg)?, Duration::ZERO, true);
        Ok(Sending { target, action, message_type, data, metadata, delay, ordered })
    }
}

impl<W: Workflow, T: Body> Receive<T> for RunEvent<W, T> {
    type Error = RunError;

    async fn receive(self, client: &Client, msg: T) -> Result<(), RunError> {
        client.run(self.run).send(self.event, msg).await
    }
}

impl Ctx {
    /// The next event of this kind, in the order of arrival, each taken once. An event that arrived
    /// earlier is returned immediately.
    #[track_caller]
    pub fn wait_for<T: Body>(&self, event: Event<T>) -> impl Future<Output = Result<T>> + Send {
        self.event(event.name)
    }
}

impl Client {
    /// A run of a workflow, with its types.
    pub fn run<W: Workflow>(&self, run: RunAddress<W>) -> RunHandle<W> {
        RunHandle { client: self.clone(), run }
    }
}

/// One run of a program: [`Client::run`] returns it.
pub struct RunHandle<W> {
    client: Client,
    run: RunAddress<W>,
}

impl<W: Workflow> RunHandle<W> {
    fn names(&self) -> (&str, &str) {
        (W::NAME, self.run.id())
    }

    /// Its status.
    #[steadfast_store::boxed]
    pub async fn status(&self) -> Result<Status, RunError> {
        match self.client.backend()? {
            Backend::Local(it) => Ok(it.runs.run(W::NAME, self.run.id()).await?.status),
            Backend::Remote(transport) => Ok(transport.status(self.names()).await?),
        }
    }

    /// Waits until it has ended, and returns its output. A failed run returns [`RunError::Failed`];
    /// a terminated or paused one [`RunError::WrongStatus`]. If the program stops first, the error
    /// is `closed`.
    #[steadfast_store::boxed]
    pub async fn wait(&self) -> Result<W::Output, RunError> {
        let status = match self.client.backend()? {
            Backend::Remote(transport) => transport.wait(self.names()).await?,
            Backend::Local(running) => {
                let (runs, mut ended) = (running.runs.clone(), running.ended.subscribe());
                // The wait does not keep the program alive.
                drop(running);
                tokio::select! {
                    status = runs.wait(W::NAME, self.run.id()) => status?,
                    // The next process drives it.
                    _ = ended.wait_for(|it| *it) => return Err(StoreError::Closed.into()),
                }
            }
        };
        let run = format!("{:?}", self.run);
        let tag = status.tag();
        match status {
            Status::Complete(output) => from_value(&output).map_err(|error| RunError::Malformed {
                what: "the output of the run",
                detail: error.to_string(),
            }),
            Status::Errored(error) => Err(RunError::Failed { run, error }),
            Status::Queued | Status::Running | Status::Waiting | Status::Paused(_) => {
                Err(RunError::WrongStatus { run, status: tag, why: "resume it to get its output" })
            }
            Status::Terminated => {
                Err(RunError::WrongStatus { run, status: tag, why: "it gives no output" })
            }
        }
    }

    /// Sends it an event, which is kept until the run waits for one of this name.
    pub async fn send<T: Body>(&self, event: Event<T>, payload: T) -> Result<(), RunError> {
        match self.client.backend()? {
            Backend::Local(running) => {
                running.runs.send_event(W::NAME, self.run.id(), event.name, &payload).await
            }
            Backend::Remote(transport) => {
                let payload = RunError::json("the payload of the event", &payload)?;
                Ok(transport.send_event(self.names(), event.name, &payload).await?)
            }
        }
    }

    /// Pauses it: attempts in flight end and are recorded, nothing new begins.
    #[steadfast_store::boxed]
    pub async fn pause(&self) -> Result<(), RunError> {
        match self.client.backend()? {
            Backend::Local(it) => it.runs.pause(W::NAME, self.run.id()).await,
            Backend::Remote(transport) => {
                Ok(transport.change_run(self.names(), RunChange::Pause).await?)
            }
        }
    }

    /// Resumes it. Its timers are shifted by the duration of the pause.
    #[steadfast_store::boxed]
    pub async fn resume(&self) -> Result<(), RunError> {
        match self.client.backend()? {
            Backend::Local(it) => it.runs.resume(W::NAME, self.run.id()).await,
            Backend::Remote(transport) => {
                Ok(transport.change_run(self.names(), RunChange::Resume).await?)
            }
        }
    }

    /// Terminates it. Attempts in flight are dropped.
    #[steadfast_store::boxed]
    pub async fn terminate(&self) -> Result<(), RunError> {
        match self.client.backend()? {
            Backend::Local(it) => it.runs.terminate(W::NAME, self.run.id()).await,
            Backend::Remote(transport) => {
                Ok(transport.change_run(self.names(), RunChange::Terminate).await?)
            }
        }
    }
}
