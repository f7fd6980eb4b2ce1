//! Asks the routes of this process, about a folder or about nothing that is kept, so that offline
//! and online answer alike.

use std::{io::Read, net::SocketAddr, path::Path, sync::Arc};

use axum::{Router, body::Body, http::Request, response::Response};
use futures_util::{StreamExt, stream};
use steadfast_bucket::MemoryBlobs;
use steadfast_core::{App, refuse_foreign};
use steadfast_store::{Clock, MemoryStore, OpenError, Store, SystemClock};
use tokio::runtime::Runtime;
use tower::ServiceExt;

use super::{Answer, Take};
use crate::{
    app, args::PORT, failure::Failure, open::open_existing_folder, place::Place, server::Server,
};

/// Bytes of a file that are read at once.
const PIECE: u64 = 256 << 10;

/// Asks one folder.
pub(crate) struct LocalClient {
    runtime: Runtime,
    server: Arc<Server>,
    routes: Router,
}

impl LocalClient {
    /// Opens a folder that is there and that no server holds.
    pub(super) fn open(folder: &Path, mut app: App) -> Result<Self, Failure> {
        let folder = std::path::absolute(folder)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        runtime.block_on(refuse_foreign(&folder, app.name()))?;
        let opened = runtime.block_on(open_existing_folder(&folder, clock));
        let store = opened.map_err(advise)?;
        app::claim_routes(&mut app);
        let app = app.blob_folder(folder.join("blobs"));
        let place = Place::Folder(folder);
        let server = runtime.block_on(async {
            let server = Server::prepare(app, store.clone(), place).await;
            if server.is_err() {
                store.close().await;
            }
            server
        })?;
        Ok(Self { runtime, routes: app::router(server.clone()), server })
    }

    /// A program in memory that works until this is dropped.
    pub(super) fn here(mut app: App) -> Result<Self, Failure> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build()?;
        let server = runtime.block_on(async {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
            // Nobody asks where it is.
            let place = Place::Folder("memory".into());
            app::claim_routes(&mut app);
            let app = app.blobs(Arc::new(MemoryBlobs::default()));
            let server = Server::prepare(app, store, place).await?;
            // What a program may ask of its own server, it asks where one is by default.
            let _ = server.address.set(SocketAddr::from(([127, 0, 0, 1], PORT)));
            server.runtime.work().await?;
            Ok::<Arc<Server>, Failure>(server)
        })?;
        Ok(Self { runtime, routes: app::router(server.clone()), server })
    }

    /// Sends a request with JSON or nothing in its body.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&str>,
        key: Option<&str>,
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(body.map_or_else(Body::empty, |it| Body::from(it.to_owned())));
        let request = request.map_err(|error| Failure::new(error.to_string()))?;
        self.runtime.block_on(async { answer(self.ask(request).await).await })
    }

    async fn ask(&self, request: Request<Body>) -> Response {
        match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Puts a file, piece by piece.
    pub(super) fn upload(
        &self,
        path: &str,
        content_type: Option<&str>,
        (file, length): (impl Read + Send + 'static, u64),
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder().method("PUT").uri(path).header("host", "localhost");
        request = request.header("content-length", length);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(Body::from_stream(stream::iter(Pieces(file))));
        let request = request.map_err(|error| Failure::new(error.to_string()))?;
        self.runtime.block_on(async { answer(self.ask(request).await).await })
    }

    /// Gets a file piece by piece; the answer itself if it is not good.
    pub(super) fn fetch(&self, path: &str, take: Take<'_>) -> Result<Option<Answer>, Failure> {
        let request = Request::builder().uri(path).header("host", "localhost").body(Body::empty());
        let request = request.map_err(|error| Failure::new(error.to_string()))?;
        self.runtime.block_on(async {
            let response = self.ask(request).await;
            if response.status() != 200 {
                return answer(response).await.map(Some);
            }
            let length = response.headers().get("content-length");
            let length = length.and_then(|it| it.to_str().ok()?.parse().ok());
            let mut pieces = response.into_body().into_data_stream();
            while let Some(piece) = pieces.next().await {
                take(&piece.map_err(|error| Failure::new(error.to_string()))?, length)?;
            }
            Ok(None)
        })
    }
}

/// The folder is free again.
impl Drop for LocalClient {
    fn drop(&mut self) {
        self.runtime.block_on(async {
            self.server.runtime.clone().stop().await;
            self.server.runtime.store().close().await;
        });
    }
}

async fn answer(response: Response) -> Result<Answer, Failure> {
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    let bytes = bytes.map_err(|error| Failure::new(error.to_string()))?;
    Ok(Answer { status, body: bytes.to_vec() })
}

/// A file, piece by piece. Nothing else is to be done here while the disk is waited for.
struct Pieces<R>(R);

impl<R: Read> Iterator for Pieces<R> {
    type Item = std::io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut piece = Vec::new();
        match self.0.by_ref().take(PIECE).read_to_end(&mut piece) {
            Ok(0) => None,
            Ok(_) => Some(Ok(piece)),
            Err(error) => Some(Err(error)),
        }
    }
}

fn advise(error: OpenError) -> Failure {
    match error {
        OpenError::Taken { .. } => {
            Failure::new(format!("{error}; or ask that one: use --server instead of --data"))
        }
        OpenError::Newer { .. }
        | OpenError::CommitsLost { .. }
        | OpenError::Foreign { .. }
        | OpenError::Failed { .. } => error.into(),
    }
}
