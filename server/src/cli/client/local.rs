//! Asks the routes of this process about a folder, so that offline and online answer alike.

use std::{path::Path, sync::Arc};

use axum::{Router, body::Body, http::Request};
use steadfast_store::{Clock, OpenError, Store, SystemClock};
use tokio::runtime::Runtime;
use tower::ServiceExt;

use super::Answer;
use crate::{
    app,
    failure::Failure,
    node::Node,
    open::{open_buckets, open_existing_folder},
    place::Place,
};

/// Asks one folder.
pub(crate) struct LocalClient {
    runtime: Runtime,
    store: Arc<dyn Store>,
    app: Router,
}

impl LocalClient {
    /// Opens a folder that is there and that no server holds.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let folder = std::path::absolute(folder)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let opened = runtime.block_on(open_existing_folder(&folder, clock.clone()));
        let store = opened.map_err(advise)?;
        let buckets = runtime.block_on(open_buckets(store.clone(), &folder, clock))?;
        let entered = runtime.enter();
        let app = app::router(Node::new(store.clone(), Place::Folder(folder), buckets)?);
        drop(entered);
        Ok(Self { runtime, store, app })
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
        self.runtime.block_on(async {
            let response = match self.app.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let status = response.status().as_u16();
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await;
            let bytes = bytes.map_err(|error| Failure::new(error.to_string()))?;
            Ok(Answer { status, body: bytes.to_vec() })
        })
    }

    /// Gives the folder free again.
    pub(super) fn close(self) {
        self.runtime.block_on(self.store.close());
    }
}

fn advise(error: OpenError) -> Failure {
    match error {
        OpenError::Taken { .. } => {
            Failure::new(format!("{error}; or ask that one: use --server instead of --data"))
        }
        OpenError::Newer { .. } | OpenError::Foreign { .. } | OpenError::Failed { .. } => {
            error.into()
        }
    }
}
