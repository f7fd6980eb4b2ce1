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

use steadfast_api::{Code, Operation, RouteScope, buckets::DeleteBlob, objects::CallObject};
use steadfast_core::{ResourceKind, Verb};
use steadfast_web::{Needs, Role, needs};
use utoipa_axum::routes;

use crate::operation::{ApiRoutes, fails_with};

/// The routes for programs. Undocumented routes cannot be added here.
pub(crate) fn routes() -> ApiRoutes {
    let of_connect = connect::ERRORS.into_iter().chain(Code::OF_CHANGES);
    let url = RouteScope::Url;
    ApiRoutes::default()
        .routes(url, fails_with([], needs(Needs::NOTHING, routes!(server::healthz))))
        .routes(url, fails_with([], needs(Needs::NOTHING, routes!(server::readyz))))
        .routes(url, fails_with([], needs(Role::Viewer, routes!(server::metrics))))
        .routes(url, fails_with([], needs(Role::Viewer, routes!(server::openapi))))
        .routes(
            CallObject::INFO.scope,
            fails_with(of_connect, needs(Role::Member, routes!(connect::connect))),
        )
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
pub(crate) fn large_routes() -> ApiRoutes {
    use buckets::blobs::{self, ERRORS};
    let of_write = ERRORS.into_iter().chain(blobs::ERRORS_OF_WRITES).chain(Code::OF_CHANGES);
    let of_get =
        ERRORS.into_iter().chain([Code::RangeNotSatisfiable, Code::BlobDamaged, Code::BlobMissing]);
    let scope =
        |verb| RouteScope::Resource { kind: ResourceKind::Bucket, names: &["bucket", "key"], verb };
    ApiRoutes::default()
        .routes(scope(Verb::Read), fails_with(of_get, needs(Role::Viewer, routes!(blobs::get))))
        .routes(scope(Verb::Read), fails_with(ERRORS, needs(Role::Viewer, routes!(blobs::head))))
        .routes(scope(Verb::Write), fails_with(of_write, needs(Role::Member, routes!(blobs::put))))
        .routes(
            DeleteBlob::INFO.scope,
            fails_with(DeleteBlob::INFO.codes(), needs(DeleteBlob::NEEDS, routes!(blobs::delete))),
        )
}
