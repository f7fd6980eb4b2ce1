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
use steadfast_web::{Needs, Role, needs};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::failure::failure;
use crate::server::Server;

/// The routes for people.
pub(crate) fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::default()
        .routes(needs(Role::Viewer, routes!(start::start)))
        .routes(needs(Role::Viewer, routes!(search::search)))
        .routes(needs(Role::Viewer, routes!(streams::list)))
        .routes(needs(Role::Viewer, routes!(messages::pending)))
        .routes(needs(Role::Viewer, routes!(messages::dead)))
        .routes(needs(Role::Viewer, routes!(streams::show)))
        .routes(needs(Role::Viewer, routes!(processes::list)))
        .routes(needs(Role::Viewer, routes!(processes::instances)))
        .routes(needs(Role::Viewer, routes!(processes::show)))
        .routes(needs(Role::Viewer, routes!(objects::list::classes)))
        .routes(needs(Role::Viewer, routes!(objects::list::objects)))
        .routes(needs(Role::Viewer, routes!(objects::show::show)))
        .routes(needs(Role::Member, routes!(objects::call::call)))
        .routes(needs(Role::Viewer, routes!(objects::rows::table)))
        .routes(needs(Role::Viewer, routes!(objects::rows::sql_form, objects::rows::sql)))
        .routes(needs(Role::Viewer, routes!(objects::turns::turns)))
        .routes(needs(Role::Viewer, routes!(objects::turns::turn)))
        .routes(needs(Role::Viewer, routes!(workflows::list::workflows)))
        .routes(needs(Role::Viewer, routes!(workflows::list::runs)))
        .routes(needs(Role::Viewer, routes!(workflows::show::show)))
        .routes(needs(Role::Viewer, routes!(workflows::history::history)))
        .routes(needs(Role::Member, routes!(workflows::control::event)))
        .routes(needs(Role::Operator, routes!(workflows::control::delete)))
        .routes(needs(Role::Operator, routes!(workflows::control::control)))
        .routes(needs(Role::Viewer, routes!(queues::list::queues)))
        .routes(needs(Role::Viewer, routes!(queues::show::show)))
        .routes(needs(Role::Operator, routes!(queues::control::redrive)))
        .routes(needs(Role::Operator, routes!(queues::control::edit)))
        .routes(needs(Role::Operator, routes!(queues::control::control)))
        .routes(needs(Role::Viewer, routes!(buckets::list::buckets)))
        .routes(needs(Role::Operator, routes!(buckets::list::create)))
        .routes(needs(Role::Viewer, routes!(buckets::show::show)))
        .routes(needs(Role::Operator, routes!(buckets::control::delete)))
        .routes(needs(Role::Viewer, routes!(buckets::blob::show)))
        .routes(needs(Role::Operator, routes!(buckets::blob::delete)))
        .routes(needs(Role::Member, routes!(buckets::blob::link)))
        .routes(needs(Role::Operator, routes!(buckets::rules_control::put_rule)))
        .routes(needs(Role::Operator, routes!(buckets::rules_control::delete_rule)))
        .routes(needs(Role::Operator, routes!(buckets::rules_control::put_lifecycle)))
        .routes(needs(Role::Operator, routes!(buckets::rules_control::delete_lifecycle)))
        .routes(needs(Role::Operator, routes!(revive::revive)))
        .routes(needs(Needs::NOTHING, routes!(assets::style)))
        .routes(needs(Needs::NOTHING, routes!(assets::script)))
        .routes(needs(Needs::NOTHING, routes!(assets::buckets)))
        .routes(needs(Needs::NOTHING, routes!(assets::sql)))
        .routes(needs(Needs::NOTHING, routes!(assets::icon)))
}

/// The routes whose bodies are as large as a bucket allows.
pub(crate) fn large_routes() -> OpenApiRouter<Arc<Server>> {
    let routes = OpenApiRouter::default().routes(needs(Role::Member, routes!(buckets::upload::upload)));
    routes.layer(DefaultBodyLimit::disable())
}
