//! The routes in this process, on a folder or in memory, so that offline and online responses are
//! the same.

use std::{net::SocketAddr, path::Path, sync::Arc};

use axum::{Router, body::Body, http::Request};
use http_body_util::BodyExt;
use rustix::fs::{Access, access};
use steadfast_api::{BrokenBody, Connection, Payload, ResponseFuture, Transport};
use steadfast_bucket::MemoryBlobs;
use steadfast_core::{App, refuse_foreign};
use steadfast_store::{Clock, MemoryStore, OpenError, Seal, SealFile, Store, SystemClock};
use tokio::runtime::Runtime;
use tower::ServiceExt;

use crate::{
    app,
    args::PORT,
    failure::Failure,
    location::Location,
    open::open_existing_folder,
    server::{Policy, Server},
};

/// A program in this process.
pub(super) struct Local {
    server: Arc<Server>,
    routes: Router,
}

impl Local {
    /// Opens an existing folder that no server has open.
    pub(super) fn open(runtime: &Runtime, folder: &Path, mut app: App) -> Result<Self, Failure> {
        let folder = std::path::absolute(folder)?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        runtime.block_on(refuse_foreign(&folder, app.name()))?;
        // On a file system that is mounted read-only, or in the backup of another user.
        let read_only = access(&folder, Access::WRITE_OK).is_err() && folder.is_dir();
        let opened = runtime.block_on(open_existing_folder(&folder, clock, read_only));
        let store = opened.map_err(advise)?;
        let app = match read_only {
            true => app::read_only(app, &folder, SealFile::in_folder(&folder)),
            false => {
                app::claim_routes(&mut app);
                app.blob_folder(folder.join("blobs")).seal_key_folder(&folder)
            }
        };
        let location = Location::Folder(folder);
        let mut server = runtime.block_on(async {
            // The permissions of the folder decide who may open it.
            let policy = Policy::HostDecides;
            let server = Server::prepare(app, store.clone(), location, policy).await;
            if server.is_err() {
                store.close().await;
            }
            server
        })?;
        server.is_read_only = read_only;
        let server = Arc::new(server);
        Ok(Self { routes: app::router(server.clone())?, server })
    }

    /// A program in memory that runs until it is stopped.
    pub(super) fn here(runtime: &Runtime, mut app: App) -> Result<Self, Failure> {
        let server = runtime.block_on(async {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
            // Nothing reads the location.
            let location = Location::Folder("memory".into());
            app::claim_routes(&mut app);
            let app = app.blobs(Arc::new(MemoryBlobs::default())).seal(Seal::random()?);
            let mut server = Server::prepare(app, store, location, Policy::HostDecides).await?;
            // Verbs of a program send requests to its own server at the default address.
            server.address = Some(SocketAddr::from(([127, 0, 0, 1], PORT)));
            server.runtime.work().await?;
            Ok::<Arc<Server>, Failure>(Arc::new(server))
        })?;
        Ok(Self { routes: app::router(server.clone())?, server })
    }

    /// A connection to it.
    pub(super) fn connection(&self) -> Connection {
        Connection::over("http://localhost", Arc::new(Routes(self.routes.clone())))
    }

    /// Stops the program and closes its store.
    pub(super) async fn stop(self) {
        self.server.runtime.clone().stop().await;
        self.server.runtime.store().close().await;
    }
}

/// The routes of a program in this process.
struct Routes(Router);

impl Transport for Routes {
    fn exchange(&self, request: Request<Payload>) -> ResponseFuture {
        let routes = self.0.clone();
        Box::pin(async move {
            match routes.oneshot(request.map(Body::new)).await {
                Ok(answer) => Ok(answer.map(|it| it.map_err(BrokenBody::because).boxed_unsync())),
                Err(never) => match never {},
            }
        })
    }
}

fn advise(error: OpenError) -> Failure {
    match error {
        OpenError::Taken { .. } => {
            Failure::new(format!("{error}; or ask that one: use --server instead of --data"))
        }
        OpenError::Format { .. }
        | OpenError::CommitsLost { .. }
        | OpenError::Foreign { .. }
        | OpenError::Failed { .. } => error.into(),
    }
}
