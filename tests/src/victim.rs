//! A process under load that is made to be killed.
//!
//! `victim PLACE MODE` opens the store at PLACE (a folder or a PostgreSQL URL) and writes a line
//! for every request to the store and for every answer, so that the killer knows the
//! expected contents.
//!
//! - `load FIRST`: commits under keys from FIRST on, executes due commands, until it is killed.
//! - `checkout FIRST`: initiates group checkouts from FIRST on, and runs them, until it is killed.
//! - `accounts FIRST AGAIN`: repeats the calls AGAIN (`1,2,3`, or `-` for none), then makes calls
//!   from FIRST on, until it is killed. `sweeping` does it while history is deleted.
//! - `repeat AGAIN`: only repeats, then drains.
//! - `trips FIRST UNDERWAY`: brings trips to their ends (`7:0,8:2` with the next event of
//!   each, or `-` for none), and begins new ones from FIRST on, until it is killed.
//! - `home UNDERWAY`: only brings them to their ends, then drains.
//! - `letters FIRST`: sends letters from FIRST on and consumes them, until it is killed.
//! - `delivered`: only consumes, then ends. `poisoned`: the same with few retries.
//! - `shots FOLDER FIRST`: changes blobs, whose files are in FOLDER, from FIRST on, until it is
//!   killed.
//! - `serve`: calls registers as its standard input says, until that ends.
//! - `drain`: executes everything that is due, then closes the store and ends.
//! - `poison`: the same with few attempts; the message "poison" ends the process.

mod accounts;
mod deeds;
mod fate;
mod letters;
mod order;
mod registers;
mod shots;
mod steps;
mod trips;

use std::{io::Write as _, sync::Arc, time::Duration};

use steadfast_core::{
    Dispatcher, DispatcherOptions, Failure, Handler, Objects, Runs,
    dispatch::HandlerDelivery,
    process::Processes,
    store::{
        Address, Cause, Commit, EntityKind, Json, Message, Outcome, PostgresOptions, PostgresStore,
        Remember, RetryPolicy, SqliteOptions, SqliteStore, Store, SystemClock, Write,
    },
};

use steadfast_checkout::{GroupCheckout, Hotel, group_checkout::Input};

/// Concurrent commits.
const WRITERS: u64 = 8;

/// A load that is not killed ends by itself.
const COMMITS_MAX: u64 = 3_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let store = open(args[0]).await;
    if let ["letters" | "delivered" | "poisoned", ..] = args[1..] {
        return post(store, &args[1..]).await;
    }
    if let ["shots", folder, first] = args[1..] {
        shots::load(store.clone(), folder, first.parse().expect("a number")).await;
        return store.close().await;
    }
    // A message that is in flight at a kill must not die because of it; the poison must.
    let attempts_max = if args[1] == "poison" { 3 } else { 1_000 };
    let objects = objects(store.clone());
    let runs = trips::runs(store.clone(), objects.clone());
    let routes = (objects.clone(), runs.clone());
    let dispatcher = dispatcher(store.clone(), routes, attempts_max).await;
    say("ready");
    match args[1..] {
        ["load", first] => load(&store, first.parse().expect("a number")).await,
        ["checkout", first] => checkout(&store, first.parse().expect("a number")).await,
        [mode @ ("accounts" | "sweeping"), first, again] => {
            let quiet = Arc::default();
            if mode == "sweeping" {
                accounts::sweep(store.clone(), Arc::clone(&quiet));
            }
            let new = accounts::new_from(first.parse().expect("a number"));
            accounts::load(&objects, &quiet, &numbers(again), new).await;
        }
        ["repeat", again] => {
            accounts::load(&objects, &Arc::default(), &numbers(again), 0..0).await;
            nothing_is_pending(&store).await;
        }
        ["trips", first, under_way] => {
            let new = trips::new_from(first.parse().expect("a number"));
            trips::load(&runs, &trips::under_way(under_way), new).await;
        }
        ["home", under_way] => {
            trips::load(&runs, &trips::under_way(under_way), 0..0).await;
            nothing_is_pending(&store).await;
        }
        ["serve"] => registers::serve(&objects).await,
        ["drain"] | ["poison"] => nothing_is_pending(&store).await,
        _ => panic!("unknown mode {args:?}"),
    }
    tokio::join!(dispatcher.stop(), runs.stop(DispatcherOptions::default().grace));
    store.close().await;
}

/// A whole program with queues.
async fn post(store: Arc<dyn Store>, args: &[&str]) {
    let retries = if args[0] == "poisoned" { 2 } else { fate::RETRIES };
    let program = letters::program(store.clone(), retries).await;
    say("ready");
    if let Some(first) = args.get(1) {
        letters::load(program.queues(), first.parse().expect("a number")).await;
    }
    letters::drained(&store).await;
    program.stop().await;
    store.close().await;
}

/// Returns when everything is delivered, including retries.
async fn nothing_is_pending(store: &Arc<dyn Store>) {
    let mut look = tokio::time::interval(Duration::from_millis(5));
    while store.totals().await.expect("store answers").pending != 0 {
        look.tick().await;
    }
}

async fn open(place: &str) -> Arc<dyn Store> {
    let clock = steps::clock();
    if place.starts_with("postgres") {
        let store = PostgresStore::open(PostgresOptions::new(place, clock)).await;
        Arc::new(store.expect("store opens"))
    } else {
        Arc::new(SqliteStore::open(SqliteOptions::new(place, clock)).expect("store opens"))
    }
}

fn objects(store: Arc<dyn Store>) -> Objects {
    let objects = Objects::builder(store).class(accounts::Account).class(registers::Register);
    objects.class(trips::Gate).perform(accounts::Performer).start().expect("objects start")
}

/// `1,2,3`, or `-` for none.
fn numbers(text: &str) -> Vec<u64> {
    let numbers = text.split(',').filter(|it| *it != "-");
    numbers.map(|it| it.parse().expect("a number")).collect()
}

async fn dispatcher(
    store: Arc<dyn Store>,
    (objects, runs): (Objects, Runs),
    attempts_max: u32,
) -> Dispatcher {
    let retry = RetryPolicy {
        attempts_max,
        delay: Duration::from_millis(20),
        delay_max: Duration::from_millis(50),
    };
    let dispatcher = Dispatcher::builder(store.clone())
        .route(hotels(store))
        .route(objects)
        .route(runs)
        .options(DispatcherOptions { retry, ..DispatcherOptions::default() })
        .on("outside", Worker { outside: true })
        .on("inside", Worker { outside: false });
    dispatcher.start().await.expect("dispatcher starts")
}

fn address(class: &str, name: &str) -> Address {
    Address::new(EntityKind::Stream, class, name).expect("address")
}

/// One write per line, so that a kill cannot leave half of it before another.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // A killer that no longer reads is about to kill.
    let _ = stdout.write_all(format!("{line}\n").as_bytes());
    let _ = stdout.flush();
}

/// Each writer has a stream of its own and commits input, event and command in one append.
async fn load(store: &Arc<dyn Store>, first: u64) {
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let stream = address("load", &writer.to_string());
            let mut version = store.version(stream.id()).await.expect("store answers");
            for key in (first..first + COMMITS_MAX).filter(|key| key % WRITERS == writer) {
                say(&format!("invoked {key}"));
                match store.commit(step(&stream, version, key)).await {
                    Ok(Outcome::Committed(receipt)) => {
                        version = receipt.appended.last().expect("appended").0;
                        say(&format!("acked {key}"));
                    }
                    Ok(other) => panic!("{other:?}"),
                    // The store determines whether it happened.
                    Err(error) => {
                        say(&format!("unknown {key} {}", error.code()));
                        version = store.version(stream.id()).await.unwrap_or(version);
                    }
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("writer ends");
    }
}

/// The process, and a hotel in which every third guest has not paid.
fn hotels(store: Arc<dyn Store>) -> Processes {
    let unpaid = (0..COMMITS_MAX * 10).filter(|it| it.is_multiple_of(3)).map(|it| it.to_string());
    Processes::new(store).with::<GroupCheckout>(Hotel::new(Arc::new(SystemClock)).unpaid(unpaid))
}

async fn checkout(store: &Arc<dyn Store>, first: u64) {
    let processes = hotels(store.clone());
    for number in first..first + COMMITS_MAX {
        let guests = (0..3).map(|guest| (number * 4 + guest).to_string()).collect();
        let input = Input::InitiateGroupCheckout {
            group_checkout_id: number.to_string(),
            clerk_id: "c".into(),
            guest_stay_account_ids: guests,
            now: 0,
        };
        say(&format!("invoked {number}"));
        match processes.input::<GroupCheckout>(&input, Some("initiate")).await {
            Ok(_) => say(&format!("acked {number}")),
            Err(error) => say(&format!("unknown {number} {}", error.code())),
        }
    }
}

fn step(stream: &Address, version: i64, key: u64) -> Commit {
    let data = Json::parse(&key.to_string()).expect("JSON");
    let kind = if key.is_multiple_of(2) { "inside" } else { "outside" };
    let message = |name| Message::new(name, data.clone()).expect("message");
    let input = message("input").event().input();
    let command = message(kind).cause(Cause::Sibling(0)).to(stream);
    let remember = Remember::new(stream.id(), &key.to_string(), b"").expect("key");
    Commit::append(stream, version, vec![input, command]).write(Write::Remember(remember))
}

/// Executes commands: prints them, and returns a result, which must be recorded exactly once.
struct Worker {
    outside: bool,
}

#[async_trait::async_trait]
impl Handler for Worker {
    async fn handle(&self, delivery: HandlerDelivery) -> Result<Commit, Failure> {
        let message = &delivery.message;
        say(&format!("executed {} {}", message.position, delivery.attempt));
        if message.data.as_str() == "\"poison\"" {
            std::process::abort();
        }
        let cause = Cause::Position(message.position);
        let result = Message::new("result", message.data.clone())?.event().input().cause(cause);
        let stream = address("results", message.data.as_str());
        Ok(Commit::of(Write::Append { stream, messages: vec![result] }))
    }

    fn leaves_the_process(&self) -> bool {
        self.outside
    }
}
