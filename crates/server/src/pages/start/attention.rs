//! The part of the overview that needs a person: what fails, what is stuck, what waits longest.
//! Every read has a limit but that of the names of queues.

use std::{cmp::Reverse, time::Duration};

use maud::{Markup, html};
use steadfast_core::{
    queue::QueueView,
    workflow::{Phase, RunItem, RunQuery},
};
use steadfast_store::{Address, DueCursor, EntityKind, Recorded, Timestamp};

use super::super::{link::href_of, queues, table::time, workflows};
use crate::{api::problem::Problem, server::Server, waterfall::words};

/// Rows of each list.
const ROWS: usize = 5;

/// Workflows and queues that are read, by name; a program with more of them is not read whole.
const NAMES_MAX: usize = 50;

/// The record of a longer run is not read to say why it is stuck: its page does.
const ENTRIES_MAX: i64 = 500;

/// What the overview shows of runs, messages and queues.
pub(super) struct Attention {
    failed: Vec<RunItem>,
    /// One more than is shown, if there are more.
    dead: Vec<Recorded>,
    stuck: Vec<Stuck>,
    waiting: Vec<Waiting>,
}

struct Stuck {
    href: String,
    label: String,
    why: String,
}

struct Waiting {
    href: String,
    label: String,
    age: Duration,
}

impl Attention {
    pub(super) async fn read(server: &Server) -> Result<Self, Problem> {
        let now = server.runtime.store().clock().now();
        let queues = read_queues(server).await?;
        Ok(Self {
            failed: runs(server, Phase::Errored).await?,
            dead: server.runtime.store().dead(0, ROWS + 1).await?,
            stuck: stuck(server, &queues).await?,
            waiting: waiting(server, &queues, now).await?,
        })
    }

    pub(super) fn shown(&self) -> Markup {
        html! {
            section.columns.three {
                (self.failing())
                (self.stuck())
                (self.longest())
            }
        }
    }

    fn failing(&self) -> Markup {
        html! {
            section.card {
                h2 { "Failing" }
                @if self.failed.is_empty() && self.dead.is_empty() {
                    p.quiet { "No failed run and no dead message." }
                }
                ul.links {
                    @for it in &self.failed {
                        li {
                            a.address href=(workflows::path_of(&it.workflow, &it.id)) {
                                (it.workflow) "/" (it.id)
                            }
                            span { "failed " (time(&it.changed_at.to_string())) }
                        }
                    }
                    @for it in self.dead.iter().take(ROWS) {
                        li {
                            a.address href={ "/streams/" (it.stream) } {
                                (it.message_type) " #" (it.position)
                            }
                            span { (it.last_error.as_deref().unwrap_or("dead")) }
                        }
                    }
                }
                @if ROWS < self.dead.len() {
                    p { a href="/streams/dead" { "All dead messages" } }
                }
            }
        }
    }

    fn stuck(&self) -> Markup {
        html! {
            section.card {
                h2 { "Stuck" }
                @if self.stuck.is_empty() { p.quiet { "No paused run and no paused queue." } }
                ul.links {
                    @for it in &self.stuck {
                        li { a.address href=(it.href) { (it.label) } span { (it.why) } }
                    }
                }
            }
        }
    }

    fn longest(&self) -> Markup {
        html! {
            section.card {
                h2 { "Waiting longest" }
                @if self.waiting.is_empty() { p.quiet { "Nothing is overdue." } }
                ul.links {
                    @for it in &self.waiting {
                        li {
                            a.address href=(it.href) { (it.label) }
                            span { (words(i64::try_from(it.age.as_millis()).unwrap_or(i64::MAX))) }
                        }
                    }
                }
            }
        }
    }
}

/// The latest runs of all workflows with one status.
async fn runs(server: &Server, status: Phase) -> Result<Vec<RunItem>, Problem> {
    let mut found = Vec::new();
    for (workflow, _) in server.runtime.runs().workflows().take(NAMES_MAX) {
        let query = RunQuery {
            workflow: workflow.into(),
            status: Some(status),
            limit: ROWS,
            ..RunQuery::default()
        };
        found.extend(server.runtime.runs().list(&query).await?.items);
    }
    found.sort_by_key(|it| Reverse(it.changed_at.0));
    found.truncate(ROWS);
    Ok(found)
}

async fn read_queues(server: &Server) -> Result<Vec<QueueView>, Problem> {
    let mut found = Vec::new();
    for name in server.runtime.queues().names().await?.iter().take(NAMES_MAX) {
        found.push(server.runtime.queues().show(name).await?);
    }
    Ok(found)
}

async fn stuck(server: &Server, all: &[QueueView]) -> Result<Vec<Stuck>, Problem> {
    let mut stuck = Vec::new();
    for it in runs(server, Phase::Paused).await? {
        let href = workflows::path_of(&it.workflow, &it.id);
        let label = format!("{}/{}", it.workflow, it.id);
        stuck.push(Stuck { href, label, why: why(server, &it).await });
    }
    for it in all.iter().filter(|it| it.paused && 0 < it.depth.waiting()) {
        let href = queues::path_of(&it.name);
        let why = format!("paused; {} messages wait", it.depth.waiting());
        stuck.push(Stuck { href, label: it.name.clone(), why });
    }
    for it in all.iter().filter(|it| 0 < it.depth.dead) {
        let href = format!("{}?state=dead", queues::path_of(&it.name));
        let why = format!("{} dead messages; redrive or purge them", it.depth.dead);
        stuck.push(Stuck { href, label: it.name.clone(), why });
    }
    stuck.truncate(2 * ROWS);
    Ok(stuck)
}

/// Why a run is paused, if its record is short enough to be read here.
async fn why(server: &Server, run: &RunItem) -> String {
    let address = Address::new(EntityKind::Run, &run.workflow, &run.id);
    let version = match address {
        Ok(address) => server.runtime.store().version(address.id()).await.unwrap_or(i64::MAX),
        Err(_) => i64::MAX,
    };
    if ENTRIES_MAX < version {
        return "paused".into();
    }
    let view = server.runtime.runs().look(&run.workflow, &run.id).await;
    let why = view.ok().and_then(|it| it.waiting.first().map(|it| it.why.replace('`', "")));
    why.unwrap_or_else(|| "paused".into())
}

/// Overdue messages, and the oldest messages of queues.
async fn waiting(
    server: &Server,
    all: &[QueueView],
    now: Timestamp,
) -> Result<Vec<Waiting>, Problem> {
    let store = server.runtime.store();
    let overdue = store.due(DueCursor::START, ROWS).await?;
    let targets: Vec<_> = overdue.iter().map(|it| it.target).collect();
    let addresses = store.addresses(&targets).await?;
    let mut waiting: Vec<Waiting> = all
        .iter()
        .filter_map(|it| {
            let href = queues::path_of(&it.name);
            Some(Waiting { href, label: format!("queue {}", it.name), age: it.oldest_age? })
        })
        .collect();
    for it in overdue.iter().filter(|it| it.due_at < now && !it.queued) {
        let Some(address) = addresses.get(&it.target) else { continue };
        let label = format!("message {} for {address}", it.position);
        waiting.push(Waiting { href: href_of(server, address), label, age: now.since(it.due_at) });
    }
    waiting.sort_by_key(|it| Reverse(it.age));
    waiting.truncate(ROWS);
    Ok(waiting)
}
