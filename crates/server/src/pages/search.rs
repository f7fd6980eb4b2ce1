//! Search across all nouns by id or name. It calls operations. Every read has a limit.

use std::{collections::BTreeSet, sync::Arc};

use axum::{extract::State, http::StatusCode};
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::{
    Limit,
    buckets::ListBuckets,
    objects::ListObjects,
    queues::{ListQueues, ShowQueue},
    runs::ListRuns,
    server::{Overview, ShowOverview},
    streams::{ShowMessage, ShowStream},
};
use steadfast_store::{Address, EntityKind, Position};
use steadfast_web::{
    Cursor, Page, Params, Problem,
    console::{Section, console},
    escaped,
};

use super::{
    components::{column, empty, link, table, text},
    links::{bucket_path, href_of, object_path, queue_path, run_path},
};
use crate::{
    nouns::{self, streams},
    path,
    server::Server,
};

/// Maximum results per noun, class or workflow.
const ROWS: usize = 10;
const LIMIT: u32 = 10;

/// Maximum number of classes, workflows and queues to search, by name.
const NAMES_MAX: u32 = 50;

/// Maximum number of buckets to search, by name.
const BUCKETS_MAX: u32 = 500;

/// The query of the search.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchParams {
    /// An id, a name or a prefix of a name.
    #[serde(default)]
    q: String,
}

/// One result.
#[derive(Debug, PartialEq, Eq)]
struct Hit {
    noun: &'static str,
    label: String,
    href: String,
}

impl Hit {
    fn new(noun: &'static str, label: impl Into<String>, href: String) -> Self {
        Self { noun, label: label.into(), href }
    }
}

/// Shows the results.
pub(super) async fn search(
    State(server): State<Arc<Server>>,
    Params(SearchParams { q }): Params<SearchParams>,
) -> Result<Page, Problem> {
    let wanted = q.trim();
    let hits = if wanted.is_empty() { Vec::new() } else { find(&server, wanted).await? };
    let content = html! {
        h1 { "Search" }
        @if wanted.is_empty() {
            p.lead {
                "Search for the name of an object, a queue or a bucket, the id of a run, the "
                "address of a stream, or the number of a message."
            }
        } @else if hits.is_empty() {
            (empty(&format!("No result for “{wanted}”"), &html! {
                p {
                    "Objects and runs are found by the beginning of their names, queues and "
                    "buckets by a part of it, streams by address (kind/class/name)."
                }
            }))
        } @else {
            p.lead.address { "Results for “" (wanted) "”" }
            (hit_table(&hits))
        }
    };
    Ok(console("Search", Section::None, content))
}

fn hit_table(hits: &[Hit]) -> Markup {
    let row = |it: &Hit| [link(&it.href, &it.label), text(it.noun)];
    table(&[column("Name"), column("Kind")], hits.iter().map(row))
}

async fn find(server: &Arc<Server>, text: &str) -> Result<Vec<Hit>, Problem> {
    let declared = nouns::server::overview(server.clone(), ShowOverview {}).await?;
    let mut hits = by_id(server, text).await?;
    hits.extend(named(server, &declared, text).await?);
    hits.extend(instances(server, &declared.processes, text).await?);
    hits.extend(found_objects(server, &declared.classes, text).await?);
    hits.extend(found_runs(server, &declared.workflows, text).await?);
    Ok(hits)
}

/// A message by its number, and an entity by its id or address.
async fn by_id(server: &Arc<Server>, text: &str) -> Result<Vec<Hit>, Problem> {
    let mut hits = Vec::new();
    if let Ok(message) = text.trim_start_matches('#').parse::<Position>()
        && let Some(it) = known(streams::message(server.clone(), ShowMessage { message }).await)?
    {
        let it = it.message;
        let label = format!("{} #{message}", it.type_);
        hits.push(Hit::new("message", label, format!("/v1/messages/{message}")));
        let label = format!("version {} of stream {}", it.position, it.stream_id());
        hits.push(Hit::new("stream", label, format!("/streams/{}", it.stream_id())));
    }
    if let Some((id, address)) = stream(server, text).await? {
        hits.push(Hit::new(noun(address.kind()), address.to_string(), href_of(server, &address)));
        hits.push(Hit::new("stream", address.to_string(), format!("/streams/{id}")));
    }
    Ok(hits)
}

/// The id and the address of a stream, by one of them.
async fn stream(server: &Arc<Server>, text: &str) -> Result<Option<(String, Address)>, Problem> {
    if path::stream(text).is_err() {
        return Ok(None);
    }
    let asked = ShowStream { id: text.into(), limit: Limit::of(1), cursor: None };
    let found = known(streams::show(server.clone(), asked).await)?;
    Ok(found.and_then(|it| Some((it.id, it.address.parse().ok()?))))
}

/// The response of an operation; `None` if nothing was found.
fn known<T>(found: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match found {
        Err(problem) if problem.status() == StatusCode::NOT_FOUND => Ok(None),
        found => found.map(Some),
    }
}

fn noun(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Object => "object",
        EntityKind::Run => "run",
        EntityKind::Process => "process",
        EntityKind::Queue => "queue",
        EntityKind::Bucket => "bucket",
        EntityKind::Stream | EntityKind::System => "stream",
    }
}

/// Declared classes, workflows, processes and queues, and buckets.
async fn named(server: &Arc<Server>, declared: &Overview, text: &str) -> Result<Vec<Hit>, Problem> {
    let mut hits = Vec::new();
    for (noun, path, names) in [
        ("class of objects", "objects", &declared.classes),
        ("workflow", "workflows", &declared.workflows),
        ("process", "processes", &declared.processes),
    ] {
        for it in names.iter().filter(|it| it.contains(text)).take(ROWS) {
            hits.push(Hit::new(noun, it, format!("/{path}/{}", escaped(it))));
        }
    }
    for it in queues(server, text).await?.iter().filter(|it| it.contains(text)).take(ROWS) {
        hits.push(Hit::new("queue", it, queue_path(it)));
    }
    if server.buckets().is_ok() {
        let asked = ListBuckets { limit: Limit::of(BUCKETS_MAX), ..ListBuckets::default() };
        let all = nouns::buckets::list(server.clone(), asked).await?.items;
        let names = all.into_iter().map(|it| it.name.to_string());
        for it in names.filter(|it| it.contains(text)).take(ROWS) {
            hits.push(Hit::new("bucket", &*it, bucket_path(&it)));
        }
    }
    Ok(hits)
}

/// The names of the first queues, and of those that begin with a text.
async fn queues(server: &Arc<Server>, text: &str) -> Result<BTreeSet<String>, Problem> {
    let asked = ListQueues { limit: Limit::of(NAMES_MAX), ..ListQueues::default() };
    let first = nouns::queues::list(server.clone(), asked).await?.items;
    let behind = Some(Cursor::Name(text.into()).encode());
    let asked = ListQueues { limit: Limit::of(LIMIT), cursor: behind };
    let behind = nouns::queues::list(server.clone(), asked).await?.items;
    let same = nouns::queues::show(server.clone(), ShowQueue { queue: text.into() }).await;
    let behind = behind.into_iter().filter(|it| it.name.starts_with(text));
    Ok(first.into_iter().chain(behind).chain(same).map(|it| it.name).collect())
}

/// Instances of processes with this id.
async fn instances(
    server: &Arc<Server>,
    processes: &[String],
    text: &str,
) -> Result<Vec<Hit>, Problem> {
    let mut hits = Vec::new();
    for name in processes.iter().take(NAMES_MAX as usize) {
        let found = stream(server, &format!("process/{name}/{text}")).await?;
        let hit = |(_, it): (_, Address)| Hit::new("process", it.to_string(), href_of(server, &it));
        hits.extend(found.map(hit));
    }
    Ok(hits)
}

/// Objects whose names have this prefix.
async fn found_objects(
    server: &Arc<Server>,
    classes: &[String],
    text: &str,
) -> Result<Vec<Hit>, Problem> {
    let mut hits = Vec::new();
    for class in classes.iter().take(NAMES_MAX as usize) {
        let (of, prefix) = (class.clone(), Some(text.to_owned()));
        let asked = ListObjects { class: of, prefix, limit: Limit::of(LIMIT), cursor: None };
        for it in nouns::objects::list(server.clone(), asked).await?.items {
            let label = format!("{class}/{}", it.name);
            hits.push(Hit::new("object", label, object_path(class, &it.name)));
        }
    }
    Ok(hits)
}

/// Runs whose ids have this prefix.
async fn found_runs(
    server: &Arc<Server>,
    workflows: &[String],
    text: &str,
) -> Result<Vec<Hit>, Problem> {
    let mut hits = Vec::new();
    for name in workflows.iter().take(NAMES_MAX as usize) {
        let (workflow, prefix, limit) = (name.clone(), Some(text.to_owned()), Limit::of(LIMIT));
        let asked = ListRuns { workflow, prefix, limit, ..ListRuns::default() };
        for it in nouns::runs::list(server.clone(), asked).await?.items {
            hits.push(Hit::new("run", format!("{name}/{}", it.id), run_path(name, &it.id)));
        }
    }
    Ok(hits)
}
