//! The application behind its routes, and a subscriber.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, http::StatusCode, response::IntoResponse};
use steadfast_core::{
    App, ConnectParams, Object, Places, Runtime, object,
    store::{SqliteOptions, SqliteStore, Store, SystemClock},
};
use steadfast_images::{Copies, ImageLimits, Pool};
use steadfast_uploads::{
    FindLostRuns, GaveUp, INCOMING, INCOMING_DLQ, Ingestion, OrganizationAgent,
    OrganizationMessage, OrganizationWorkflow, RunLookup, UPLOADS, bucket,
    classifier::Classifier,
    dead_letters,
    http::{Site, routes},
    queue,
};
use steadfast_web::Connect;
use tokio::task::JoinHandle;

use crate::{http::Caller, measure::now};

/// When the row of each image was classified and durable, as a subscriber sees it.
#[derive(Default)]
pub(super) struct Heard {
    times: Mutex<HashMap<String, Result<Instant, String>>>,
    more: Condvar,
}

impl Heard {
    fn tell(&self, name: String, how: Result<Instant, String>) {
        self.times.lock().expect("no thread panics").insert(name, how);
        self.more.notify_all();
    }

    /// Waits for the time of this one.
    pub(super) fn wait(&self, name: &str) -> Instant {
        let times = self.times.lock().expect("no thread panics");
        let times = self.more.wait_while(times, |it| !it.contains_key(name));
        times.expect("no thread panics")[name].clone().expect("classified")
    }
}

/// The application behind its routes.
pub(super) struct Stage {
    pub(super) app: Runtime,
    pub(super) store: Arc<dyn Store>,
    pub(super) heard: Arc<Heard>,
    address: SocketAddr,
    tasks: [JoinHandle<()>; 2],
    _folder: tempfile::TempDir,
}

impl Stage {
    pub(super) async fn new(classifier: Arc<dyn Classifier>) -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let options = SqliteOptions::new(folder.path().join("store"), Arc::new(SystemClock));
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
        let app = App::new("bench");
        let client = app.client();
        let runs = move || client.runtime().map(|it| it.runs().clone());
        let app = app
            .perform::<FindLostRuns>(RunLookup::new(runs))
            .bucket(bucket())
            .blob_folder(folder.path().join("blobs"))
            .queue(queue())
            .queue(dead_letters())
            .consume(INCOMING, Ingestion::default())
            .consume(INCOMING_DLQ, GaveUp::default())
            .object(OrganizationAgent::default())
            .workflow(OrganizationWorkflow::new(classifier, Duration::from_secs(2)))
            .start(store.clone())
            .await
            .expect("starts");
        // The subscriber here uses no HTTP.
        let connect: Connect =
            Arc::new(|_, _, _| Box::pin(async { StatusCode::NOT_FOUND.into_response() }));
        let limits = ImageLimits::default();
        let routes = Router::from(routes(&limits)).with_state(Site {
            objects: app.objects().clone(),
            uploads: app.bucket(UPLOADS),
            organization: None,
            limits,
            pool: Pool::for_this_machine("images").expect("threads"),
            thumbnails: Copies::default(),
            places: Arc::new(Places::new(4)),
            connect,
            notice: Arc::new(|| None),
        });
        let anybody = steadfast_web::Caller::new(&app, object::Caller::Anonymous);
        let routes = routes.layer(axum::Extension(anybody));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.expect("serves");
        });
        let heard = Arc::new(Heard::default());
        let watching = watch(&app, heard.clone()).await;
        Self { app, store, heard, address, tasks: [serving, watching], _folder: folder }
    }

    /// A client that uploads images, over a connection of its own.
    pub(super) fn caller(&self) -> impl FnMut(&str, &[u8]) + use<> {
        let mut caller = Caller::new(&self.address.to_string());
        move |name, image| {
            caller.post_file("/api/organizations/bench/uploads", name, image);
        }
    }

    pub(super) async fn stop(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.app.stop().await;
        self.store.close().await;
    }
}

async fn watch(app: &Runtime, heard: Arc<Heard>) -> JoinHandle<()> {
    let socket = app.connect(OrganizationAgent::at("bench"), ConnectParams::new()).await;
    let socket = socket.expect("connects");
    tokio::spawn(async move {
        while let Ok(event) = socket.next().await {
            match serde_json::from_str(&event.text).expect("a message") {
                OrganizationMessage::ClassificationUpdated { name, .. } => {
                    heard.tell(name, Ok(now()))
                }
                OrganizationMessage::ClassificationError { name, error, .. } => {
                    heard.tell(name, Err(error));
                }
                OrganizationMessage::UploadReceived { .. }
                | OrganizationMessage::ClassificationWorkflowStarted { .. }
                | OrganizationMessage::WorkflowProgress { .. }
                | OrganizationMessage::UploadDeleted { .. }
                | OrganizationMessage::UploadError { .. } => {}
            }
        }
    })
}
