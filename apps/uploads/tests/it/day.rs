//! A day of uploads: images come, are replaced and deleted, the model and the queue are away for a
//! while, runs are terminated, and the process ends without a clean shutdown. In the end the rows
//! are exactly what the bucket says.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use steadfast_core::{
    App, Consumer, Delivery, Error, Object, Result, Settled,
    bucket::ListOptions,
    store::{Entropy, RunStatus, SeededEntropy},
    test::TestApp,
};
use steadfast_uploads::{
    GetUploads, HideUpload, Ingestion, OrganizationAgent, RetryUpload, Status, UPLOAD_EVENTS,
    UPLOAD_EVENTS_DLQ, UPLOADS, Upload, UploadEvent,
};
use steadfast_world::World;

use crate::stage::{ACME, Fake, program_with, put};

/// Changes that are made before anything else happens.
const BATCH: usize = 10;

/// Images of a day: 10,000 if `STEADFAST_SOAK` is set, else so many.
fn images(otherwise: usize) -> usize {
    std::env::var_os("STEADFAST_SOAK").map_or(otherwise, |_| 10_000)
}

/// Takes events in, unless it is away.
struct Queue {
    ingestion: Ingestion,
    is_away: Arc<AtomicBool>,
}

impl Consumer for Queue {
    type Message = UploadEvent;

    async fn deliver(&self, delivery: Delivery<UploadEvent>) -> Result<Settled> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(Error::retryable("the consumer is away")),
            false => self.ingestion.deliver(delivery).await,
        }
    }
}

struct Day {
    world: World,
    chance: SeededEntropy,
    model: Fake,
    queue: Arc<AtomicBool>,
    names: usize,
    clients: Clients,
}

/// The contents that the clients expect under a name, `None` for nothing. It is one content, unless
/// the process ended before it had answered.
#[derive(Default)]
struct Clients(RefCell<BTreeMap<String, Vec<Option<&'static str>>>>);

impl Clients {
    fn asks(&self, name: &str, bytes: Option<&'static str>) {
        let mut all = self.0.borrow_mut();
        all.entry(name.to_owned()).or_insert_with(|| vec![None]).push(bytes);
    }

    fn hears(&self, name: &str, bytes: Option<&'static str>) {
        self.0.borrow_mut().insert(name.to_owned(), vec![bytes]);
    }

    /// Whether they may find this under a name.
    fn expect(&self, name: &str, bytes: Option<&str>) -> bool {
        match self.0.borrow().get(name) {
            Some(possible) => possible.contains(&bytes),
            None => bytes.is_none(),
        }
    }

    fn names(&self) -> BTreeSet<String> {
        self.0.borrow().keys().cloned().collect()
    }
}

impl Day {
    fn new(seed: u64, images: usize, world: impl Fn(Box<dyn Fn() -> App>) -> World) -> Self {
        let (model, queue) = (Fake::default(), Arc::<AtomicBool>::default());
        model.is_ready.store(true, Ordering::SeqCst);
        let (fake, is_away) = (model.clone(), queue.clone());
        let program = move || {
            let (ingestion, is_away) = (Ingestion::default(), is_away.clone());
            program_with(&fake, true, Queue { ingestion, is_away })
        };
        let (world, chance) = (world(Box::new(program)), SeededEntropy::new(seed));
        Self { world, chance, model, queue, names: images / 2, clients: Clients::default() }
    }

    fn below(&self, limit: usize) -> usize {
        (self.chance.next() % limit as u64) as usize
    }

    fn play(mut self, images: usize) {
        let (mut puts, mut ends) = (0, 0);
        while puts < images {
            let changes: Vec<Change> = (0..BATCH).map(|_| self.choose()).collect();
            puts += changes.iter().filter(|it| matches!(it, Change::Put(..))).count();
            let wait = Duration::from_secs(self.below(300) as u64);
            let clients = &self.clients;
            let work = async |app: &TestApp| {
                for change in &changes {
                    change.make(app, clients).await;
                }
                app.advance(wait).await;
            };
            if self.below(3) == 0 {
                ends += 1;
                let commits = self.below(60) as u64;
                self.world.end_during(commits, work);
            } else {
                self.world.on(work);
            }
            self.outages();
        }
        assert!(0 < ends, "no process ended");
        self.model.is_down.store(false, Ordering::SeqCst);
        self.queue.store(false, Ordering::SeqCst);
        let clients = &self.clients;
        self.world.on(async |app| {
            // Longer than any wait for a model, a retry or a sweep.
            for _ in 0..20 {
                app.advance(Duration::from_mins(10)).await;
                if wrong(app, clients).await.is_none() {
                    break;
                }
            }
            assert_eq!(wrong(app, clients).await, None);
            app.advance(Duration::from_hours(1)).await;
            assert_eq!(wrong(app, clients).await, None, "and it stays so");
        });
    }

    /// Starts and ends outages. An outage ends with a higher probability than it begins.
    fn outages(&self) {
        for away in [&self.model.is_down, &self.queue] {
            let is_away = away.load(Ordering::SeqCst);
            let limit = if is_away { 3 } else { 10 };
            if self.below(limit) == 0 {
                away.store(!is_away, Ordering::SeqCst);
            }
        }
    }

    fn choose(&self) -> Change {
        let name = format!("{}.png", self.below(self.names));
        match self.below(20) {
            0..=12 => Change::Put(name, ["cat", "dog", "bird"][self.below(3)]),
            13 => Change::Put(name, "nonsense"),
            14 | 15 => Change::Delete { name, is_told: true },
            16 | 17 => Change::Delete { name, is_told: false },
            18 => Change::Terminate,
            _ => Change::Retry(name),
        }
    }
}

enum Change {
    Put(String, &'static str),
    /// Whether the agent is called at once, or gets the event alone.
    Delete {
        name: String,
        is_told: bool,
    },
    /// Of the newest image that is being classified.
    Terminate,
    Retry(String),
}

impl Change {
    async fn make(&self, app: &TestApp, clients: &Clients) {
        let agent = || OrganizationAgent::at(ACME);
        match self {
            Change::Put(name, bytes) => {
                clients.asks(name, Some(bytes));
                put(app, name, bytes).await;
                clients.hears(name, Some(bytes));
            }
            Change::Delete { name, is_told } => {
                clients.asks(name, None);
                let sequence = app.bucket(UPLOADS).delete(&format!("{ACME}/{name}")).await.unwrap();
                clients.hears(name, None);
                if let Some(sequence) = sequence.filter(|_| *is_told) {
                    let hide = HideUpload { name: name.clone(), sequence };
                    app.call(agent(), hide).await.unwrap();
                }
            }
            Change::Terminate => {
                let open = GetUploads { status: Some(Status::Running), limit: 1, ..all() };
                for row in app.call(agent(), open).await.unwrap() {
                    // It may end by itself meanwhile.
                    let _ = app.runs().terminate("image-classification", &row.workflow_id).await;
                }
            }
            // One that is not there or has a label is not retried.
            Change::Retry(name) => {
                _ = app.call(agent(), RetryUpload { name: name.clone() }).await;
            }
        }
    }
}

fn all() -> GetUploads {
    GetUploads { limit: 500, ..GetUploads::default() }
}

async fn rows(app: &TestApp) -> BTreeMap<String, Upload> {
    let (mut rows, mut ask) = (BTreeMap::new(), all());
    loop {
        let page = app.call(OrganizationAgent::at(ACME), ask.clone()).await.unwrap();
        ask.after = page.last().map(|it| (it.created_at, it.name.clone()));
        if page.is_empty() {
            return rows;
        }
        rows.extend(page.into_iter().map(|it| (it.name.clone(), it)));
    }
}

/// The first row that differs from the bucket, or blob that differs from what clients expect.
async fn wrong(app: &TestApp, clients: &Clients) -> Option<String> {
    let (mut rows, bucket) = (rows(app).await, app.bucket(UPLOADS));
    let mut names = clients.names();
    let mut list = ListOptions::default();
    loop {
        let page = bucket.list(&list).await.unwrap();
        for blob in &page.blobs {
            let name = blob.key.as_str().strip_prefix("acme/").unwrap();
            let Some(row) = rows.remove(name) else { return Some(format!("{name} has no row")) };
            let bytes = bucket.get(blob.key.as_str()).await.unwrap().unwrap();
            let text = String::from_utf8(bytes).unwrap();
            if !clients.expect(name, Some(&text)) {
                return Some(format!("{name} holds {text}, which nobody expects"));
            }
            names.remove(name);
            let (status, label) = match &*text {
                "nonsense" => (Status::Failed, None),
                text => (Status::Classified, Some(text.to_uppercase())),
            };
            let shown = (&row.version, row.sequence, row.status, &row.classification_label);
            if shown != (&blob.version(), blob.sequence, status, &label) {
                return Some(format!("{name} shows {row:?}"));
            }
        }
        match page.next {
            Some(next) => list.after = Some(next),
            None => break,
        }
    }
    if let Some((name, _)) = rows.first_key_value() {
        return Some(format!("{name} has no blob"));
    }
    if let Some(lost) = names.iter().find(|it| !clients.expect(it, None)) {
        return Some(format!("{lost} was put, and is lost"));
    }
    for queue in [UPLOAD_EVENTS, UPLOAD_EVENTS_DLQ] {
        let view = app.queues().show(queue.name()).await.unwrap();
        if 0 < view.depth + view.dead {
            return Some(format!("in the queue {} is left: {view:?}", queue.name()));
        }
    }
    for status in [RunStatus::Queued, RunStatus::Waiting, RunStatus::Paused] {
        let count = app.store().count_runs("image-classification", Some(status), 100).await;
        if 0 < count.unwrap() {
            return Some(format!("a run is {status:?}"));
        }
    }
    None
}

#[test]
fn after_a_day_of_uploads_the_rows_are_what_the_bucket_says_in_memory() {
    let images = images(250);
    // One long day takes as long as many short ones.
    for seed in 0..if images == 250 { 3 } else { 1 } {
        eprintln!("seed {seed}");
        Day::new(seed, images, World::in_memory).play(images);
    }
}

#[test]
fn after_a_day_of_uploads_the_rows_are_what_the_bucket_says_on_sqlite() {
    let images = images(200);
    Day::new(10, images, World::on_sqlite).play(images);
}

#[test]
fn after_a_day_of_uploads_the_rows_are_what_the_bucket_says_on_postgres() {
    let images = images(120);
    Day::new(20, images, World::on_postgres).play(images);
}
