//! Executes the commands of a process.

use std::{pin::Pin, sync::Arc};

use super::Process;
use crate::Failure;

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
