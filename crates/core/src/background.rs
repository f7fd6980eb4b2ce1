//! Threads for background work.

use tokio::runtime::{Builder, Runtime};

/// Threads for background work such as deliveries and jobs. Start a [`Runtime`](crate::Runtime) or
/// a [`Dispatcher`](crate::Dispatcher) on them, and serve requests from other threads. Then
/// requests do not wait behind a backlog of work.
///
/// ```no_run
/// # async fn serve(_: steadfast::Runtime) {}
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use steadfast::store::{MemoryStore, SystemClock};
/// # let store = std::sync::Arc::new(MemoryStore::new(std::sync::Arc::new(SystemClock)));
/// let people = tokio::runtime::Runtime::new()?;
/// let work = steadfast::background_threads()?;
/// let app = work.block_on(steadfast::App::new("work").start(store))?;
/// people.block_on(serve(app));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// If the system has no more threads.
pub fn background_threads() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().thread_name("work").enable_all().build()
}
