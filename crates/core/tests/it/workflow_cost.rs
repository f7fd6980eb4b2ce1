//! The cost of a wake-up, an event and a change from outside: the same for a run with a long record
//! as for one with a short one.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use steadfast_core::{
    store::{Clock, DueCursor, EntityId, EntityKind, SeededEntropy},
    workflow::{Phase, RunQuery, Runs, Status},
};

use crate::{
    lab::{Lab, address_of},
    play::{Play, Theatre, until},
    watched::Watched,
};

laws!(on sqlite, postgres:
    a_wake_up_reads_what_is_new_however_long_the_record_is,
    the_next_process_reads_a_record_once,
    a_cached_run_is_not_mistaken_for_another_one_of_its_id,
    how_far_a_run_is_is_known_without_its_record,
);

/// Does this many steps, and then what events request.
fn play() -> Play {
    Play::of(|ctx, stage, input| async move {
        for _ in 0..input.as_u64().unwrap_or(0) {
            ctx.step("step", async || Ok(stage.count("step"))).await?;
        }
        let pass = async |door| {
            stage.pass(door).await;
            Ok(())
        };
        ctx.step("ready", async || pass("ready").await).await?;
        loop {
            let word: String = ctx.event("go").await?;
            match word.as_str() {
                "sleep" => ctx.sleep("nap", Duration::from_mins(1)).await?,
                "wait" => ctx.step("wait", async || pass("door").await).await?,
                "end" => return Ok(json!("ended")),
                _ => {}
            }
            ctx.step("woken", async || Ok(stage.count("woken"))).await?;
        }
    })
}

struct Bench {
    lab: Lab,
    watched: Arc<Watched>,
    theatre: Theatre,
}

impl Bench {
    async fn on(lab: Lab) -> Self {
        let watched = Watched::new(lab.store.clone());
        let theatre = Theatre::on(watched.clone(), lab.clock.clone(), &play()).await;
        Self { lab, watched, theatre }
    }

    async fn start(&self, id: &str, steps: u64) {
        let started = self.theatre.app.runs().start_json("play", id, json!(steps)).await.unwrap();
        assert!(started.created);
        // Polling the store would take time from the steps.
        self.theatre.stage.came("ready").await;
        self.theatre.stage.open("ready", 1);
        self.asleep().await;
    }

    async fn send(&self, id: &str, word: &str) {
        self.theatre.send(id, "go", &json!(word)).await;
    }

    /// Waits until nothing is due, and no run is active. It reads no message.
    async fn asleep(&self) {
        let running = RunQuery {
            workflow: "play".into(),
            status: Some(Phase::Running),
            limit: 9,
            ..RunQuery::default()
        };
        until("all is quiet", async || {
            let now = self.lab.clock.now();
            // On a busy machine the lease of the owner may have to be renewed first.
            let works = self.lab.store.due(DueCursor::START, 9).await;
            works.is_ok_and(|it| it.iter().all(|it| now < it.due_at && it.claim.is_none()))
                && self.theatre.app.runs().list(&running).await.is_ok_and(|it| it.items.is_empty())
        })
        .await;
    }

    /// The number of messages that are read until everything is idle.
    async fn rows(&self, what: impl Future<Output = ()>) -> usize {
        self.watched.rows();
        what.await;
        self.asleep().await;
        let (rows, single) = self.watched.rows();
        assert!(single <= 4, "{single} messages were read one by one");
        rows
    }

    /// The same for one event.
    async fn event_rows(&self, id: &str) -> usize {
        let woken = self.theatre.stage.ran("woken");
        let rows = self.rows(self.send(id, "wake")).await;
        assert_eq!(self.theatre.stage.ran("woken"), woken + 1);
        rows
    }

    /// The reads for each operation on a run.
    async fn measure(&self, id: &str, steps: u64) -> Vec<(&'static str, usize)> {
        let runs = self.theatre.app.runs();
        self.start(id, steps).await;
        assert!(steps < self.lab.store.version(run(id)).await.unwrap() as u64);
        let mut read = vec![("an event", self.event_rows(id).await)];
        read.push(("another event", self.event_rows(id).await));
        self.send(id, "sleep").await;
        self.asleep().await;
        let minute = async { self.lab.clock.advance(Duration::from_mins(1)) };
        read.push(("a timer", self.rows(minute).await));
        assert_eq!(self.theatre.stage.ran("woken"), 3);
        self.send(id, "wait").await;
        self.theatre.stage.came("door").await;
        let event = async {
            self.send(id, "wake").await;
            self.theatre.stage.open("door", 1);
        };
        read.push(("an event while it is awake", self.rows(event).await));
        self.send(id, "sleep").await;
        self.asleep().await;
        read.push(("pause", self.rows(async { runs.pause("play", id).await.unwrap() }).await));
        read.push(("an event while it is paused", self.rows(self.send(id, "wake")).await));
        read.push(("resume", self.rows(async { runs.resume("play", id).await.unwrap() }).await));
        let start = async {
            let started = runs.start_json("play", id, Value::Null).await.unwrap();
            assert_eq!((started.created, started.status), (false, Status::Waiting));
        };
        read.push(("a start that finds it", self.rows(start).await));
        let terminate = async { runs.terminate("play", id).await.unwrap() };
        read.push(("terminate", self.rows(terminate).await));
        let wait = async { assert_eq!(self.theatre.ends(id).await, Status::Terminated) };
        read.push(("wait", self.rows(wait).await));
        read.push(("delete", self.rows(async { runs.delete("play", id).await.unwrap() }).await));
        read
    }
}

/// A wake-up may be so late that the run has done its work: it detects that, and reads one more
/// row.
fn assert_same(what: &str, short: usize, long: usize) {
    assert!(short.abs_diff(long) <= 2, "{what}: {short} and {long}");
}

fn run(id: &str) -> EntityId {
    address_of(EntityKind::Run, "play", id).id()
}

async fn a_wake_up_reads_what_is_new_however_long_the_record_is(lab: Lab) {
    let bench = Bench::on(lab).await;
    let short = bench.measure("one", 10).await;
    bench.theatre.app.stop().await;
    let bench = Bench::on(bench.lab).await;
    let long = bench.measure("one", 1_000).await;
    for ((what, short), (_, long)) in short.iter().zip(&long) {
        assert_same(what, *short, *long);
        assert!(*long <= 10, "{what}: {long}");
    }
    bench.theatre.app.stop().await;
    bench.lab.assert_sound().await;
}

async fn the_next_process_reads_a_record_once(lab: Lab) {
    let bench = Bench::on(lab).await;
    bench.start("one", 100).await;
    let usual = [bench.event_rows("one").await, bench.event_rows("one").await];
    bench.theatre.app.stop().await;
    let bench = Bench::on(bench.lab).await;
    let rows = [bench.event_rows("one").await, bench.event_rows("one").await];
    assert!((100..250).contains(&rows[0]), "once: {rows:?}");
    assert_same("the second event", usual[1], rows[1]);
    bench.send("one", "end").await;
    assert_eq!(bench.theatre.completes("one").await, json!("ended"));
    assert_eq!(bench.theatre.stage.ran("step"), 0, "nothing was done again");
    bench.theatre.app.stop().await;
}

async fn a_cached_run_is_not_mistaken_for_another_one_of_its_id(lab: Lab) {
    let bench = Bench::on(lab).await;
    let runs = bench.theatre.app.runs();
    bench.start("one", 5).await;
    runs.terminate("play", "one").await.unwrap();
    assert_eq!(bench.theatre.ends("one").await, Status::Terminated);
    // Another program deletes it without a notice here, and the next one has a longer record.
    let (store, objects) = (bench.lab.store.clone(), bench.theatre.app.objects().clone());
    let entropy = Arc::new(SeededEntropy::new(2));
    let other = Runs::new(store, entropy, objects).with(play().on(&bench.theatre.stage));
    other.delete("play", "one").await.unwrap();
    assert_eq!(runs.wait("play", "one").await.unwrap_err().code(), "run_not_found");
    bench.start("one", 5).await;
    runs.terminate("play", "one").await.unwrap();
    assert_eq!(bench.theatre.ends("one").await, Status::Terminated);
    other.delete("play", "one").await.unwrap();
    bench.theatre.stage.open("ready", 1);
    other.start_json("play", "one", json!(30)).await.unwrap();
    until("it sleeps", async || other.status("play", "one").await.unwrap() == Status::Waiting)
        .await;
    bench.send("one", "wake").await;
    bench.send("one", "end").await;
    assert_eq!(bench.theatre.completes("one").await, json!("ended"));
    assert_eq!(bench.theatre.stage.ran("woken"), 1);
    bench.theatre.app.stop().await;
    bench.lab.assert_sound().await;
}

async fn how_far_a_run_is_is_known_without_its_record(lab: Lab) {
    let bench = Bench::on(lab).await;
    bench.start("one", 100).await;
    bench.theatre.app.stop().await;
    // Nothing is in memory.
    let bench = Bench::on(bench.lab).await;
    let runs = bench.theatre.app.runs();
    let phase = async |wanted| {
        bench.watched.rows();
        assert_eq!(runs.phase("play", "one").await.unwrap(), wanted);
        assert_eq!(bench.watched.rows(), (0, 0), "no message is read");
    };
    phase(Phase::Waiting).await;
    runs.pause("play", "one").await.unwrap();
    phase(Phase::Paused).await;
    runs.terminate("play", "one").await.unwrap();
    phase(Phase::Terminated).await;
    assert_eq!(runs.phase("play", "two").await.unwrap_err().code(), "run_not_found");
    assert_eq!(runs.phase("play", "").await.unwrap_err().code(), "invalid_name");
    bench.theatre.app.stop().await;
}
