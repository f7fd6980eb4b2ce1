//! The shipped server: three applications, and smaller ones as examples.

#[cfg(test)]
mod matrix;
mod new;

use std::process::ExitCode;

use steadfast::{App, Result, web::Serve};

/// Threads often free memory of other threads, for which they contend in the allocator of glibc.
/// SQLite still uses that one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app(
    uploads: steadfast_uploads::Settings,
    generations: steadfast_generations::Settings,
    drift: steadfast_drift::Settings,
) -> Result<App> {
    Ok(App::new("steadfast")
        .verb("new", |_, args| new::run(&args))
        .merge(steadfast_counter::app())
        .merge(steadfast_chat::app())
        .merge(steadfast_order::app())
        .merge(steadfast_mail::app())
        .merge(steadfast_checkout::app())
        .merge(steadfast_drift::app(drift)?)
        .merge(steadfast_generations::app(generations)?)
        .merge(steadfast_uploads::app(uploads)?))
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Arc};

    use axum::{
        body::{Body, to_bytes},
        http::{Request, StatusCode},
    };
    use clap::{Arg, Args, Command};
    use serde_json::Value;
    use steadfast::{
        Runtime,
        bucket::MemoryBlobs,
        http::{Policy, route_table, router},
        store::{MemoryStore, SystemClock},
        web::RouteKind,
    };
    use tower::ServiceExt;

    use super::*;

    pub(super) fn settings<S: Args>() -> S {
        let data = Arg::new("data").default_value("./data");
        let data = data.value_parser(clap::value_parser!(PathBuf));
        let command = S::augment_args(Command::new("settings")).arg(data);
        S::from_arg_matches(&command.get_matches_from(["settings"])).expect("all have defaults")
    }

    async fn shipped() -> Runtime {
        let app = app(settings(), settings(), settings()).expect("it can be declared");
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        app.blobs(Arc::new(MemoryBlobs::default())).prepare(store).await.expect("it opens")
    }

    #[tokio::test]
    async fn every_route_is_in_the_table_with_its_role_and_is_served() {
        let runtime = shipped().await;
        let table = route_table(&runtime).expect("the routes can be together");
        let site = router(&runtime, Policy::HostDecides).expect("the routes can be together");
        let pages = table.entries().iter().filter(|it| it.kind == RouteKind::Page).count();
        let of_apps = table.entries().iter().filter(|it| it.owner.is_some()).count();
        assert!(100 < table.entries().len() && 40 < pages && 40 < of_apps, "{table:?}");
        for it in table.entries() {
            // Only nouns of the document have a page; elsewhere an unknown name is enough.
            let path = it.path.replace("{noun}", "queues").replace("{*", "{");
            let path = path.replace(['{', '}'], "");
            let request = Request::builder().method(&*it.method).uri(&path).header("host", "h");
            let request = request.body(Body::empty()).expect("a request");
            let response = site.clone().oneshot(request).await.expect("an answer");
            assert_ne!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{} {path}", it.method);
            let kind = response.headers().get("content-type").cloned();
            if kind.is_some_and(|it| it == "application/problem+json") && it.method != "HEAD" {
                let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
                let problem: Value = serde_json::from_slice(&body).expect("a problem");
                assert_ne!(problem["code"], "route_not_found", "{} {path}", it.method);
            }
            let is_changing = !matches!(&*it.method, "GET" | "HEAD");
            let by_viewers = it.needs.role() == Some(steadfast::web::Role::Viewer);
            // SQL queries only read, although they use POST. Login links and sessions are of the
            // same token.
            let may = ["/query", "/sql", "/login-links", "/sessions/{id}", "/sessions/{id}/end"];
            let may = may.iter().any(|end| it.path.ends_with(end));
            assert!(!is_changing || !by_viewers || may, "{} {path}: viewers", it.method);
        }
    }

    #[tokio::test]
    async fn every_route_for_everybody_is_named_in_the_page_about_security() {
        let page = include_str!("../../SECURITY.md");
        let table = route_table(&shipped().await).expect("the routes can be together");
        let open = table.entries().iter().filter(|it| it.needs.role().is_none());
        for route in open {
            let end = route.path.rsplit('.').next().unwrap_or_default();
            let is_asset = ["css", "js", "svg"].contains(&end);
            let name =
                if is_asset { "static assets".to_owned() } else { format!("`{}`", route.path) };
            assert!(page.contains(&name), "{} is for everybody", route.path);
        }
    }

    #[tokio::test]
    async fn every_operation_of_the_openapi_document_has_a_role() {
        let runtime = shipped().await;
        let table = route_table(&runtime).expect("the routes can be together");
        let site = router(&runtime, Policy::HostDecides).expect("the routes can be together");
        let request = Request::get("/openapi.json").body(Body::empty()).expect("a request");
        let response = site.oneshot(request).await.expect("an answer");
        let body = to_bytes(response.into_body(), 4 << 20).await.expect("a body");
        let document: Value = serde_json::from_slice(&body).expect("JSON");
        let mut described = 0;
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                assert!(operation["x-needs-role"].is_string(), "{method} {path}");
                described += 1;
            }
        }
        let is_described = |it: &&steadfast::web::RouteEntry| it.kind == RouteKind::Operation;
        assert_eq!(described, table.entries().iter().filter(is_described).count());
    }
}
