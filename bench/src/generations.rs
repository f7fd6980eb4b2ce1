//! Generations from the request to the last artifact: the overhead over the provider, and whether
//! many concurrent ones keep the provider busy while clients poll their progress. Over HTTP,
//! through the routes of the application.

mod polls;
mod provider;
mod stage;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use steadfast_core::store::{
    Address, Clock, Commit, EntityKind, Json, Message, Store, SystemClock, Timestamp,
};
use steadfast_generations::{Generation, GenerationStatus};

use self::{
    polls::Polls,
    stage::{AT_ONCE, Stage, TASKS},
};
use crate::measure::{now, percentiles, resident_mib, say};

/// Maximum overhead of a generation over the provider, in milliseconds.
const WAY_MAX: f64 = 20.0;
/// Maximum time of a poll of its progress.
const POLL_MAX: f64 = 10.0;
const ONE_BY_ONE: usize = 100;
/// Concurrent generations that fill the slots of the provider.
const SIDE_BY_SIDE: usize = AT_ONCE / TASKS;
const MANY: usize = 1_000;
const WAVES: usize = 3;
const CALLERS: usize = 16;

pub(crate) async fn run() {
    let stage = Arc::new(Stage::new().await);
    ways(&stage, "warm", 1, 20).await;
    say("Generations of 4 pictures, 50 ms each at the provider, which takes 64 at once");
    let (commit, _) = percentiles(commits(&stage.store).await);
    say(&format!("  a bare commit: p50 {commit:.2} ms"));
    for (how, at_once, count) in [
        ("one at a time", 1, ONE_BY_ONE),
        ("4 at a time", 4, 4 * ONE_BY_ONE),
        ("16 at a time, no place is free", SIDE_BY_SIDE, MANY),
    ] {
        let before = stage.store.activity().commits;
        let times = ways(&stage, how, at_once, count).await;
        let commits = (stage.store.activity().commits - before) as f64 / count as f64;
        let (p50, p99) = percentiles(times);
        say(&format!(
            "  {how}, beyond the provider's time: p50 {p50:.1} ms (to be below {WAY_MAX}), \
             p99 {p99:.1} ms; {commits:.1} commits, {:.1} x a bare one",
            p50 / commit
        ));
    }
    let mut polls = Polls::start(stage.address, Vec::new());
    polls.take_over(ids(&stage, 100).await);
    pause(Duration::from_secs(2)).await;
    let (p50, p99) = percentiles(polls.end().await);
    say(&format!("  asked 500 times a second, nothing else: p50 {p50:.2} ms, p99 {p99:.2} ms"));
    for wave in 0..WAVES {
        many_at_once(&stage, wave).await;
    }
    let stage = Arc::into_inner(stage).expect("no other reference");
    stage.stop().await;
}

/// The overhead of generations over the provider's time, with this many at a time.
async fn ways(stage: &Arc<Stage>, name: &str, at_once: usize, count: usize) -> Vec<Duration> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut all = Vec::new();
    let callers: Vec<_> = (0..at_once)
        .map(|_| {
            let (next, stage, name) = (next.clone(), stage.clone(), name.to_owned());
            tokio::spawn(async move {
                let (mut ask, mut times) = (stage.caller(), Vec::new());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if count <= number {
                        return times;
                    }
                    let prompt = format!("{name} {number}");
                    let asked = prompt.clone();
                    let asks = tokio::task::spawn_blocking(move || {
                        let began = now();
                        let id = ask(&asked);
                        (began, id, ask)
                    });
                    let (began, id, back) = asks.await.expect("ends");
                    ask = back;
                    let finished = stage.finished(&id).await;
                    let took = began.elapsed();
                    assert_eq!(finished.counts.ready as usize, TASKS);
                    let provider = stage.provider.books().answered[&prompt].longest;
                    times.push(took.saturating_sub(provider));
                }
            })
        })
        .collect();
    for caller in callers {
        all.extend(caller.await.expect("ends"));
    }
    all
}

/// Commits of one message, one after the other, with nothing around.
async fn commits(store: &Arc<dyn Store>) -> Vec<Duration> {
    let stream = Address::new(EntityKind::Stream, "bare", "generations").expect("address");
    let mut times = Vec::new();
    for version in 0..500 {
        let data = Json::of(&"x".repeat(200)).expect("JSON");
        let message = Message::new("bare", data).expect("message").event();
        let began = now();
        store.commit(Commit::append(&stream, version, vec![message])).await.expect("commits");
        times.push(began.elapsed());
    }
    times
}

/// Ids of the last generations.
async fn ids(stage: &Stage, count: u32) -> Vec<String> {
    stage.list(None, count, None).await.into_iter().map(|it| it.id).collect()
}

async fn pause(time: Duration) {
    SystemClock.sleep(time).await;
}

/// Generations arrive faster than the provider can make them, and clients poll their progress.
async fn many_at_once(stage: &Arc<Stage>, wave: usize) {
    let before = resident_mib();
    let busy = stage.provider.books().busy;
    stage.provider.books().most = 0;
    let began = SystemClock.now();
    let mut polls = Polls::start(stage.address, ids(stage, 1).await);
    let (made, asked) = ask_all(stage, wave, &mut polls).await;
    let count = made.len();
    let (early, early_p99) = percentiles(polls.end().await);
    // The library may not have all of them yet.
    let polls = Polls::start(stage.address, made.clone());
    let mut most = resident_mib();
    while !stage.list(Some(GenerationStatus::Active), 1, None).await.is_empty() {
        most = most.max(resident_mib());
        pause(Duration::from_millis(50)).await;
    }
    let (polled, polled_p99) = percentiles(polls.end().await);
    let ended = ended(stage, count).await;
    // Generations in progress must not count for the next wave.
    for id in &made {
        stage.finished(id).await;
    }
    let last = ended.iter().filter_map(|it| it.completed_at).max().expect("all are over");
    let took = Timestamp(last).since(began).as_secs_f64() * 1_000.0;
    let (behind, _) = percentiles(behind_the_provider(stage, &ended));
    let books = stage.provider.books();
    let call = (books.busy - busy).as_secs_f64() * 1_000.0 / (MANY * TASKS) as f64;
    let ideal = (MANY * TASKS) as f64 * call / AT_ONCE as f64;
    say(&format!(
        "  {MANY} at once, wave {}: {took:.0} ms, {:.2} x the provider's own {ideal:.0} \
         ({call:.1} ms a call, {} at once; all asked for after {asked:.0})",
        wave + 1,
        took / ideal,
        books.most
    ));
    say(&format!(
        "    beyond it, for each generation: {:.1} ms (to be below {WAY_MAX}); from its last \
         picture's answer until all is kept: p50 {behind:.0} ms",
        (took - ideal) / MANY as f64
    ));
    say(&format!(
        "    asked 500 times a second while all are active: p50 {polled:.2} ms, \
         p99 {polled_p99:.2} ms (to be below {POLL_MAX}); while they are asked for: \
         p50 {early:.2} ms, p99 {early_p99:.2} ms"
    ));
    say(&format!(
        "    resident {before:.1} MiB before, {most:.1} at most, {:.1} after",
        resident_mib()
    ));
}

/// Requests all of them: their ids, and the duration in milliseconds.
async fn ask_all(stage: &Arc<Stage>, wave: usize, polls: &mut Polls) -> (Vec<String>, f64) {
    let next = Arc::new(AtomicUsize::new(0));
    let ids = Arc::new(Mutex::new(Vec::new()));
    let began = now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (next, mut ask) = (next.clone(), stage.caller());
            let (ids, seen) = (ids.clone(), polls.ids());
            tokio::task::spawn_blocking(move || {
                while let number @ 0..MANY = next.fetch_add(1, Ordering::Relaxed) {
                    let id = ask(&format!("many {wave} {number}"));
                    ids.lock().expect("no thread panics").push(id.clone());
                    seen.lock().expect("no thread panics").push(id);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("ends");
    }
    let made = ids.lock().expect("no thread panics").clone();
    (made, began.elapsed().as_secs_f64() * 1_000.0)
}

/// The last generations, all of them ended.
async fn ended(stage: &Stage, count: usize) -> Vec<Generation> {
    let mut all: Vec<Generation> = Vec::new();
    while all.len() < count {
        let after = all.last().map(|it| (it.created_at, it.id.clone()));
        all.extend(stage.list(None, 100, after).await);
    }
    assert!(all.iter().all(|it| it.counts.ready as usize == TASKS));
    all
}

/// From the provider's last answer to the end of the generation, as both recorded it.
fn behind_the_provider(stage: &Stage, ended: &[Generation]) -> Vec<Duration> {
    let books = stage.provider.books();
    let times = ended.iter().map(|it| {
        let prompt = it.request.input["positivePrompt"].as_str().expect("a prompt");
        let completed = Timestamp(it.completed_at.expect("it is over"));
        completed.since(books.answered[prompt].last)
    });
    times.collect()
}
