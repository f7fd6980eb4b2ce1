//! Random histories of one name, with events that come twice, late and in any order, results of
//! runs that come too late, and ends of the process: in the end the row is what the bucket holds.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use steadfast_core::{
    App, BlobEvent, Object,
    bucket::Blob,
    store::{Entropy, RunStatus, SeededEntropy},
    test::TestApp,
};
use steadfast_uploads::{
    HideUpload, MarkRunning, OrganizationAgent, PersistClassificationFailure,
    PersistClassificationSuccess, Status, UPLOAD_EVENTS, UPLOAD_EVENTS_DLQ, UPLOADS,
    classifier::Label, event_id, workflow_id,
};

use steadfast_world::World;

use crate::stage::{ACME, Fake, delete, delete_event, deliver, program, put, put_event, row};

const NAME: &str = "pet.png";
const KEY: &str = "acme/pet.png";

/// An event is tried four times, and an attempt that ended with its process counts.
const ENDS_MAX: usize = 3;

/// The test fails if the row is not right after this many minutes.
const MINUTES_MAX: usize = 200;

/// The claim, for these seeds. Every second bucket sends its events itself; then each event
/// that the test delivers is a duplicate.
fn after_any_history_the_row_is_what_the_bucket_holds(
    seeds: Range<u64>,
    world: impl Fn(Box<dyn Fn() -> App>) -> World,
) {
    for seed in seeds {
        // The seed stands in front of a failure.
        eprintln!("seed {seed}");
        let (fake, told) = (Fake::default(), seed % 2 == 0);
        let (classifier, is_ready) = (fake.clone(), fake.is_ready);
        let world = world(Box::new(move || program(&classifier, told)));
        History::new(seed, world, is_ready, told).play();
    }
}

#[test]
fn after_any_history_the_row_is_what_the_bucket_holds_in_memory() {
    let histories = std::env::var_os("STEADFAST_SOAK").map_or(120, |_| 1_000);
    after_any_history_the_row_is_what_the_bucket_holds(0..histories, World::in_memory);
}

#[test]
fn after_any_history_the_row_is_what_the_bucket_holds_on_sqlite() {
    after_any_history_the_row_is_what_the_bucket_holds(1_000..1_020, World::on_sqlite);
}

#[test]
fn after_any_history_the_row_is_what_the_bucket_holds_on_postgres() {
    after_any_history_the_row_is_what_the_bucket_holds(2_000..2_012, World::on_postgres);
}

struct History {
    world: World,
    /// Whether the model is there.
    is_ready: Arc<AtomicBool>,
    /// Whether the bucket tells of its changes, or the test does.
    told: bool,
    chance: SeededEntropy,
    /// Events on their way.
    late: Vec<BlobEvent>,
    /// Deletions that the application has not told the agent yet.
    hides: Vec<i64>,
    /// The image that is in the bucket, as far as its client knows, and its bytes.
    newest: Option<(Blob, &'static str)>,
    /// Those that are not there any more.
    past: Vec<(Blob, &'static str)>,
    ends: usize,
}

impl History {
    fn new(seed: u64, world: World, is_ready: Arc<AtomicBool>, told: bool) -> Self {
        let (late, hides, past) = (Vec::new(), Vec::new(), Vec::new());
        let chance = SeededEntropy::new(seed);
        Self { world, is_ready, told, chance, late, hides, newest: None, past, ends: 0 }
    }

    fn below(&self, limit: usize) -> usize {
        (self.chance.next() % limit as u64) as usize
    }

    fn play(mut self) {
        for _ in 0..3 + self.below(8) {
            self.change();
            // Some of what is on its way arrives: any of it, once or twice.
            while !self.late.is_empty() && self.below(3) == 0 {
                self.arrive();
            }
            if !self.hides.is_empty() && self.below(2) == 0 {
                self.hide();
            }
            if !self.past.is_empty() && self.below(3) == 0 {
                self.tell_too_late();
            }
            if self.below(4) == 0 {
                self.is_ready.store(self.below(2) == 0, Ordering::SeqCst);
                let wait = Duration::from_secs(self.below(20) as u64);
                self.perhaps_end(async move |app| app.advance(wait).await);
            }
        }
        while !self.late.is_empty() {
            let event = self.late.swap_remove(self.below(self.late.len()));
            self.world.on(async |app| deliver(app, &event).await);
        }
        while !self.hides.is_empty() && self.below(2) == 0 {
            self.hide();
        }
        self.is_ready.store(true, Ordering::SeqCst);
        self.world.on(async |app| {
            comes_right(app).await;
            // And it stays so.
            app.advance(Duration::from_hours(1)).await;
            assert_eq!(wrong(app).await, None);
        });
    }

    /// Does something to its end, or as far as the process comes.
    fn perhaps_end(&mut self, something: impl AsyncFnOnce(&TestApp)) {
        if ENDS_MAX <= self.ends || 0 < self.below(4) {
            return self.world.on(something);
        }
        self.ends += 1;
        self.world.end_during(self.below(12) as u64, something);
    }

    /// Somebody puts or deletes the image.
    fn change(&mut self) {
        // "later" is classified only when the model is there.
        let bytes = ["cat", "dog", "later"][self.below(3)];
        let puts = self.below(6) < 4;
        // The bucket tells of what happened even if nobody hears that it happened.
        if self.told && self.ends < ENDS_MAX && self.below(6) == 0 {
            self.ends += 1;
            let change = async |app: &TestApp| {
                // It may end in the middle: whether it happened is for the bucket to say.
                let _ = match puts {
                    true => app.bucket(UPLOADS).put(KEY, bytes).await.map(drop),
                    false => app.bucket(UPLOADS).delete(KEY).await.map(drop),
                };
                app.settle().await;
            };
            return self.world.end_during(self.below(12) as u64, change);
        }
        let is_there = self.world.on(async |app| app.bucket(UPLOADS).head(KEY).await.unwrap());
        if puts {
            let blob = self.world.on(async |app| put(app, NAME, bytes).await);
            self.late.push(put_event(&blob));
            self.past.extend(self.newest.replace((blob, bytes)));
        } else if is_there.is_some() {
            let sequence = self.world.on(async |app| delete(app, NAME).await);
            self.late.push(delete_event(NAME, sequence));
            self.hides.push(sequence);
            self.past.extend(self.newest.take());
        }
    }

    fn arrive(&mut self) {
        let at = self.below(self.late.len());
        let event = self.late[at].clone();
        self.world.on(async |app| deliver(app, &event).await);
        if self.below(3) != 0 {
            self.late.swap_remove(at);
        }
        if self.below(2) == 0 {
            self.perhaps_end(async |app| app.settle().await);
        }
    }

    /// The application tells the agent of a deletion, soon or late. From then on nothing older is
    /// shown.
    fn hide(&mut self) {
        let sequence = self.hides.swap_remove(self.below(self.hides.len()));
        self.world.on(async |app| {
            let hide = HideUpload { name: NAME.into(), sequence };
            app.call(OrganizationAgent::at(ACME), hide).await.unwrap();
            let shown = row(app, NAME).await;
            assert!(shown.is_none_or(|it| sequence < it.sequence), "it came back");
        });
    }

    /// The run of an image that is not there any more says something.
    fn tell_too_late(&self) {
        let (blob, bytes) = &self.past[self.below(self.past.len())];
        let event_id = event_id(KEY, &blob.version());
        let workflow_id = workflow_id(&event_id, 0);
        let (agent, what) = (|| OrganizationAgent::at(ACME), self.below(3));
        self.world.on(async |app| {
            let told = match what {
                0 => app.call(agent(), MarkRunning { event_id, workflow_id }).await,
                1 => {
                    let top_five = vec![Label { label: bytes.to_uppercase(), score: 0.9 }];
                    let success = PersistClassificationSuccess {
                        event_id,
                        workflow_id,
                        top_five,
                        content_type: None,
                    };
                    app.call(agent(), success).await
                }
                _ => {
                    let error = "too late".into();
                    let failure = PersistClassificationFailure { event_id, workflow_id, error };
                    app.call(agent(), failure).await
                }
            };
            told.unwrap();
        });
    }
}

async fn comes_right(app: &TestApp) {
    for _ in 0..MINUTES_MAX {
        app.advance(Duration::from_mins(1)).await;
        if wrong(app).await.is_none() {
            return;
        }
    }
    panic!("it never comes right: {}", wrong(app).await.unwrap_or_default());
}

/// The first difference from the state that must be reached in the end.
async fn wrong(app: &TestApp) -> Option<String> {
    let blob = app.bucket(UPLOADS).head(KEY).await.unwrap();
    let mut wished = None;
    if let Some(blob) = &blob {
        let bytes = app.bucket(UPLOADS).get(KEY).await.unwrap().unwrap();
        let label = String::from_utf8(bytes).unwrap().to_uppercase();
        wished = Some((blob.version(), blob.sequence, Status::Classified, Some(label)));
    }
    let shown = row(app, NAME).await;
    let shown = shown.map(|it| (it.version, it.sequence, it.status, it.classification_label));
    if shown != wished {
        return Some(format!("the row is {shown:?}, and it should be {wished:?}"));
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
            return Some(format!("a run is {status:?} for ever"));
        }
    }
    None
}
