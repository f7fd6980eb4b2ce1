//! The application uploads, mounted: what it needs of this node.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Query, Request},
    response::{IntoResponse, Response},
};
use steadfast_ai::classify::Copies;
use steadfast_uploads::{
    UPLOADS,
    http::{Site, router},
};
use steadfast_web::Connect;

use crate::{
    api::{
        connect::connect_to,
        problem::{Code, Problem},
    },
    node::Node,
};

/// The routes of the application.
pub(crate) fn routes(node: &Arc<Node>) -> Router {
    router(Site {
        objects: node.objects.clone(),
        uploads: UPLOADS.of(&node.buckets),
        tokens: node.tokens.clone(),
        limits: node.apps.sight.limits.clone(),
        pool: node.apps.sight.pool.clone(),
        thumbnails: Copies::default(),
        connect: connector(node),
        notice: node.apps.sight.notice.clone(),
    })
}

/// Connects as the routes of objects do.
pub(crate) fn connector(node: &Arc<Node>) -> Connect {
    // The routes are a part of what the node holds.
    let node = Arc::downgrade(node);
    Arc::new(move |class, name, request: Request| {
        let node = node.clone();
        Box::pin(async move {
            let Some(node) = node.upgrade() else {
                return Problem::new(Code::Closed, "the server is stopping").into_response();
            };
            match connect(&node, class, &name, request).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            }
        })
    })
}

async fn connect(
    node: &Arc<Node>,
    class: &str,
    name: &str,
    request: Request,
) -> Result<Response, Problem> {
    let query = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let Query(query) = query.map_err(|error| Problem::new(Code::BadQuery, error.body_text()))?;
    connect_to(node, class, name, query, request).await
}
