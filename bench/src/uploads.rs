//! Images from their upload to their label: the overhead over the classifier, and whether many
//! concurrent ones keep the classifier busy. Over HTTP, through the routes of the application.

mod bare;
mod classifiers;
mod stage;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use steadfast_core::store::{
    Address, Clock, Commit, EntityKind, Json, Message, Store, SystemClock,
};
use steadfast_images::Pool;
use steadfast_uploads::UPLOADS;

use self::{
    classifiers::{AtOnce, Watched, image, rate_alone, real},
    stage::Stage,
};
use crate::measure::{now, percentiles, rate, resident_mib, say};

/// Maximum overhead, in milliseconds.
const WAY_MAX: f64 = 25.0;
/// Rounds, and images in each.
const ROUNDS: usize = 10;
const EACH: usize = 50;
const MANY: usize = 500;
const CALLERS: usize = 50;
/// Minimum utilization of the classifier under load, in percent, and maximum memory.
const BUSY_MIN: f64 = 90.0;
const GROWTH_MAX: f64 = 300.0;

pub(crate) async fn run() {
    one_at_a_time().await;
    many_at_once().await;
    bare::run().await;
}

/// With a classifier that answers immediately, only the overhead is left.
async fn one_at_a_time() {
    say("Uploads, one image at a time, with a classifier that answers at once");
    let stage = Stage::new(Arc::new(AtOnce)).await;
    let (mut answers, mut ways, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bare, mut count) = (Vec::new(), 0);
    over_http(&stage, "warm").await;
    // Alternating: the speed of a disk varies.
    for round in 0..ROUNDS {
        let before = stage.store.activity().commits;
        let (answered, classified) = over_http(&stage, &format!("http-{round}")).await;
        count += stage.store.activity().commits - before;
        answers.extend(answered);
        ways.extend(classified);
        events.extend(by_event(&stage, round).await);
        bare.extend(commits(&stage.store, round).await);
    }
    let (commit, _) = percentiles(bare);
    let (p50, p99) = percentiles(answers);
    say(&format!("  a bare commit: p50 {commit:.2} ms"));
    say(&format!(
        "  POST until it is answered: p50 {p50:.2} ms, p99 {p99:.2} ms; {:.1} commits in all",
        count as f64 / (ROUNDS * EACH) as f64
    ));
    for (from, times) in [("from there until classified", ways), ("from a put, by event", events)] {
        let (p50, p99) = percentiles(times);
        say(&format!(
            "  {from}: p50 {p50:.2} ms, p99 {p99:.2} ms (to be below {WAY_MAX}), {:.1} x a commit",
            p50 / commit
        ));
    }
    stage.stop().await;
}

/// The duration of uploads until the answer, and from there until they were classified.
async fn over_http(stage: &Stage, prefix: &str) -> (Vec<Duration>, Vec<Duration>) {
    let (mut upload, heard, prefix) = (stage.caller(), stage.heard.clone(), prefix.to_owned());
    let work = move || {
        let times = (0..EACH).map(|number| {
            let (name, image) = (format!("{prefix}-{number}.png"), image(number));
            let began = now();
            upload(&name, &image);
            let answered = now();
            (answered - began, heard.wait(&name).saturating_duration_since(answered))
        });
        times.unzip()
    };
    tokio::task::spawn_blocking(work).await.expect("ends")
}

/// The same for images that are put into the bucket and found by their events.
async fn by_event(stage: &Stage, round: usize) -> Vec<Duration> {
    let (bucket, mut times) = (stage.app.bucket(UPLOADS), Vec::new());
    for number in 0..EACH {
        let (name, heard) = (format!("event-{round}-{number}.png"), stage.heard.clone());
        bucket.put(&format!("bench/{name}"), &image(number)).await.expect("put");
        let answered = now();
        let waits = tokio::task::spawn_blocking(move || heard.wait(&name));
        times.push(waits.await.expect("ends").saturating_duration_since(answered));
    }
    times
}

/// Commits of one message, one after the other, with nothing around.
async fn commits(store: &Arc<dyn Store>, round: usize) -> Vec<Duration> {
    let stream = Address::new(EntityKind::Stream, "bare", &round.to_string()).expect("address");
    let mut times = Vec::new();
    for version in 0..EACH as i64 {
        let data = Json::of(&"x".repeat(200)).expect("JSON");
        let message = Message::new("bare", data).expect("message").event();
        let began = now();
        store.commit(Commit::append(&stream, version, vec![message])).await.expect("commits");
        times.push(began.elapsed());
    }
    times
}

/// Images arrive faster than they can be classified.
async fn many_at_once() {
    let pool = Pool::for_this_machine("classify").expect("threads start");
    let threads = pool.threads();
    let empty = resident_mib();
    let classifier = real(pool).await;
    let before = rate_alone(&classifier).await;
    let watched = Arc::new(Watched::new(classifier.clone(), threads));
    say(&format!("Uploads, {MANY} small images at once, {}", classifier.name()));
    let stage = Stage::new(watched.clone()).await;
    let started = resident_mib();
    let most = most_resident();
    put_all(&stage).await;
    let most = most.await.max(resident_mib());
    let (busy, took) = watched.busy();
    stage.stop().await;
    let after = rate_alone(&classifier).await;
    let alone = (before + after) / 2.0;
    say(&format!(
        "  the classifier alone               {before:>9.2}/s before, {after:.2}/s after"
    ));
    let rate = rate(MANY, took);
    say(&format!(
        "  classified                         {rate:>9.2}/s {:>6.2} x alone",
        rate / alone
    ));
    say(&format!(
        "  its {threads} threads were busy           {:>9.1} % of it (to be {BUSY_MIN} at least)",
        100.0 * busy
    ));
    say(&format!(
        "  grew by                            {:>9.1} MiB (to be below {GROWTH_MAX}), \
         the classifier before that by {:.1}",
        most - started,
        started - empty
    ));
}

/// Uploads all of them and waits until the last one is classified.
async fn put_all(stage: &Stage) {
    let callers: Vec<_> = (0..CALLERS).map(|_| stage.caller()).collect();
    let heard = stage.heard.clone();
    let work = move || {
        let next = &AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for mut upload in callers {
                scope.spawn(move || {
                    while let number @ 0..MANY = next.fetch_add(1, Ordering::Relaxed) {
                        upload(&format!("many-{number}.png"), &image(number));
                    }
                });
            }
        });
        for number in 0..MANY {
            heard.wait(&format!("many-{number}.png"));
        }
    };
    tokio::task::spawn_blocking(work).await.expect("ends");
}

/// The maximum of resident memory between this call and the await of the result.
fn most_resident() -> impl Future<Output = f64> {
    let (done, ended) = tokio::sync::oneshot::channel::<()>();
    let watching = tokio::spawn(async move {
        let mut most = 0.0_f64;
        while !done.is_closed() {
            most = most.max(resident_mib());
            SystemClock.sleep(Duration::from_millis(20)).await;
        }
        most
    });
    async move {
        drop(ended);
        watching.await.expect("ends")
    }
}
