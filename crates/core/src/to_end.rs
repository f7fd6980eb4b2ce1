//! Operations that end although their callers go away.

use std::panic::resume_unwind;

use steadfast_store::{StoreError, futures::FutureExt};

/// Runs an operation in a task of its own: if the caller is dropped while a commit is in flight,
/// what the commit changes in memory is changed all the same.
pub(crate) async fn to_end<T, E>(
    operation: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    match tokio::spawn(operation.boxed()).await {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The program is stopping.
            Err(_) => Err(StoreError::Closed.into()),
        },
    }
}
