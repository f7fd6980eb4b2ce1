//! The parts of a running program.

use std::sync::Arc;

use steadfast_bucket::seal_keys;
use steadfast_store::{Entropy, Seal, Store};

use crate::{
    Audit, BucketError, BucketSpec, Buckets, DispatcherOptions, Objects, Queues, RetentionSettings,
    Runs, Sessions, Sweeper, Tokens, app::Extensions, process::Processes,
};

/// The parts of a program, on one store.
pub(crate) struct Parts {
    pub(crate) name: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) objects: Objects,
    pub(crate) processes: Processes,
    pub(crate) runs: Runs,
    pub(crate) queues: Queues,
    pub(crate) buckets: Option<Buckets>,
    pub(crate) declared_buckets: Vec<BucketSpec>,
    pub(crate) tokens: Tokens,
    pub(crate) audit: Audit,
    pub(crate) sessions: Sessions,
    pub(crate) seal: Seal,
    pub(crate) extensions: Extensions,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) dispatcher_options: DispatcherOptions,
    pub(crate) retention: RetentionSettings,
}

impl Parts {
    /// Seals secrets again that an earlier key sealed, and authenticates the audit log again.
    pub(crate) async fn seal_secrets(&self) -> Result<(), BucketError> {
        let (store, seal) = (&*self.store, &self.seal);
        if seal.fingerprint().is_err() {
            return Ok(());
        }
        let count = seal_keys(store, seal).await?;
        if 0 < count {
            tracing::info!(count, "access keys are sealed with the new key");
        }
        self.audit.seal_head().await?;
        Ok(seal.record(store).await?)
    }

    pub(crate) fn sweeper(&self) -> Sweeper {
        Sweeper {
            store: self.store.clone(),
            runs: self.runs.clone(),
            queues: self.queues.clone(),
            buckets: self.buckets.clone(),
            retention: self.retention,
        }
    }
}

/// A program that ends together with its async runtime delivers nothing more; the next process
/// takes over its work.
impl Drop for Parts {
    fn drop(&mut self) {
        self.queues.let_go();
        self.runs.let_go();
    }
}
