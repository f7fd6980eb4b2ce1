//! The application behind its routes, with a slow provider.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, http::StatusCode, response::IntoResponse};
use serde_json::{Value, json};
use steadfast_core::{
    App, ConnectParams, Object, ObjectOptions, Places, Runtime, background_threads, object,
    store::{SeededEntropy, SqliteOptions, SqliteStore, Store, SystemClock},
};
use steadfast_generations::{
    ARTIFACTS, DEFAULT_WORKSPACE, Discard, Fetch, FindOrphans, Generation, GenerationManager,
    GenerationStatus, GetState, Library, ListGenerations, Narrow, OrphanSweep, Poll, Providers,
    ProvidersOptions, Record, Submit,
    http::{Site, routes},
};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_web::Connect;
use tokio::task::JoinHandle;

use super::provider::{Shared, Slow};
use crate::http::Caller;

/// Maximum concurrent calls of the provider.
pub(super) const AT_ONCE: usize = 64;
/// Pictures of one generation.
pub(super) const TASKS: usize = 4;

pub(super) struct Stage {
    pub(super) app: Runtime,
    pub(super) store: Arc<dyn Store>,
    pub(super) provider: Arc<Slow>,
    pub(super) address: SocketAddr,
    serving: JoinHandle<()>,
    /// The runtime of the application; clients are served from another one, as in the server.
    work: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let options = SqliteOptions::new(folder.path().join("store"), Arc::new(SystemClock));
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
        let (app, provider) = (App::new("bench"), Arc::new(Slow::new()));
        let place = app.client();
        let providers = Arc::new(Providers::new(
            vec![Arc::new(Shared(provider.clone()))],
            ProvidersOptions { at_once: AT_ONCE, ..ProvidersOptions::default() },
            Arc::new(move || place.bucket(ARTIFACTS)),
        ));
        let managers = app.client();
        providers.connect(move || managers.runtime().map(|it| it.objects().clone()));
        // Finished objects must not stay in memory for long.
        let objects = ObjectOptions { idle_time: Duration::from_secs(5), ..Default::default() };
        let work = background_threads().expect("threads");
        let app = app
            .bucket(ARTIFACTS)
            .blob_folder(folder.path().join("blobs"))
            .object_options(objects)
            .object(GenerationManager { providers: providers.clone() })
            .object(Library)
            .object(OrphanSweep)
            .perform::<Submit>(providers.clone())
            .perform::<Poll>(providers.clone())
            .perform::<Fetch>(providers.clone())
            .perform::<Record>(providers.clone())
            .perform::<Discard>(providers.clone())
            .perform::<FindOrphans>(providers.clone());
        let (app, of_app) = (app.start(store.clone()), work.handle().clone());
        let app = of_app.spawn(app).await.expect("no panic").expect("starts");
        // The subscriber here uses no HTTP.
        let connect: Connect =
            Arc::new(|_, _, _| Box::pin(async { StatusCode::NOT_FOUND.into_response() }));
        let routes = Router::from(routes()).with_state(Site {
            objects: app.objects().clone(),
            artifacts: app.bucket(ARTIFACTS),
            providers,
            webhooks: None,
            connect,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SeededEntropy::from_system()),
            pool: Pool::for_this_machine("images").expect("threads"),
            limits: ImageLimits::default(),
            copies: Copies::default(),
            places: Arc::new(Places::new(4)),
        });
        let anybody = steadfast_web::Caller::new(&app, object::Caller::Anonymous);
        let routes = routes.layer(axum::Extension(anybody));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.expect("serves");
        });
        Self { app, store, provider, address, serving, work, _folder: folder }
    }

    /// A client that requests generations, over a connection of its own: a prompt, and the id.
    pub(super) fn caller(&self) -> impl FnMut(&str) -> String + use<> {
        let mut caller = Caller::new(&self.address.to_string());
        move |prompt| {
            let input = json!({ "positivePrompt": prompt });
            let body = json!({ "model": "bench:slow@1", "input": input, "count": TASKS });
            let answer: Value =
                serde_json::from_str(&caller.post("/api/generations", &body.to_string()))
                    .expect("JSON");
            answer["id"].as_str().expect("an id").to_owned()
        }
    }

    /// Waits until a generation has ended, as a subscriber.
    pub(super) async fn finished(&self, id: &str) -> Generation {
        let (app, objects) = (&self.app, self.app.objects());
        let socket = app.connect(GenerationManager::at(id), ConnectParams::new()).await;
        let socket = socket.expect("connects");
        let now = objects.call(GenerationManager::at(id), GetState).await.expect("answers");
        let now = now.expect("it is there");
        if now.status != GenerationStatus::Active {
            return now;
        }
        loop {
            let event = socket.next().await.expect("another event");
            let message: serde_json::Value = serde_json::from_str(&event.text).expect("a message");
            if message["type"] == "generation_finished" {
                return serde_json::from_value(message["generation"].clone()).expect("it ended");
            }
        }
    }

    /// Generations, newest first.
    pub(super) async fn list(
        &self,
        status: Option<GenerationStatus>,
        limit: u32,
        after: Option<(i64, String)>,
    ) -> Vec<Generation> {
        let narrow = Narrow { limit, after, ..Narrow::default() };
        let ask = ListGenerations { status, narrow };
        let library = Library::at(DEFAULT_WORKSPACE);
        self.app.objects().call(library, ask).await.expect("a list")
    }

    pub(super) async fn stop(self) {
        self.serving.abort();
        self.app.stop().await;
        self.store.close().await;
        self.work.shutdown_background();
    }
}
