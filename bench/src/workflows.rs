//! Runs of three steps: in process and over HTTP, against bare appends of the same rows.

use std::sync::Arc;

use serde_json::json;
use steadfast_core::{
    App, Ctx, Result, Workflow,
    store::{
        Address, Commit, EntityKind, Json, Message, SqliteOptions, SqliteStore, Store, SystemClock,
    },
    workflow::{Runs, Status},
};

use crate::{
    http::{all_at_once, one_by_one, serve},
    measure::{now, percentiles, rate, say},
};

/// The best peer (Restate), runs per second and milliseconds of one at a time, from our own runs on
/// a quiet machine with two cores.
const PEER: f64 = 548.0;
const PEER_P50: f64 = 6.2;

const IN_FLIGHT: usize = 64;
const RUNS: usize = 20_000;

struct Three;

impl Workflow for Three {
    const NAME: &'static str = "three";
    type Input = u64;
    type Output = u64;

    async fn run(&self, ctx: &Ctx, input: u64) -> Result<u64> {
        let a = ctx.step("a", async || Ok(input + 1)).await?;
        let b = ctx.step("b", async || Ok(a + 1)).await?;
        ctx.step("c", async || Ok(b + 1)).await
    }
}

pub(crate) async fn run() {
    say("Workflows, runs of three steps");
    let folder = tempfile::tempdir().expect("temporary folder");
    let options = SqliteOptions::new(folder.path(), Arc::new(SystemClock));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).expect("store opens"));
    let app = App::new("test").workflow(Three).start(store.clone()).await.expect("starts");
    in_process(&store, app.runs()).await;
    app.stop().await;
    store.close().await;
    tokio::task::spawn_blocking(over_http).await.expect("ends");
}

async fn in_process(store: &Arc<dyn Store>, runs: &Runs) {
    let bare = bare(store).await;
    say(&format!("  bare appends of the same rows      {bare:>9.0} runs/s, 64 in flight"));
    // On a store that was under load, as over HTTP: its log has its full size.
    let mut times = Vec::new();
    for number in 0..2_000 {
        let began = now();
        one(runs, &format!("alone-{number}")).await;
        times.push(began.elapsed());
    }
    let (p50, p99) = percentiles(times);
    say(&format!("  in process, one at a time: p50 {p50:.2} ms, p99 {p99:.2} ms"));
    let before = store.activity();
    let began = now();
    together(|caller| {
        let runs = runs.clone();
        async move {
            for number in 0..RUNS / IN_FLIGHT {
                one(&runs, &format!("{caller}-{number}")).await;
            }
        }
    })
    .await;
    let (after, count) = (store.activity(), RUNS / IN_FLIGHT * IN_FLIGHT);
    let rate = rate(count, began.elapsed());
    let per_run = |it: u64| it as f64 / count as f64;
    say(&format!(
        "  in process, 64 in flight           {rate:>9.0} runs/s, {:.0} steps/s, {:.2} x bare",
        3.0 * rate,
        rate / bare
    ));
    say(&format!(
        "  a run takes {:.2} commits, {:.2} transactions and {:.0} bytes of log",
        per_run(after.commits - before.commits),
        per_run(after.batches - before.batches),
        per_run(after.log_bytes - before.log_bytes),
    ));
}

async fn one(runs: &Runs, id: &str) {
    let ended = runs
        .start_json_and_wait("three", id, 1.into(), std::future::pending())
        .await
        .expect("runs");
    assert_eq!(ended.status, Status::Complete(4.into()));
}

async fn together<F: Future<Output = ()> + Send + 'static>(caller: impl Fn(usize) -> F) {
    let callers: Vec<_> = (0..IN_FLIGHT).map(|it| tokio::spawn(caller(it))).collect();
    for caller in callers {
        caller.await.expect("caller ends");
    }
}

/// The rows of such runs, appended directly in as many commits.
async fn bare(store: &Arc<dyn Store>) -> f64 {
    let began = now();
    together(|caller| {
        let store = store.clone();
        async move {
            for number in 0..RUNS / IN_FLIGHT {
                let name = format!("{caller}-{number}");
                let stream = Address::new(EntityKind::Stream, "bare", &name).expect("address");
                let mut version = 0;
                for entries in
                    [&["started", "wake"][..], &["done"], &["done"], &["done", "completed"]]
                {
                    let messages: Vec<Message> = entries.iter().map(|it| entry(it)).collect();
                    let next = version + messages.len() as i64;
                    store
                        .commit(Commit::append(&stream, version, messages))
                        .await
                        .expect("commits");
                    version = next;
                }
            }
        }
    })
    .await;
    rate(RUNS / IN_FLIGHT * IN_FLIGHT, began.elapsed())
}

fn entry(tag: &str) -> Message {
    let key = json!({ "kind": "step", "name": "a", "count": 1 });
    let attempt = json!({ "number": 1, "beganAt": 1_700_000_000_000_i64 });
    let data = json!({ "entry": tag, "key": key, "value": 2, "attempt": attempt });
    Message::new(tag, Json::of(&data).expect("JSON")).expect("message").event()
}

fn over_http() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let Some((mut child, address)) = serve(folder.path()) else { return };
    let body = |id: String| json!({ "id": id, "input": { "customer": "Ada", "amounts": [1, 2] } });
    let start = |connection: &mut crate::http::Caller, id: String| {
        let answer = connection.post("/v1/workflows/invoice/runs?wait=30", &body(id).to_string());
        assert!(answer.contains("\"complete\""), "{answer}");
    };
    all_at_once(&address, 2_000, |it, number| start(it, format!("warm-{number}")));
    let rate = all_at_once(&address, RUNS, |it, number| start(it, format!("run-{number}")));
    say(&format!(
        "  HTTP with wait, 64 callers         {rate:>9.0} runs/s {:>6.1} x the best peer",
        rate / PEER
    ));
    let (p50, p99) = one_by_one(&address, 2_000, |it, number| start(it, format!("alone-{number}")));
    say(&format!(
        "  HTTP, one at a time: p50 {p50:.2} ms, p99 {p99:.2} ms (best peer {PEER_P50} ms)"
    ));
    // A benchmark leaves nothing running.
    let _ = child.kill();
    let _ = child.wait();
}
