//! Live connections for the routes of applications.

use std::sync::Arc;

use axum::{
    extract::{Query, Request},
    response::{IntoResponse, Response},
};
use steadfast_api::Code;
use steadfast_web::{Connect, Problem};

use crate::{nouns::objects::connect::connect_to, server::Server};

/// Connects as the routes of objects do.
pub(crate) fn connector(server: &Arc<Server>) -> Connect {
    // Weak, because the server owns the routes.
    let server = Arc::downgrade(server);
    Arc::new(move |class, name, request: Request| {
        let server = server.clone();
        Box::pin(async move {
            let Some(server) = server.upgrade() else {
                return Problem::of(Code::Closed, "the server is stopping").into_response();
            };
            match connect(&server, class, &name, request).await {
                Ok(response) => response,
                Err(problem) => problem.into_response(),
            }
        })
    })
}

async fn connect(
    server: &Arc<Server>,
    class: &str,
    name: &str,
    request: Request,
) -> Result<Response, Problem> {
    let query = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let Query(query) = query.map_err(|error| Problem::of(Code::BadRequest, error.body_text()))?;
    connect_to(server, class, name, query, request).await
}
