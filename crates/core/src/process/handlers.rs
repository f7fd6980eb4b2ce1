//! Delivers messages to processes: commands are executed, schedules become inputs.

use std::sync::Arc;

use async_trait::async_trait;
use steadfast_store::{Commit, StoreError};

use super::{InputError, Process, execute::AnyExecutor, record, runner::Runner};
use crate::{
    Failure, Handler,
    dispatch::{Delivery, PermitPool},
};

/// Executes a command, and gives the process the returned input.
pub(super) struct CommandHandler<P: Process> {
    pub(super) runner: Arc<Runner<P>>,
    pub(super) executor: Arc<dyn AnyExecutor<P>>,
}

#[async_trait]
impl<P: Process> Handler for CommandHandler<P> {
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure> {
        let output: P::Output = record::body::<P, _>(&delivery.message).map_err(fatal)?;
        let key = delivery.id();
        let Some(input) = self.executor.execute_boxed(output, &key).await? else {
            return Ok(Commit::default());
        };
        // The returned input may be for another instance.
        let Some(name) = P::route(&input) else { return Ok(Commit::default()) };
        feed(&self.runner, &name, &input, &delivery).await
    }

    fn pool(&self) -> PermitPool {
        PermitPool::Of { kind: "commands", name: P::NAME, max: None }
    }
}

/// Gives a process the input that it scheduled.
pub(super) struct ScheduleHandler<P: Process> {
    pub(super) runner: Arc<Runner<P>>,
}

#[async_trait]
impl<P: Process> Handler for ScheduleHandler<P> {
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure> {
        let input: P::Input = record::body::<P, _>(&delivery.message).map_err(fatal)?;
        let Some(name) = P::route(&input) else {
            return Err(Failure::fatal("the scheduled input belongs to no instance"));
        };
        feed(&self.runner, &name, &input, &delivery).await
    }

    fn leaves_the_process(&self) -> bool {
        false
    }

    fn pool(&self) -> PermitPool {
        PermitPool::Of { kind: "inputs", name: P::NAME, max: None }
    }
}

/// The input is decided in the commit that settles the delivery, so it is decided exactly once.
async fn feed<P: Process>(
    runner: &Runner<P>,
    name: &str,
    input: &P::Input,
    delivery: &Delivery,
) -> Result<Commit, Failure> {
    let key = delivery.id();
    match runner.input(name, input, Some(&key), Some(delivery)).await {
        Ok(_) => Ok(Commit::default()),
        Err(InputError::Store(StoreError::Invalid(error))) => Err(fatal(StoreError::from(error))),
        // The outcome is unknown, or this code cannot read the stream: retry.
        Err(error @ (InputError::Store(_) | InputError::Contended { .. })) => {
            Err(Failure::retry(error.to_string()))
        }
        Err(error) => Err(fatal(error)),
    }
}

fn fatal(error: impl Into<InputError>) -> Failure {
    Failure::fatal(error.into().to_string())
}
