//! Carrying out what a process sends.

use std::sync::Arc;

use async_trait::async_trait;

use super::Process;
use crate::Failure;

/// Executes the outputs of a process. Its dependencies are its fields.
#[async_trait]
pub trait Execute<P: Process>: Send + Sync + 'static {
    /// Executes one output; what comes back is the next input, recorded exactly once.
    ///
    /// It may run again after a crash, with the same `key`: what must not happen twice outside
    /// needs it.
    async fn execute(&self, output: P::Output, key: &str) -> Result<Option<P::Input>, Failure>;
}

#[async_trait]
impl<P: Process, E: Execute<P>> Execute<P> for Arc<E> {
    async fn execute(&self, output: P::Output, key: &str) -> Result<Option<P::Input>, Failure> {
        E::execute(&**self, output, key).await
    }
}
