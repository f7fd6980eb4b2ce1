//! The application behind its routes, two environments, and a subscriber.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Router, http::StatusCode, response::IntoResponse};
use steadfast_core::{
    App, ConnectParams, LiveSocket, Object, Runtime, object,
    store::{Clock, SeededEntropy, SqliteOptions, SqliteStore, Store, SystemClock},
};
use steadfast_drift::{
    CompareEnvironments, EnvPair, PairMessage, Pairs, Shown, Vault,
    explain::Rules,
    http::{Site, routes},
    pair::Pair,
    probe::{ProbeOptions, Prober},
};
use steadfast_egress::{Gate, Policy};
use steadfast_web::Connect;
use tokio::task::JoinHandle;

use crate::{
    http::Caller,
    measure::{now, resident_mib},
};

/// Two environments with a response time.
pub(super) struct Environments {
    addresses: [SocketAddr; 2],
    most: Arc<AtomicUsize>,
}

impl Environments {
    pub(super) async fn start(takes: Duration) -> Self {
        let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let one = serve(takes, "one", most.clone(), now.clone()).await;
        let two = serve(takes, "two", most.clone(), now).await;
        Self { addresses: [one, two], most }
    }

    /// The URLs of one page in both.
    pub(super) fn urls(&self, page: &str) -> (String, String) {
        let [left, right] = self.addresses.map(|it| format!("http://{it}/{page}"));
        (left, right)
    }

    /// The maximum of concurrent requests.
    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

async fn serve(
    takes: Duration,
    name: &'static str,
    most: Arc<AtomicUsize>,
    now: Arc<AtomicUsize>,
) -> SocketAddr {
    let answer = move || async move {
        most.fetch_max(1 + now.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        SystemClock.sleep(takes).await;
        now.fetch_sub(1, Ordering::Relaxed);
        let body = format!("<title>{name}</title>").repeat(500);
        ([("content-type", "text/html"), ("cache-control", name), ("x-name", name)], body)
    };
    let routes = Router::new().fallback(answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(async move { axum::serve(listener, routes).await.expect("serves") });
    address
}

/// The application behind its routes.
pub(super) struct Stage {
    pub(super) store: Arc<dyn Store>,
    pub(super) folder: tempfile::TempDir,
    app: Runtime,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("temporary folder");
        let options = SqliteOptions::new(folder.path().join("store"), Arc::new(SystemClock));
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
        let network = "127.0.0.0/8".parse().expect("a network");
        let policy = Policy::public_only().allow_network(network);
        // The time of another round is mostly pauses.
        let options = ProbeOptions { rounds: 0, ..ProbeOptions::default() };
        let prober = Prober::new(Gate::new(policy.clone()), options);
        let (explainer, vault) = (Arc::new(Rules), Vault::default());
        let app = App::new("test")
            .object(EnvPair::default())
            .object(Pairs)
            .workflow(CompareEnvironments { prober, explainer, vault: vault.clone() })
            .start(store.clone())
            .await
            .expect("starts");
        vault.keep_in(&app);
        // The subscriber here uses no HTTP.
        let connect: Connect =
            Arc::new(|_, _, _| Box::pin(async { StatusCode::NOT_FOUND.into_response() }));
        let routes = Router::from(routes()).with_state(Site {
            objects: app.objects().clone(),
            policy,
            vault,
            entropy: Arc::new(SeededEntropy::from_system()),
            clock: Arc::new(SystemClock),
            connect,
            organization: None,
        });
        let anybody = steadfast_web::Caller::new(&app, object::Caller::Anonymous);
        let routes = routes.layer(axum::Extension(anybody));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.expect("serves");
        });
        Self { store, folder, app, address, serving }
    }

    /// Compares two URLs, and returns the time from the request to the completion.
    pub(super) async fn compare(&self, left: &str, right: &str) -> (Shown, Duration) {
        let begun = self.begin(left, right).await;
        let began = begun.began;
        let ended = begun.ended().await;
        (self.show(ended.0).await, ended.1.duration_since(began))
    }

    /// Requests a comparison.
    pub(super) async fn begin(&self, left: &str, right: &str) -> Begun {
        let url = |it: &str| it.parse().expect("a URL");
        let pair = Pair::new(&url(left), &url(right)).expect("a pair");
        let socket = self.app.connect(EnvPair::at(pair.key()), ConnectParams::new()).await;
        let socket = socket.expect("connects");
        let body = serde_json::json!({ "leftUrl": left, "rightUrl": right }).to_string();
        let began = now();
        let begun = self.ask(move |caller| caller.post("/api/compare", &body)).await;
        let begun: serde_json::Value = serde_json::from_str(&begun).expect("JSON");
        let id = begun["comparisonId"].as_str().expect("an id").to_owned();
        Begun { began, id, socket }
    }

    pub(super) async fn show(&self, id: String) -> Shown {
        let shown = self.ask(move |caller| caller.get(&format!("/api/compare/{id}"))).await;
        serde_json::from_str(&shown).expect("a comparison")
    }

    async fn ask(&self, ask: impl FnOnce(&mut Caller) -> String + Send + 'static) -> String {
        let address = self.address.to_string();
        let asked = tokio::task::spawn_blocking(move || ask(&mut Caller::new(&address)));
        asked.await.expect("ends")
    }

    pub(super) async fn stop(self) {
        self.serving.abort();
        self.app.stop().await;
        self.store.close().await;
    }
}

/// A comparison that was requested.
pub(super) struct Begun {
    began: Instant,
    id: String,
    socket: LiveSocket,
}

impl Begun {
    /// Waits for its end: its id, and the time.
    pub(super) async fn ended(self) -> (String, Instant) {
        loop {
            let event = self.socket.next().await.expect("another event");
            let message = serde_json::from_str(&event.text).expect("a message");
            if let PairMessage::Finished { comparison_id, .. } = message
                && comparison_id == self.id
            {
                return (self.id, now());
            }
        }
    }
}

/// Runs a future, and measures its maximum of resident memory.
pub(super) async fn watched<T>(something: impl Future<Output = T>) -> (T, f64) {
    let mut most = resident_mib();
    let mut something = std::pin::pin!(something);
    loop {
        let soon = SystemClock.sleep(Duration::from_millis(20));
        tokio::select! {
            done = &mut something => return (done, most.max(resident_mib())),
            () = soon => most = most.max(resident_mib()),
        }
    }
}
