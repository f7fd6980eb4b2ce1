//! The HTTP API. Handlers parse the request, call the runtime and convert the result.

pub(crate) mod audit;
pub(crate) mod buckets;
mod collect;
pub(crate) mod connect;
pub(crate) mod id;
pub(crate) mod keys;
pub(crate) mod objects;
pub(crate) mod processes;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod runs;
mod server;
pub(crate) mod sessions;
pub(crate) mod streams;
pub(crate) mod tokens;

use std::sync::Arc;

use steadfast_api::{Code, Operation, buckets::DeleteBlob};
use steadfast_web::{Needs, Role, needs};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    operation::{ApiRoutes, fails_with},
    server::Server,
};

/// The routes for programs. Undocumented routes cannot be added here.
pub(crate) fn routes() -> ApiRoutes {
    let of_connect = connect::ERRORS.into_iter().chain(Code::OF_CHANGES);
    ApiRoutes::default()
        .routes(fails_with([], needs(Needs::NOTHING, routes!(server::healthz))))
        .routes(fails_with([], needs(Needs::NOTHING, routes!(server::readyz))))
        .routes(fails_with([], needs(Role::Viewer, routes!(server::metrics))))
        .routes(fails_with([], needs(Role::Viewer, routes!(server::openapi))))
        .routes(fails_with(of_connect, needs(Role::Member, routes!(connect::connect))))
        .operation(server::doctor)
        .operation(server::check_blobs)
        .merge(objects::routes())
        .merge(processes::routes())
        .merge(queues::routes())
        .merge(runs::routes())
        .merge(streams::routes())
        .merge(buckets::routes())
        .merge(keys::routes())
        .merge(tokens::routes())
        .merge(sessions::routes())
        .merge(audit::routes())
        .merge(quotas::routes())
}

/// The routes without a fixed limit for bodies: the bucket has one.
pub(crate) fn large_routes() -> OpenApiRouter<Arc<Server>> {
    use buckets::blobs::{self, ERRORS};
    let of_write = ERRORS.into_iter().chain(blobs::ERRORS_OF_WRITES).chain(Code::OF_CHANGES);
    let of_get =
        ERRORS.into_iter().chain([Code::RangeNotSatisfiable, Code::BlobDamaged, Code::BlobMissing]);
    OpenApiRouter::default()
        .routes(fails_with(of_get, needs(Role::Viewer, routes!(blobs::get))))
        .routes(fails_with(ERRORS, needs(Role::Viewer, routes!(blobs::head))))
        .routes(fails_with(of_write, needs(Role::Member, routes!(blobs::put))))
        .routes(fails_with(
            DeleteBlob::INFO.codes(),
            needs(DeleteBlob::NEEDS, routes!(blobs::delete)),
        ))
}
