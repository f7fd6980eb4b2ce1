//! One run of a program, with the types of its workflow.

use steadfast_store::StoreError;

use crate::{
    Body, Client, Event, RunAddress, RunError, Workflow, body::from_value, client::RunChange,
    remote::Backend, workflow::Status,
};

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
            Backend::Local(it) => it.runs.status(W::NAME, self.run.id()).await,
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
                running.runs.send_event(W::NAME, self.run.id(), event.name(), &payload).await
            }
            Backend::Remote(transport) => {
                let payload = RunError::json("the payload of the event", &payload)?;
                Ok(transport.send_event(self.names(), event.name(), &payload).await?)
            }
        }
    }

    /// Pauses it: attempts in flight end and are recorded, nothing new begins.
    #[steadfast_store::boxed]
    pub async fn pause(&self) -> Result<(), RunError> {
        self.change(RunChange::Pause).await
    }

    /// Resumes it. Its timers are shifted by the duration of the pause.
    #[steadfast_store::boxed]
    pub async fn resume(&self) -> Result<(), RunError> {
        self.change(RunChange::Resume).await
    }

    /// Terminates it. Attempts in flight are dropped.
    #[steadfast_store::boxed]
    pub async fn terminate(&self) -> Result<(), RunError> {
        self.change(RunChange::Terminate).await
    }

    async fn change(&self, change: RunChange) -> Result<(), RunError> {
        let (workflow, id) = self.names();
        let running = match self.client.backend()? {
            Backend::Local(running) => running,
            Backend::Remote(transport) => {
                return Ok(transport.change_run((workflow, id), change).await?);
            }
        };
        match change {
            RunChange::Pause => running.runs.pause(workflow, id).await,
            RunChange::Resume => running.runs.resume(workflow, id).await,
            RunChange::Terminate => running.runs.terminate(workflow, id).await,
        }
    }
}
