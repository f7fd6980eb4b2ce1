//! Opens a program: builds its parts on a store and starts work.

use std::sync::Arc;

use steadfast_store::{MemoryStore, Seal, Store, StoreError};

use super::{App, SealSource};
use crate::{
    Audit, Client, Objects, Queues, Runs, Runtime, Sessions, StartError, Tokens,
    bucket::BlobLocation, open, process::Processes, runtime::Parts, workflow::Environment,
};

impl App {
    /// Opens a data folder, or a database by its URL (`postgres://…`), and starts work.
    pub async fn open(self, at: impl AsRef<str>) -> Result<Runtime, StartError> {
        self.open_at(at.as_ref()).await
    }

    #[steadfast_store::boxed]
    async fn open_at(mut self, at: &str) -> Result<Runtime, StartError> {
        self.check()?;
        if !self.adopts {
            match open::folder(at) {
                Some(folder) => open::refuse_foreign(folder, &self.name).await?,
                None => open::refuse_foreign_database(at, &self.name).await?,
            }
        }
        let store = open::open_store(at).await?;
        if let (BlobLocation::None, Some(folder)) = (&self.buckets.location, open::folder(at)) {
            let blobs = folder.join("blobs");
            if !self.buckets.specs.is_empty() || blobs.is_dir() {
                self.buckets.location = BlobLocation::Folder(blobs);
            }
        }
        if let Some(folder) = open::folder(at) {
            self = self.seal_key_folder(folder);
        }
        let started = async {
            let runtime = self.prepare(store.clone()).await?;
            runtime.own_store();
            let began = runtime.work().await;
            runtime.or_stop(began).await
        };
        let started = started.await;
        if started.is_err() {
            // Closing twice is harmless.
            store.close().await;
        }
        started
    }

    /// Starts work on an open store. The caller closes the store.
    #[steadfast_store::boxed]
    pub async fn start(self, store: Arc<dyn Store>) -> Result<Runtime, StartError> {
        let runtime = self.prepare(store).await?;
        let began = runtime.work().await;
        runtime.or_stop(began).await
    }

    /// Serves calls and reads on an open store, and delivers nothing before [`Runtime::work`].
    #[steadfast_store::boxed]
    pub async fn prepare(self, store: Arc<dyn Store>) -> Result<Runtime, StartError> {
        self.check_declared()?;
        let is_ours = open::is_ours(&store, &self.name, self.adopts).await?;
        let App { name, clients, entropy, retention, extensions, buckets, .. } = self;
        let declared_buckets = buckets.specs.clone();
        let buckets = buckets.open(store.clone(), entropy.clone()).await?;
        let seal = load_seal(&*store, self.seal).await?;
        let mut objects = Objects::builder(store.clone())
            .shared_entropy(entropy.clone())
            .options(self.object_options)
            .workflows(self.workflows.iter().map(|it| it.0).collect())
            .scripted(self.script.clone());
        for add in self.objects {
            objects = add(objects);
        }
        let objects = objects.start()?;
        let processes =
            self.processes.into_iter().fold(Processes::new(store.clone()), |it, add| add(it));
        let client = Client::default();
        let declared = self.queues.scripted(&self.script);
        let environment = Environment {
            clock: store.clock().clone(),
            entropy: entropy.clone(),
            objects: objects.clone(),
            script: self.script,
            buckets: buckets.clone(),
        };
        let runs = Runs::of(store.clone(), environment);
        let runs = self.workflows.into_iter().fold(runs, |it, (_, add)| add(it));
        let queues =
            Queues::new(declared, store.clone(), entropy.clone(), objects.clone(), client.clone());
        let tokens = Tokens::new(store.clone());
        let session_store: Arc<dyn Store> = match self.sessions_in_memory {
            true => Arc::new(MemoryStore::new(store.clock().clone())),
            false => store.clone(),
        };
        let parts = Parts {
            name,
            audit: Audit::new(store.clone(), seal.clone()),
            sessions: Sessions::new(session_store, tokens.clone()),
            tokens,
            seal,
            store,
            objects,
            processes,
            runs,
            queues,
            buckets,
            declared_buckets,
            extensions,
            entropy,
            dispatcher_options: self.dispatcher_options,
            retention,
        };
        let runtime = Runtime::new(parts, self.before_work, is_ours, client, &clients);
        self.on_open.into_iter().for_each(|hook| hook(&runtime));
        Ok(runtime)
    }
}

async fn load_seal(store: &dyn Store, source: SealSource) -> Result<Seal, StoreError> {
    let file = match source {
        SealSource::Unset => return Ok(Seal::none()),
        SealSource::Given(seal) => return Ok(seal),
        SealSource::File(file) => file,
    };
    let seal = Seal::load(store, file).await?;
    if let Err(error) = seal.fingerprint() {
        tracing::warn!(%error, "secrets cannot be used; everything else works");
    }
    Ok(seal)
}
