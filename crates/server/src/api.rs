//! The HTTP API. Handlers extract, ask the store, and convert.

pub(crate) mod body;
pub(crate) mod buckets;
pub(crate) mod connect;
pub(crate) mod doctor;
pub(crate) mod health;
pub(crate) mod id;
pub(crate) mod inputs;
pub(crate) mod keys;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod objects;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod problem;
pub(crate) mod processes;
pub(crate) mod queues;
pub(crate) mod revive;
pub(crate) mod runs;
pub(crate) mod streams;
pub(crate) mod time;
pub(crate) mod tokens;
pub(crate) mod wire;

use std::sync::Arc;

use utoipa_axum::{router::OpenApiRouter, routes};

use crate::node::Node;

/// The routes for programs. One that is not documented cannot be added here.
pub(crate) fn routes() -> OpenApiRouter<Arc<Node>> {
    OpenApiRouter::default()
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
        .routes(routes!(openapi::openapi))
        .routes(routes!(streams::list))
        .routes(routes!(messages::pending))
        .routes(routes!(messages::dead))
        .routes(routes!(streams::show))
        .routes(routes!(messages::show))
        .routes(routes!(revive::revive))
        .routes(routes!(processes::list))
        .routes(routes!(processes::instances))
        .routes(routes!(processes::show))
        .routes(routes!(inputs::send))
        .routes(routes!(objects::list::classes))
        .routes(routes!(objects::list::objects))
        .routes(routes!(objects::show::show, objects::show::delete))
        .routes(routes!(objects::sql::sql))
        .routes(routes!(objects::turns::turns))
        .routes(routes!(objects::turns::turn))
        .routes(routes!(objects::export::export))
        .routes(routes!(objects::call))
        .routes(routes!(connect::connect))
        .routes(routes!(runs::list::workflows))
        .routes(routes!(runs::list::list, runs::start))
        .routes(routes!(runs::show, runs::delete))
        .routes(routes!(runs::history::history))
        .routes(routes!(runs::history::live))
        .routes(routes!(runs::control))
        .routes(routes!(runs::event))
        .routes(routes!(queues::list))
        .routes(routes!(queues::show, queues::configure))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(queues::redrive::purge))
        .routes(routes!(queues::redrive::redrive))
        .routes(routes!(queues::messages::peek, queues::send::send))
        .routes(routes!(queues::pull::pull))
        .routes(routes!(queues::pull::ack))
        .routes(routes!(queues::redrive::edit))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::revoke))
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
        .routes(routes!(buckets::list))
        .routes(routes!(buckets::show, buckets::put, buckets::delete))
        .routes(routes!(buckets::rules::list))
        .routes(routes!(buckets::rules::show, buckets::rules::put, buckets::rules::delete))
        .routes(routes!(buckets::lifecycle::list))
        .routes(routes!(
            buckets::lifecycle::show,
            buckets::lifecycle::put,
            buckets::lifecycle::delete
        ))
        .routes(routes!(buckets::list::list))
        .routes(routes!(buckets::events::list))
        .routes(routes!(buckets::presign::presign))
        .routes(routes!(doctor::doctor))
}

/// The routes whose bodies are as large as a bucket allows.
pub(crate) fn large_routes() -> OpenApiRouter<Arc<Node>> {
    OpenApiRouter::default().routes(routes!(
        buckets::blobs::get,
        buckets::blobs::head,
        buckets::blobs::put,
        buckets::blobs::delete
    ))
}
