//! The thread of the writer. The writer, its heartbeat and the drivers of their connections share
//! a runtime of their own on it: handlers and steps that block the threads of the runtime of the
//! program cannot delay them.

use std::thread;

use futures_util::future::BoxFuture;
use tokio::{runtime::Builder, sync::oneshot, task::spawn_blocking};

use super::writer::Writer;
use crate::OpenError;

/// Linux shows the first 15 bytes of a name.
const NAME: &str = "postgres-writer";

/// The thread of a writer. It ends with the writer; dropping this does not end it.
pub(super) struct WriterThread(thread::JoinHandle<()>);

impl WriterThread {
    /// Starts a thread that opens a store, returns it, and runs its writer. If this future is
    /// dropped, the thread ends.
    pub(super) async fn start<S: Send + 'static>(
        database: String,
        open: BoxFuture<'static, Result<(S, Writer), OpenError>>,
    ) -> Result<(S, Self), OpenError> {
        let failed = |reason| OpenError::Failed { what: database.clone(), reason };
        let (sender, opened) = oneshot::channel();
        let what = database.clone();
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                runtime.block_on(open_and_write(open, sender));
                // A lookup of a host name may still be running; do not wait for it.
                runtime.shutdown_background();
            }
            Err(error) => {
                let reason = error.to_string();
                let _ = sender.send(Err(OpenError::Failed { what, reason }));
            }
        };
        let thread = thread::Builder::new().name(NAME.into()).spawn(run);
        let thread = Self(thread.map_err(|error| failed(error.to_string()))?);
        let error = match opened.await {
            Ok(Ok(store)) => return Ok((store, thread)),
            Ok(Err(error)) => error,
            Err(_) => failed("the thread of the writer panicked".into()),
        };
        thread.join().await;
        Err(error)
    }

    /// Waits until the writer and its thread have ended.
    pub(super) async fn join(self) {
        // A writer that panicked has nothing left to finish.
        let _ = spawn_blocking(move || self.0.join()).await;
    }
}

async fn open_and_write<S>(
    open: BoxFuture<'static, Result<(S, Writer), OpenError>>,
    mut sender: oneshot::Sender<Result<S, OpenError>>,
) {
    let opened = tokio::select! {
        biased;
        () = sender.closed() => return,
        opened = open => opened,
    };
    match opened {
        Ok((store, writer)) => {
            // A caller that was dropped drops the store, and then the writer ends.
            let _ = sender.send(Ok(store));
            writer.run().await;
        }
        Err(error) => _ = sender.send(Err(error)),
    }
}
