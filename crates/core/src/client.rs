//! A client of a running program: what consumers and performers hold, and the transport to a
//! program in another process. `runtime/client.rs` has its operations.

use std::{
    any::Any,
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::RwLock;
use serde_json::Value;
use steadfast_bucket::{Blob, ListOptions, Listing, PutOptions};
use steadfast_store::StoreError;

use crate::{
    object::{Caller, RemoteObjects},
    process::Decided,
    workflow::{StartOutcome, Status},
};

/// A client of a running program. Cheap to clone, and no clone keeps the program running: a
/// performer, an executor or a consumer may hold one. [`App::client`](crate::App::client) returns
/// one before the program has started; [`Runtime`](crate::Runtime) derefs to one.
/// `steadfast::connect` returns one for a program in another process.
#[derive(Clone)]
pub struct Client {
    pub(crate) target: ClientTarget,
    pub(crate) caller: Caller,
}

/// A running program, whose parts hand out clients: its type is known to the runtime.
pub(crate) type AnyProgram = dyn Any + Send + Sync;

#[derive(Clone)]
pub(crate) enum ClientTarget {
    Local(Arc<RwLock<Weak<AnyProgram>>>),
    Remote(Arc<dyn RemoteProgram>),
}

impl Default for Client {
    fn default() -> Self {
        let none: Weak<AnyProgram> = Weak::<()>::new();
        Self { target: ClientTarget::Local(Arc::new(RwLock::new(none))), caller: Caller::default() }
    }
}

/// A destination for messages from outside of the program: a queue, or an event of a run.
pub trait Receive<M> {
    /// Why a message was not accepted.
    type Error;

    #[doc(hidden)]
    fn receive(
        self,
        client: &Client,
        msg: M,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl Client {
    pub(crate) fn attach(&self, running: Weak<AnyProgram>) {
        if let ClientTarget::Local(here) = &self.target {
            *here.write() = running;
        }
    }

    /// A client of a program in another process.
    pub fn remote(program: Arc<dyn RemoteProgram>) -> Self {
        Self { target: ClientTarget::Remote(program), caller: Caller::default() }
    }

    /// A client that calls objects for this caller: see [`Turn::caller`](crate::Turn::caller). A
    /// program in another process determines its callers itself.
    pub fn by(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }
}

/// A change of a run that [`RunHandle`](crate::RunHandle) makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChange {
    /// Pause it.
    Pause,
    /// Resume it.
    Resume,
    /// Terminate it.
    Terminate,
}

/// Carries the verbs of a [`Client`](crate::Client) to a program in another process. Bodies are
/// JSON. Every error is [`StoreError::Remote`]; a run is named by its workflow and its id.
///
/// `steadfast::connect` gives the one over HTTP.
#[async_trait]
pub trait RemoteProgram: RemoteObjects {
    /// Sends a message to a queue.
    async fn send(&self, queue: &str, body: &str, delay: Duration) -> Result<(), StoreError>;

    /// Starts a run, or finds it.
    async fn start(&self, run: (&str, &str), input: &str) -> Result<StartOutcome, StoreError>;

    /// The status of a run.
    async fn status(&self, run: (&str, &str)) -> Result<Status, StoreError>;

    /// Waits until a run has ended or is paused.
    async fn wait(&self, run: (&str, &str)) -> Result<Status, StoreError>;

    /// Sends an event to a run.
    async fn send_event(
        &self,
        run: (&str, &str),
        event: &str,
        payload: &str,
    ) -> Result<(), StoreError>;

    /// Changes a run.
    async fn change_run(&self, run: (&str, &str), change: RunChange) -> Result<(), StoreError>;

    /// Gives an input to the instance of a process.
    async fn input(
        &self,
        instance: (&str, &str),
        message_type: &str,
        data: Value,
    ) -> Result<Decided, StoreError>;

    /// Writes the blob with this bucket and key.
    async fn put_blob(
        &self,
        blob: (&str, &str),
        bytes: &[u8],
        put: PutOptions,
    ) -> Result<Blob, StoreError>;

    /// The bytes of a blob; `None` if there is none.
    async fn get_blob(&self, blob: (&str, &str)) -> Result<Option<Vec<u8>>, StoreError>;

    /// Deletes a blob; the number of the deletion, or `None` if there was none.
    async fn delete_blob(&self, blob: (&str, &str)) -> Result<Option<i64>, StoreError>;

    /// Lists the blobs of a bucket.
    async fn list_blobs(&self, bucket: &str, list: &ListOptions) -> Result<Listing, StoreError>;
}
