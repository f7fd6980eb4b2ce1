//! `cargo run --release -p steadfast-bench
//! [store|postgres|backlog|processes|objects|sleepers [OBJECTS]|workflows|queues|buckets|uploads|
//! drift|generations|http|console [COUNT]|connections|start|years [COUNT]]`, or
//! `… race --against BINARY [--rounds N]`: the server of this workspace against another one.
//!
//! Machines are noisy, so every figure is printed next to a baseline of the same run, and as a
//! ratio to it. `STEADFAST_BENCH_POSTGRES` names a database for the PostgreSQL part,
//! `STEADFAST_TEST_MODELS` a folder of models for uploads; the default is the folder of
//! `tests/models`.

mod backlog;
mod buckets;
mod commits;
mod connections;
mod console;
mod drift;
mod generations;
mod http;
mod measure;
mod objects;
mod processes;
mod queues;
mod race;
mod raw;
mod s3;
mod sleepers;
mod start;
mod uploads;
mod workflows;
mod years;

use measure::say;

/// The same as in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // As the server does, before there are threads.
    steadfast_core::tune_sqlite();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(measure_all());
}

async fn measure_all() {
    let part = std::env::args().nth(1).unwrap_or_else(|| "all".into());
    if part == "race" {
        return race::run().await;
    }
    let wanted = |name: &str| part == "all" || part == name;
    say(&format!("machine: {}", measure::machine()));
    if wanted("store") {
        commits::sqlite().await;
    }
    if wanted("postgres") {
        match std::env::var("STEADFAST_BENCH_POSTGRES") {
            Ok(url) => commits::postgres(&url).await,
            Err(_) => say("PostgreSQL: skipped, STEADFAST_BENCH_POSTGRES is not set"),
        }
    }
    if wanted("backlog") {
        backlog::run().await;
    }
    if wanted("processes") {
        processes::run().await;
    }
    if wanted("objects") {
        objects::run().await;
    }
    if wanted("sleepers") {
        sleepers::run().await;
    }
    if wanted("workflows") {
        workflows::run().await;
    }
    if wanted("queues") {
        queues::run().await;
    }
    if wanted("buckets") {
        buckets::run().await;
        tokio::task::spawn_blocking(s3::run).await.expect("ends");
    }
    if wanted("uploads") {
        uploads::run().await;
    }
    if wanted("drift") {
        drift::run().await;
    }
    if wanted("generations") {
        generations::run().await;
    }
    if wanted("http") {
        http::run();
    }
    if wanted("console") {
        console::run();
    }
    if wanted("connections") {
        connections::run().await;
    }
    if wanted("start") {
        start::run();
    }
    if wanted("years") {
        years::run().await;
    }
}
