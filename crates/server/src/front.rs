//! The way of a request to its handler. It is one layer of the router: with each more, every
//! request and every response is moved and allocated for once more.

use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use steadfast_web::RouteTable;

use crate::{admission, api, envelope, guard, pages, server::Server};

/// The state of the layer.
pub(crate) struct Front {
    server: Arc<Server>,
    table: RouteTable,
    /// Paths of routes whose bodies are not buffered.
    large: HashSet<String>,
}

impl Front {
    pub(crate) fn new(server: Arc<Server>, table: RouteTable) -> Arc<Self> {
        let pages = pages::routes().into_iter().filter(|it| it.is_large);
        let paths = api::large_routes().into_openapi().paths.paths.into_keys();
        let large = paths.chain(pages.map(|it| it.path.to_owned())).collect();
        Arc::new(Self { server, table, large })
    }
}

/// Passes a request through all checks to its handler, and completes the response.
pub(crate) async fn serve(
    State(front): State<Arc<Front>>,
    request: Request,
    next: Next,
) -> Response {
    let passed = async |request: Request| {
        let Front { server, table, large } = &*front;
        if let Err(problem) = guard::check(server, &request) {
            return problem.into_response();
        }
        let admitted = admission::admit(server, (table, large), request, next);
        let handled = AssertUnwindSafe(admitted).catch_unwind();
        handled.await.unwrap_or_else(|_| admission::panicked())
    };
    envelope::wrap(&front.server, request, passed).await
}
