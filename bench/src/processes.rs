//! Inputs decided per second over 1,000 instances, against bare appends of the same rows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Failure,
    process::{Action::Publish, Actions, Event, EventOf, Execute, Process, Processes, Refused},
    store::{
        Address, Commit, EntityKind, Json, Message, SqliteOptions, SqliteStore, Store, SystemClock,
    },
};

use crate::measure::{now, rate, say};

const INSTANCES: usize = 1_000;
const IN_FLIGHT: usize = 64;
const COUNT: usize = 64_000;
const ROUNDS: usize = 3;

/// Counts guests: each input publishes one event.
struct Guests;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Input {
    Arrived { hotel: String, guest: u32 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data")]
enum Output {
    Counted { guests: u32 },
}

impl Process for Guests {
    const NAME: &'static str = "guests";
    type Input = Input;
    type Output = Output;
    type State = u32;

    fn route(Input::Arrived { hotel, .. }: &Input) -> Option<String> {
        Some(hotel.clone())
    }

    fn decide(_: &Input, guests: &u32) -> Result<Actions<Self>, Refused> {
        Ok(vec![Publish(Output::Counted { guests: guests + 1 })])
    }

    fn evolve(guests: u32, event: &EventOf<Self>) -> u32 {
        guests + u32::from(matches!(event, Event::InitiatedBy(_) | Event::Received(_)))
    }
}

struct Nobody;

impl Execute<Guests> for Nobody {
    async fn execute(&self, _: Output, _: &str) -> Result<Option<Input>, Failure> {
        Ok(None)
    }
}

pub(crate) async fn run() {
    say("Processes, SQLite, 1,000 instances, 64 in flight");
    let (mut decided, mut appended) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        decided.push(decide().await);
        appended.push(append().await);
    }
    decided.sort_by(f64::total_cmp);
    appended.sort_by(f64::total_cmp);
    let (decided, appended) = (decided[ROUNDS / 2], appended[ROUNDS / 2]);
    say(&format!("  inputs decided                     {decided:>9.0}/s"));
    say(&format!("  bare appends of the same rows      {appended:>9.0}/s"));
    say(&format!("  ratio                              {:>9.2} x", decided / appended));
}

fn open(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    let options = SqliteOptions::new(folder.path(), Arc::new(SystemClock));
    Arc::new(SqliteStore::open(options).expect("store opens"))
}

async fn decide() -> f64 {
    let folder = tempfile::tempdir().expect("temporary folder");
    let store = open(&folder);
    let processes = Processes::new(store.clone()).with::<Guests>(Nobody);
    let began = now();
    let tasks = (0..IN_FLIGHT).map(|task| {
        let processes = processes.clone();
        tokio::spawn(async move {
            for number in 0..COUNT / IN_FLIGHT {
                let hotel = (task + IN_FLIGHT * number) % INSTANCES;
                let input = Input::Arrived { hotel: hotel.to_string(), guest: number as u32 };
                processes.input::<Guests>(&input, None).await.expect("decided");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("task ends");
    }
    let rate = rate(COUNT, began.elapsed());
    store.close().await;
    rate
}

async fn append() -> f64 {
    let folder = tempfile::tempdir().expect("temporary folder");
    let store = open(&folder);
    let began = now();
    let tasks = (0..IN_FLIGHT).map(|task| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..COUNT / IN_FLIGHT {
                let hotel = (task + IN_FLIGHT * number) % INSTANCES;
                let stream = Address::new(EntityKind::Process, "guests", &hotel.to_string());
                let stream = stream.expect("address");
                let write =
                    steadfast_core::store::Write::Append { stream, messages: rows(hotel, number) };
                store.commit(Commit::of(write)).await.expect("store answers");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("task ends");
    }
    let rate = rate(COUNT, began.elapsed());
    store.close().await;
    rate
}

fn rows(hotel: usize, number: usize) -> Vec<Message> {
    let message = |name, data: String| {
        Message::new(name, Json::parse(&data).expect("JSON")).expect("message").event()
    };
    vec![
        message("Arrived", format!(r#"{{"guest":{number},"hotel":"{hotel}"}}"#)).input(),
        message("Counted", format!(r#"{{"guests":{number}}}"#)).action("publish"),
    ]
}
