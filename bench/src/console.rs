//! The latency of the pages of the console in a store of 100,000 objects, runs and messages.
//! Everything is created over HTTP, as a program would.

use serde_json::json;

use crate::{
    http::{Caller, all_at_once, serve},
    measure::{now, percentile, say},
};

/// Objects, runs and messages; the second argument sets another number.
const COUNT: usize = 100_000;
/// Blobs; each is a file that is flushed.
const BLOBS: usize = 2_000;
/// Messages of one request.
const BATCH: usize = 100;
/// Requests of each page, after a few for warm-up.
const ASKED: usize = 200;
const WARM: usize = 20;
/// The target of the 95th percentile, in milliseconds.
const WANTED: f64 = 50.0;

pub(crate) fn run() {
    let count = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(COUNT);
    let folder = tempfile::tempdir().expect("temporary folder");
    let Some((mut child, address)) = serve(folder.path()) else { return };
    say(&format!("Console, {count} objects, runs and messages"));
    fill(&address, count);
    let mut caller = Caller::new(&address);
    for page in pages(count) {
        measure(&mut caller, &page);
    }
    // A benchmark leaves nothing running.
    let _ = child.kill();
    let _ = child.wait();
}

fn fill(address: &str, count: usize) {
    let began = now();
    let mut caller = Caller::new(address);
    caller.put_json("/v1/queues/backlog", "{}");
    caller.put("/v1/buckets/photos", "");
    let rule = json!({ "events": ["object-create"], "queue": "thumbnails" });
    caller.put_json("/v1/buckets/photos/rules/all", &rule.to_string());
    all_at_once(address, count, |it, number| {
        it.post(&format!("/v1/objects/counter/c-{number:06}/calls/increment"), r#"{"by":1}"#);
    });
    say(&format!("  objects are there after  {:>6.0} s", began.elapsed().as_secs_f64()));
    all_at_once(address, count, |it, number| {
        let input = json!({ "customer": format!("c-{number}"), "amounts": [100, 250] });
        let run = json!({ "id": format!("r-{number:06}"), "input": input });
        it.post("/v1/workflows/invoice/runs", &run.to_string());
    });
    say(&format!("  runs are there after     {:>6.0} s", began.elapsed().as_secs_f64()));
    all_at_once(address, count / BATCH, |it, number| {
        let message = |place: usize| json!({ "body": { "number": number * BATCH + place } });
        let messages: Vec<_> = (0..BATCH).map(message).collect();
        it.post("/v1/queues/backlog/messages", &json!({ "messages": messages }).to_string());
    });
    all_at_once(address, BLOBS, |it, number| {
        let (folder, key) = (number % 20, number / 20);
        it.put(&format!("/v1/buckets/photos/objects/{folder:02}/{key:05}.txt"), "a small text");
    });
    say(&format!("  the rest is there after  {:>6.0} s", began.elapsed().as_secs_f64()));
}

/// Every page with data. Lists are requested at their beginning and in their middle.
fn pages(count: usize) -> Vec<String> {
    let middle = count / 2;
    let object = format!("/objects/counter/c-{middle:06}");
    let run = format!("/workflows/invoice/r-{middle:06}");
    [
        "/",
        &format!("/search?q=c-{middle:06}"),
        "/objects",
        "/objects/counter",
        &format!("/objects/counter?prefix=c-{:02}", middle / 10_000),
        &object,
        &format!("{object}/tables/counter"),
        &format!("{object}/turns"),
        &format!("{object}/turns/1"),
        &format!("{object}/sql"),
        "/workflows",
        "/workflows/invoice",
        "/workflows/invoice?status=complete",
        &run,
        &format!("{run}/history"),
        "/queues",
        "/queues/backlog",
        "/queues/backlog?state=pending",
        "/buckets",
        "/buckets/photos",
        "/buckets/photos?prefix=07/",
        "/buckets/photos/events",
        "/buckets/photos/blob?key=07/00007.txt",
        "/streams",
        "/streams/pending",
        "/streams/dead",
        "/processes",
    ]
    .map(str::to_owned)
    .into()
}

fn measure(caller: &mut Caller, page: &str) {
    for _ in 0..WARM {
        caller.get(page);
    }
    let times = (0..ASKED).map(|_| {
        let began = now();
        caller.get(page);
        began.elapsed()
    });
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    let (p50, p95) = (percentile(&times, 50), percentile(&times, 95));
    let slow = if p95 < WANTED { "" } else { "  slow" };
    say(&format!("  {page:<44} p50 {p50:>7.2} ms  p95 {p95:>7.2} ms{slow}"));
}
