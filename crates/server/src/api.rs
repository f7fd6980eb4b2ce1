//! The HTTP API. Handlers extract, ask the store, and convert.

pub(crate) mod buckets;
pub(crate) mod connect;
pub(crate) mod doctor;
pub(crate) mod health;
pub(crate) mod id;
pub(crate) mod keys;
pub(crate) mod metrics;
pub(crate) mod objects;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod processes;
pub(crate) mod queues;
pub(crate) mod runs;
pub(crate) mod streams;
pub(crate) mod tokens;

use std::sync::Arc;

use steadfast_web::{Needs, Role, needs};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{operation::operation, pages::docs, server::Server};

/// The routes for programs. One that is not documented cannot be added here.
pub(crate) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::default()
        .routes(needs(Needs::NOTHING, routes!(health::healthz)))
        .routes(needs(Needs::NOTHING, routes!(health::readyz)))
        .routes(needs(Role::Viewer, routes!(metrics::metrics)))
        .routes(needs(Role::Viewer, routes!(openapi::openapi)))
        .routes(needs(Role::Member, routes!(connect::connect)))
        .routes(operation(doctor::doctor))
        .merge(docs::routes())
        .merge(objects::routes())
        .merge(processes::routes())
        .merge(queues::routes())
        .merge(runs::routes())
        .merge(streams::routes())
        .merge(buckets::routes())
        .merge(keys::routes())
        .merge(tokens::routes())
}

/// The routes whose bodies are as large as a bucket allows.
pub(crate) fn large_routes() -> OpenApiRouter<Arc<Server>> {
    let (read, write, delete) = (Role::Viewer, Role::Member, Role::Operator);
    OpenApiRouter::default()
        .routes(needs(read, routes!(buckets::blobs::get, buckets::blobs::head)))
        .routes(needs(write, routes!(buckets::blobs::put)))
        .routes(needs(delete, routes!(buckets::blobs::delete)))
}
