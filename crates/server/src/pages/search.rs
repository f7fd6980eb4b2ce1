//! Search across all nouns by id or name. Lists are read by operations; declared names, names of
//! queues and addresses of entities have none. Every read has a limit.

use std::sync::Arc;

use axum::extract::State;
use maud::{Markup, html};
use serde::Deserialize;
use steadfast_api::{Limit, buckets::ListBuckets, objects::ListObjects, runs::ListRuns};
use steadfast_store::{Address, EntityId, EntityKind, Position};
use steadfast_web::{
    Page, Params, Problem,
    console::{Section, console},
    escaped,
};

use super::{
    components::{column, empty, link, table, text},
    links::{bucket_path, href_of, object_path, queue_path, run_path},
};
use crate::{nouns, server::Server};

/// Maximum results per noun, class or workflow.
const ROWS: usize = 10;
const LIMIT: u32 = 10;

/// Maximum number of classes, workflows and queues to search, by name.
const NAMES_MAX: usize = 50;

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
    let mut hits = by_id(server, text).await?;
    hits.extend(named(server, text).await?);
    hits.extend(instances(server, text).await?);
    hits.extend(found_objects(server, text).await?);
    hits.extend(found_runs(server, text).await?);
    Ok(hits)
}

/// A message by its number, and an entity by its id or address.
async fn by_id(server: &Server, text: &str) -> Result<Vec<Hit>, Problem> {
    let store = server.runtime.store();
    let mut hits = Vec::new();
    if let Ok(position) = text.trim_start_matches('#').parse::<Position>()
        && let Some(it) = store.message(position).await?
    {
        let label = format!("{} #{position}", it.message_type);
        hits.push(Hit::new("message", label, format!("/v1/messages/{position}")));
        let label = format!("version {} of stream {}", it.version, it.stream);
        hits.push(Hit::new("stream", label, format!("/streams/{}", it.stream)));
    }
    let address = text.parse::<Address>().ok().map(|it| it.id());
    if let Some(id) = EntityId::from_hex(text).or(address)
        && let Some(address) = store.addresses(&[id]).await?.get(&id)
    {
        hits.push(Hit::new(noun(address.kind()), address.to_string(), href_of(server, address)));
        hits.push(Hit::new("stream", address.to_string(), format!("/streams/{id}")));
    }
    Ok(hits)
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
async fn named(server: &Arc<Server>, text: &str) -> Result<Vec<Hit>, Problem> {
    let runtime = &server.runtime;
    let has = |it: &&str| it.contains(text);
    let mut hits = Vec::new();
    for it in runtime.objects().classes().filter(has).take(ROWS) {
        hits.push(Hit::new("class of objects", it, format!("/objects/{}", escaped(it))));
    }
    for it in runtime.runs().workflows().map(|it| it.0).filter(has).take(ROWS) {
        hits.push(Hit::new("workflow", it, format!("/workflows/{}", escaped(it))));
    }
    for it in runtime.processes().names().filter(has).take(ROWS) {
        hits.push(Hit::new("process", it, format!("/processes/{}", escaped(it))));
    }
    let mut queues = runtime.queues().names_behind(None, NAMES_MAX).await?;
    // Queues beyond the limit are found by prefix.
    let behind = runtime.queues().names_behind(Some(text), ROWS).await?;
    queues.extend(behind.into_iter().filter(|it| it.starts_with(text)));
    if runtime.queues().show(text).await.is_ok() {
        queues.push(text.into());
    }
    queues.sort_unstable();
    queues.dedup();
    for it in queues.iter().filter(|it| it.contains(text)).take(ROWS) {
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

/// Instances of processes with this id.
async fn instances(server: &Server, text: &str) -> Result<Vec<Hit>, Problem> {
    let names = server.runtime.processes().names().take(NAMES_MAX);
    let all = names.filter_map(|it| Address::new(EntityKind::Process, it, text).ok());
    let ids: Vec<EntityId> = all.map(|it| it.id()).collect();
    let found = server.runtime.store().addresses(&ids).await?;
    let hit = |it: &Address| Hit::new("process", it.to_string(), href_of(server, it));
    Ok(found.values().map(hit).collect())
}

/// Objects whose names have this prefix.
async fn found_objects(server: &Arc<Server>, text: &str) -> Result<Vec<Hit>, Problem> {
    let mut hits = Vec::new();
    for class in server.runtime.objects().classes().take(NAMES_MAX) {
        let (class, prefix) = (class.to_owned(), Some(text.to_owned()));
        let asked = ListObjects { class, prefix, limit: Limit::of(LIMIT), cursor: None };
        let class = asked.class.clone();
        for it in nouns::objects::list(server.clone(), asked).await?.items {
            let label = format!("{class}/{}", it.name);
            hits.push(Hit::new("object", label, object_path(&class, &it.name)));
        }
    }
    Ok(hits)
}

/// Runs whose ids have this prefix.
async fn found_runs(server: &Arc<Server>, text: &str) -> Result<Vec<Hit>, Problem> {
    let mut hits = Vec::new();
    for (workflow, _) in server.runtime.runs().workflows().take(NAMES_MAX) {
        let (prefix, limit) = (Some(text.to_owned()), Limit::of(LIMIT));
        let asked = ListRuns { workflow: workflow.into(), prefix, limit, ..ListRuns::default() };
        let page = nouns::runs::list(server.clone(), asked).await?;
        for it in page.items {
            let label = format!("{workflow}/{}", it.id);
            hits.push(Hit::new("run", label, run_path(workflow, &it.id)));
        }
    }
    Ok(hits)
}
