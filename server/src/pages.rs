//! Pages for people, made on the server. They need no script and read what the API reads.

mod assets;
mod failure;
mod messages;
mod shell;
mod start;
mod streams;
mod table;

use std::sync::Arc;

use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::failure::failure;
use crate::node::Node;

/// The routes for people.
pub(crate) fn routes() -> OpenApiRouter<Arc<Node>> {
    OpenApiRouter::default()
        .routes(routes!(start::start))
        .routes(routes!(streams::list))
        .routes(routes!(messages::pending))
        .routes(routes!(messages::dead))
        .routes(routes!(streams::show))
        .routes(routes!(assets::style))
        .routes(routes!(assets::icon))
}
