//! Pages for people, made on the server. They read what the API reads, and need no script: one only
//! keeps a table fresh.

mod assets;
mod buckets;
mod chart;
mod failure;
mod link;
mod live;
mod messages;
mod objects;
mod processes;
mod queues;
mod revive;
mod search;
mod start;
mod streams;
mod table;
mod workflows;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::failure::failure;
use crate::server::Server;

/// The routes for people.
pub(crate) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::default()
        .routes(routes!(start::start))
        .routes(routes!(search::search))
        .routes(routes!(streams::list))
        .routes(routes!(messages::pending))
        .routes(routes!(messages::dead))
        .routes(routes!(streams::show))
        .routes(routes!(processes::list))
        .routes(routes!(processes::instances))
        .routes(routes!(processes::show))
        .routes(routes!(objects::list::classes))
        .routes(routes!(objects::list::objects))
        .routes(routes!(objects::show::show))
        .routes(routes!(objects::call::call))
        .routes(routes!(objects::rows::table))
        .routes(routes!(objects::rows::sql_form, objects::rows::sql))
        .routes(routes!(objects::turns::turns))
        .routes(routes!(objects::turns::turn))
        .routes(routes!(workflows::list::workflows))
        .routes(routes!(workflows::list::runs))
        .routes(routes!(workflows::show::show))
        .routes(routes!(workflows::history::history))
        .routes(routes!(workflows::control::event))
        .routes(routes!(workflows::control::delete))
        .routes(routes!(workflows::control::control))
        .routes(routes!(queues::list::queues))
        .routes(routes!(queues::show::show))
        .routes(routes!(queues::control::redrive))
        .routes(routes!(queues::control::edit))
        .routes(routes!(queues::control::control))
        .routes(routes!(buckets::list::buckets, buckets::list::create))
        .routes(routes!(buckets::show::show))
        .routes(routes!(buckets::control::delete))
        .routes(routes!(buckets::blob::show))
        .routes(routes!(buckets::blob::delete))
        .routes(routes!(buckets::blob::link))
        .routes(routes!(buckets::rules_control::put_rule))
        .routes(routes!(buckets::rules_control::delete_rule))
        .routes(routes!(buckets::rules_control::put_lifecycle))
        .routes(routes!(buckets::rules_control::delete_lifecycle))
        .routes(routes!(revive::revive))
        .routes(routes!(assets::style))
        .routes(routes!(assets::script))
        .routes(routes!(assets::buckets))
        .routes(routes!(assets::sql))
        .routes(routes!(assets::icon))
}

/// The routes whose bodies are as large as a bucket allows.
pub(crate) fn large_routes() -> OpenApiRouter<Arc<Server>> {
    let routes = OpenApiRouter::default().routes(routes!(buckets::upload::upload));
    routes.layer(DefaultBodyLimit::disable())
}
