//! Who handles messages.

use async_trait::async_trait;
use steadfast_store::{Commit, Recorded};

/// Handles messages of a type.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Handles one message and returns what is to be committed with its settlement: both become
    /// durable together, so the consequences happen exactly once.
    ///
    /// What leaves the process in here happens at least once, with [`Delivery::id`] as its
    /// idempotency key.
    async fn handle(&self, delivery: Delivery) -> Result<Commit, Failure>;

    /// Whether handling leaves the process. If it does, each attempt is claimed and counted before
    /// it begins; if not, the commit of the consequences is enough.
    fn leaves_the_process(&self) -> bool {
        true
    }
}

/// A message on its way to its handler.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message.
    pub message: Recorded,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

impl Delivery {
    /// The same for every delivery of this message: the key for what must not happen twice.
    pub fn id(&self) -> String {
        self.message.id()
    }
}

/// Why a message could not be handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For the attempt log.
    pub error: String,
    /// Whether another attempt would fail as well.
    pub is_final: bool,
}

impl Failure {
    /// It may work another time.
    pub fn retry(error: impl Into<String>) -> Self {
        Self { error: error.into(), is_final: false }
    }

    /// It never will: the message is dead at once.
    pub fn fatal(error: impl Into<String>) -> Self {
        Self { error: error.into(), is_final: true }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error.to_string())
    }
}
