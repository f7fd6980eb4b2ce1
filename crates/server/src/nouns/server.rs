//! The server itself: health, metrics, its description, and `doctor`.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::Arc,
};

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use steadfast_api::{
    Code, RouteScope,
    server::{
        Alive, BlobCheck, Check, CheckBlobs, Examination, Examine, OverdueMessage, Overview,
        Readiness, ShowOverview, UnreadableBlob, Verdict,
    },
};
use steadfast_bucket::{CheckCursor, Checked};
use steadfast_core::queue::QueueView;
use steadfast_store::{DueCursor, Health, Work};
use steadfast_web::{Needs, Problem, Role, Web, needs};
use utoipa_axum::routes;

use crate::{
    args::DoctorArgs,
    cli::{
        client::Client,
        output::{Table, print, print_json},
    },
    doctor::{blobs::unreadable, examine},
    failure::Failure,
    metrics::Figures,
    operation::{ApiRoutes, fails_with},
    server::Server,
};

pub(crate) fn routes() -> ApiRoutes {
    let url = RouteScope::Url;
    ApiRoutes::default()
        .routes(url, fails_with([], needs(Needs::NOTHING, routes!(healthz))))
        .routes(url, fails_with([], needs(Needs::NOTHING, routes!(readyz))))
        .routes(url, fails_with([], needs(Role::Viewer, routes!(metrics))))
        .routes(url, fails_with([], needs(Role::Viewer, routes!(openapi))))
        .operation(overview)
        .operation(doctor)
        .operation(check_blobs)
}

/// Maximum number of queues with metrics. To choose them, the consumed queues and as many others by
/// name are read: each costs a read.
const QUEUES_MAX: usize = 100;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Report that the process is alive. Never reads the store.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, body = Alive)),
)]
pub(crate) async fn healthz() -> Json<Alive> {
    Json(Alive { status: "ok".into() })
}

/// Report whether the server accepts requests. The reason is in the log and in `doctor`.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses(
        (status = 200, body = Readiness, description = "Ready"),
        (status = 503, body = Readiness,
            description = "The store cannot write, or the server is stopping"),
    ),
)]
pub(crate) async fn readyz(State(server): State<Arc<Server>>) -> (StatusCode, Json<Readiness>) {
    // Callers need no credential: the log and `doctor` have the reason.
    let is_ready = server.runtime.store().health() == Health::Ready && !server.is_draining();
    let (code, status) = match is_ready {
        true => (StatusCode::OK, "ready"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    };
    (code, Json(Readiness { status: status.into() }))
}

/// Export the metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, body = String, content_type = CONTENT_TYPE)),
)]
pub(crate) async fn metrics(State(server): State<Arc<Server>>) -> Result<Response, Problem> {
    let figures = Figures {
        activity: server.runtime.store().activity(),
        // If the store is unavailable, the other metrics are still exported.
        totals: server.runtime.store().totals().await.ok(),
        ready: server.runtime.store().health() == Health::Ready,
        awake: server.runtime.objects().awake(),
        connections: server.runtime.objects().connections(),
        counters: counters(&server),
        queues: queues(&server).await.ok(),
    };
    let text = server.metrics.write(&figures);
    let text = text.map_err(|error| Problem::of(Code::Internal, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

/// The counters of the ports and of the applications.
fn counters(server: &Server) -> Vec<(&'static str, &'static str, u64)> {
    let web = server.runtime.extension::<Web>();
    let counters = web.map_or(&[][..], |it| &it.counters);
    let refused = server.transport.refused();
    let wrong = "Requests refused: their token, access key or signature was wrong";
    let own = [
        ("connections_refused", "Connections refused: their peer had too many", refused),
        ("credentials_refused", wrong, server.refused.count()),
    ];
    let of_applications = counters.iter().map(|it| (it.name, it.help, (it.value)()));
    let (checked, unreadable) = server.buckets().map_or((0, 0), |it| it.check_counts());
    let of_blobs = [
        ("blobs_checked", "Blobs read by checks of all contents", checked),
        ("blobs_unreadable", "Reads of blobs that were damaged or missing", unreadable),
    ];
    own.into_iter().chain(of_blobs).chain(of_applications).collect()
}

/// The queues with metrics, and whether others exist: the consumed ones, then those with messages
/// among the first by name, then the others of these.
async fn queues(server: &Server) -> Result<(Vec<QueueView>, bool), Problem> {
    let queues = server.runtime.queues();
    let page = queues.page(None, QUEUES_MAX).await?;
    let mut found = page.queues;
    for name in queues.consumed().take(QUEUES_MAX) {
        if !found.iter().any(|it| it.name == name) {
            found.push(queues.show(name).await?);
        }
    }
    let is_empty = |it: &QueueView| it.depth + it.dead == 0;
    found.sort_by_cached_key(|it| (!it.consumed, is_empty(it), it.name.clone()));
    let is_truncated = page.next.is_some() || QUEUES_MAX < found.len();
    found.truncate(QUEUES_MAX);
    Ok((found, is_truncated))
}

/// Overdue messages of the overview.
const OVERDUE_MAX: usize = 5;

pub(crate) async fn overview(server: Arc<Server>, _: ShowOverview) -> Result<Overview, Problem> {
    let (runtime, store) = (&server.runtime, server.runtime.store());
    let (totals, now) = (store.totals().await?, store.clock().now());
    let due = store.due(DueCursor::START, OVERDUE_MAX).await?;
    let targets: Vec<_> = due.iter().map(|it| it.target).collect();
    let addresses = store.addresses(&targets).await?;
    let overdue = |it: &Work| {
        let target = addresses.get(&it.target).filter(|_| it.due_at < now && !it.queued)?;
        let since = now.since(it.due_at).as_millis();
        let overdue_ms = u64::try_from(since).unwrap_or(u64::MAX);
        Some(OverdueMessage { message: it.position, target: target.to_string(), overdue_ms })
    };
    Ok(Overview {
        position: totals.position,
        pending: totals.pending.max(0).unsigned_abs(),
        dead: totals.dead.max(0).unsigned_abs(),
        overdue: due.iter().filter_map(overdue).collect(),
        classes: runtime.objects().classes().map(str::to_owned).collect(),
        workflows: runtime.runs().workflows().map(|(name, _)| name.to_owned()).collect(),
        processes: runtime.processes().names().map(str::to_owned).collect(),
    })
}

pub(crate) async fn doctor(server: Arc<Server>, it: Examine) -> Result<Examination, Problem> {
    Ok(examine(&server, it.deep).await)
}

/// Bytes of contents that one request reads, and reads per second.
const CHECKED_BYTES: u64 = 64 << 20;

pub(crate) async fn check_blobs(server: Arc<Server>, it: CheckBlobs) -> Result<BlobCheck, Problem> {
    let Ok(buckets) = server.buckets() else { return Ok(BlobCheck::default()) };
    let after = it.cursor.as_deref().map(serde_json::from_str).transpose();
    let after: Option<CheckCursor> = after.map_err(|_| {
        Problem::of(Code::InvalidInput, "`cursor` must be `next` of the request before")
    })?;
    let total = match after {
        None => Some(buckets.count_blobs().await?),
        Some(_) => None,
    };
    let Checked { blobs, bytes, named: unreadable, next, .. } =
        buckets.check(after, CHECKED_BYTES, CHECKED_BYTES).await?;
    let next = next.and_then(|it| serde_json::to_string(&it).ok());
    Ok(BlobCheck { total, blobs, bytes, unreadable, next })
}

/// Describe every route.
#[utoipa::path(get, path = "/openapi.json", tag = "server",
    responses((status = 200, body = serde_json::Value)),
)]
pub(crate) async fn openapi(State(server): State<Arc<Server>>) -> Response {
    let text = server.openapi.get().map_or_else(String::new, |it| it.to_string());
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Prints the checks; fails if one of them failed.
pub(crate) fn print_doctor(client: &Client, args: &DoctorArgs) -> Result<(), Failure> {
    let json = args.ask.json;
    let mut found = client.send(&args.examine, json)?;
    if args.examine.deep {
        let checked = read_blobs(client, json)?;
        found.ok &= checked.status != Verdict::Failed;
        found.checks.retain(|it| it.name != checked.name);
        found.checks.push(checked);
    }
    if json {
        print_json(&serde_json::to_string(&found).map_err(std::io::Error::from)?)?;
    } else {
        let mut table = Table::new(&["CHECK", "STATUS", "DETAIL"]);
        for it in found.checks {
            table.row([it.name, it.status.name().into(), it.detail]);
        }
        print(&table.write())?;
    }
    if found.ok { Ok(()) } else { Err(Failure::Quiet) }
}

/// Reads the contents of all blobs, with a progress bar on a terminal.
fn read_blobs(client: &Client, json: bool) -> Result<Check, Failure> {
    let (mut total, mut blobs, mut bytes) = (0, 0, 0);
    let mut found: Vec<UnreadableBlob> = Vec::new();
    let mut cursor = None;
    loop {
        let part = client.send(&CheckBlobs { cursor }, json)?;
        (blobs, bytes) = (blobs + part.blobs, bytes + part.bytes);
        total = part.total.unwrap_or(total).max(blobs);
        found.extend(part.unreadable);
        show(&bar(blobs, total, bytes));
        cursor = part.next;
        if cursor.is_none() {
            break;
        }
    }
    show("");
    if found.is_empty() {
        let detail = format!("{blobs} blobs have the bytes that were written");
        return Ok(Check::ok("blobs", detail));
    }
    let names = found.iter().map(|it| format!("{}/{} ({})", it.bucket, it.key, it.code));
    Ok(Check::failed("blobs", unreadable(found.len() as u64, names)))
}

/// Replaces the line on a terminal.
fn show(line: &str) {
    let mut stderr = stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{line}");
        let _ = stderr.flush();
    }
}

fn bar(blobs: u64, total: u64, bytes: u64) -> String {
    const WIDTH: u64 = 30;
    let done = (WIDTH * blobs).checked_div(total).unwrap_or(WIDTH) as usize;
    let (full, rest) = ("=".repeat(done), " ".repeat(WIDTH as usize - done));
    format!("blobs [{full}{rest}] {blobs} of {total}, {} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use serde_json::Value;
    use steadfast_bucket::MemoryBlobs;
    use steadfast_core::{
        App, Consumer, Delivery, Queue, QueueSettings, Result,
        queue::{Outgoing, Settled},
    };
    use steadfast_store::{Json as Text, MemoryStore, Store, SystemClock};
    use steadfast_web::{Needs, Role, Routes, Serve};
    use tower::ServiceExt;

    use super::*;
    use crate::{failure::Failure, location::Location, server::Policy};

    #[tokio::test]
    async fn an_application_with_a_route_of_the_server_does_not_start() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let mut app = App::new("test").routes("", || {
            Routes::<()>::new("own")
                .get("/healthz", Needs::NOTHING, "Says that it is well", async || "")
                .get("/v1/objects/{kind}", Role::Viewer, "Lists them", async || "")
        });
        let location = Location::Folder("memory".into());
        crate::app::claim_routes(&mut app);
        let refused = Server::prepare(app, store.clone(), location, Policy::Loopback).await.err();
        let Some(Failure::Message(text)) = refused else { panic!("it started") };
        assert!(text.contains("route `/healthz` is declared by"), "{text}");
        assert!(text.contains("route `/v1/objects/{}` is declared by"), "{text}");
        assert_eq!(store.activity().commits, 0);
    }

    /// Handles messages without effect.
    struct Idle;

    impl Consumer for Idle {
        type Message = Value;

        async fn deliver(&self, delivery: Delivery<Value>) -> Result<Settled> {
            Ok(delivery.done())
        }
    }

    #[tokio::test]
    async fn consumed_and_nonempty_queues_have_metrics_before_others() {
        const LAST: Queue<Value> = Queue::named("z");
        let app = App::new("test").queue(LAST).consume(LAST, Idle);
        let program = app.test().await.unwrap();
        for number in 0..150 {
            let name = format!("a-{number:03}");
            program.queues().configure(&name, QueueSettings::default()).await.unwrap();
        }
        let message = Outgoing { body: Text::empty(), delay: Duration::ZERO };
        program.queues().send_json("a-099", vec![message], None).await.unwrap();
        let site = crate::http::router(&program, Policy::HostDecides).unwrap();
        let asked = Request::get("/metrics").body(Body::empty()).unwrap();
        let answer = site.oneshot(asked).await.unwrap();
        let text = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        let has = |name: &str| text.contains(&format!("queue_depth{{queue=\"{name}\"}}"));
        assert!(has("z") && has("a-099") && has("a-000") && has("a-097"), "{text}");
        assert!(!has("a-098") && !has("a-100"), "{text}");
        assert!(text.contains("queues_truncated 1"), "{text}");
    }

    #[tokio::test]
    async fn a_draining_server_is_not_ready() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let app = App::new("test");
        let app = app.blobs(Arc::new(MemoryBlobs::default()));
        let location = Location::Folder("memory".into());
        let server = Server::prepare(app, store, location, Policy::Loopback).await.unwrap();
        let server = Arc::new(server);
        assert_eq!(readyz(State(server.clone())).await.0, StatusCode::OK);
        server.drain();
        let (status, Json(body)) = readyz(State(server)).await;
        assert_eq!((status, &*body.status), (StatusCode::SERVICE_UNAVAILABLE, "not ready"));
    }

    #[test]
    fn the_bar_grows_to_its_end() {
        assert_eq!(bar(0, 0, 0), format!("blobs [{}] 0 of 0, 0 MiB", "=".repeat(30)));
        let half = format!("{}{}", "=".repeat(15), " ".repeat(15));
        assert_eq!(bar(2, 4, 3 << 20), format!("blobs [{half}] 2 of 4, 3 MiB"));
    }
}
