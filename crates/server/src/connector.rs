//! How the routes of applications make live connections.

use std::sync::Arc;

use axum::{
    extract::{Query, Request},
    response::{IntoResponse, Response},
};
use steadfast_web::Connect;

use crate::{
    api::{
        connect::connect_to,
        problem::{Code, Problem},
    },
    node::Node,
};

/// Connects as the routes of objects do.
pub(crate) fn connector(node: &Arc<Node>) -> Connect {
    // The routes are a part of what the node holds.
    let node = Arc::downgrade(node);
    Arc::new(move |class, name, request: Request| {
        let node = node.clone();
        Box::pin(async move {
            let Some(node) = node.upgrade() else {
                return Problem::of(Code::Closed, "the server is stopping").into_response();
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
    let Query(query) = query.map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
    connect_to(node, class, name, query, request).await
}
