//! The nouns of the platform. The module of a noun has its operations with their handlers, the
//! columns of its lists, its pages in the console, and its verbs on the command line.

mod audit;
pub(crate) mod buckets;
mod keys;
pub(crate) mod objects;
mod processes;
pub(crate) mod queues;
mod quotas;
pub(crate) mod runs;
pub(crate) mod server;
mod sessions;
pub(crate) mod streams;
pub(crate) mod tokens;

use crate::{cli::Noun, operation::ApiRoutes, pages::PageRoute};

/// The routes for programs. Undocumented routes cannot be added here.
pub(crate) fn routes() -> ApiRoutes {
    server::routes()
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

/// The routes for programs whose bodies have no fixed limit.
pub(crate) fn large_routes() -> ApiRoutes {
    buckets::large_routes()
}

/// The pages of the console. They are not in the OpenAPI document.
pub(crate) fn pages() -> Vec<PageRoute> {
    let mut all = Vec::new();
    all.extend(objects::pages());
    all.extend(processes::pages());
    all.extend(queues::pages());
    all.extend(runs::pages());
    all.extend(streams::pages());
    all.extend(buckets::pages());
    all.extend(sessions::pages());
    all.extend(audit::pages());
    all.extend(quotas::pages());
    all
}

/// The verbs of the command line, which send operations.
pub(crate) fn verbs() -> Vec<Noun> {
    vec![
        streams::verbs(),
        processes::verbs(),
        objects::verbs(),
        runs::verbs(),
        queues::verbs(),
        buckets::verbs(),
        keys::verbs(),
        tokens::verbs(),
        sessions::verbs(),
        audit::verbs(),
        quotas::verbs(),
    ]
}

#[cfg(test)]
mod tests {
    use steadfast_api::{Operation, Role, runs::SendEvent};

    use super::*;

    #[test]
    fn a_changing_page_needs_more_than_a_viewer() {
        for route in pages() {
            let verb = route.path.rsplit('/').next().unwrap_or_default();
            let changes = ["pause", "resume", "purge", "redrive", "edit", "revive", "retry"];
            let changes = changes.contains(&verb) || ["delete", "upload", "call"].contains(&verb);
            assert!(!changes || Some(Role::Viewer) < route.needs.role(), "{}", route.path);
        }
        let role = |path: &str| pages().iter().find(|it| it.path == path).map(|it| it.needs.role());
        assert_eq!(role("/queues/{q}/purge"), Some(Some(Role::Operator)));
        assert_eq!(role("/queues/{q}"), Some(Some(Role::Viewer)));
        assert_eq!(role("/workflows/{name}/{id}/events"), Some(Some(SendEvent::NEEDS)));
    }
}
