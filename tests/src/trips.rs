//! Runs under load: trips with legs, naps, gates and events.

use std::{ops::Range, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Ctx, Error, Handle, Object, Objects, Result, Retry, RunError, Runs, Turn, Workflow,
    store::{Clock, Entropy, SeededEntropy, Store, SystemClock},
};

use crate::{COMMITS_MAX, say};

/// Concurrent starters of trips.
const GUIDES: u64 = 8;

/// The number of gates; `../it/trips.rs` reads each.
const GATES: u64 = 3;

/// Attempts that ended with their process count, and must not be the last.
const RETRY: Retry = Retry::constant(Duration::from_millis(2)).limit(1_000_000);

pub(crate) struct Gate;

#[derive(Serialize, Deserialize)]
pub(crate) struct Pass(u64, u64);
#[derive(Serialize, Deserialize)]
pub(crate) struct Tell(u64, u64);

impl Object for Gate {
    const CLASS: &'static str = "gate";
    type Calls = (Pass, Tell);
    // No key is unique here: a duplicate must be visible.
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE passed (id INTEGER PRIMARY KEY,
         what TEXT NOT NULL, trip INTEGER NOT NULL, walked TEXT NOT NULL) STRICT"];
}

fn enter(turn: &Turn<Gate>, what: &str, trip: u64, walked: u64) -> Result<i64> {
    let insert = "INSERT INTO passed (what, trip, walked) VALUES (?1, ?2, ?3)";
    turn.sql().execute(insert, (what, trip, walked.to_string()))?;
    Ok(turn.sql().last_insert_rowid())
}

impl Handle<Pass> for Gate {
    const NAME: &'static str = "pass";
    type Reply = i64;
    fn handle(&self, turn: &Turn<Self>, Pass(trip, walked): Pass) -> Result<i64> {
        enter(turn, "called", trip, walked)
    }
}

impl Handle<Tell> for Gate {
    const NAME: &'static str = "tell";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Tell(trip, walked): Tell) -> Result<()> {
        enter(turn, "sent", trip, walked).map(drop)
    }
}

pub(crate) struct Trip;

#[derive(Serialize, Deserialize)]
pub(crate) struct Home {
    packed: u64,
    walked: u64,
    slept: u64,
    row: i64,
    heard: Vec<u64>,
}

impl Workflow for Trip {
    const NAME: &'static str = "trip";
    type Input = u64;
    type Output = Home;

    async fn run(&self, ctx: &Ctx, trip: u64) -> Result<Home> {
        let gate = || Gate::at((trip % GATES).to_string());
        let millis = |limit| Duration::from_millis(trip % limit);
        let packed = leg(ctx, trip, "pack", 0).await?;
        ctx.sleep("nap", millis(7)).await?;
        let rest = ctx.sleep("rest", millis(5));
        let (walked, ()) = ctx.join(leg(ctx, trip, "walk", packed), rest).await?;
        let row = ctx.call(gate(), Pass(trip, walked)).await?;
        ctx.send(gate(), Tell(trip, walked)).await?;
        let mut heard = Vec::new();
        // Null is the last one.
        while let Some(news) = ctx.event::<Option<u64>>("news").await? {
            heard.push(news);
        }
        let slept = leg(ctx, trip, "sleep", walked).await?;
        Ok(Home { packed, walked, slept, row, heard })
    }
}

/// Returns another value each time that it runs, and prints its input: that must then be the
/// recorded value.
async fn leg(ctx: &Ctx, trip: u64, name: &str, before: u64) -> Result<u64> {
    let done = ctx.step(name, async || {
        say(&format!("did {trip} {name} {before}"));
        let chance = SeededEntropy::from_system().next();
        if chance.is_multiple_of(3) {
            SystemClock.sleep(Duration::from_millis(chance % 4)).await;
        }
        match chance % 5 {
            0 => Err(Error::retryable("the weather")),
            _ => Ok(chance),
        }
    });
    done.retry(RETRY).await
}

/// The runs of a victim.
pub(crate) fn runs(store: Arc<dyn Store>, objects: Objects) -> Runs {
    let entropy = Arc::new(SeededEntropy::from_system());
    Runs::new(store, entropy, objects).with(Trip)
}

/// A trip, and the number of its next event.
type Next = (u64, u64);

/// `7:0,8:2`, or `-` for none.
pub(crate) fn under_way(text: &str) -> Vec<Next> {
    let trips = text.split(',').filter_map(|it| it.split_once(':'));
    let number = |it: &str| it.parse().expect("a number");
    trips.map(|(trip, next)| (number(trip), number(next))).collect()
}

/// Completes the trips in progress, and starts new ones, some of which do not get the last event.
pub(crate) async fn load(runs: &Runs, under_way: &[Next], new: Range<u64>) {
    let guides: Vec<_> = (0..GUIDES)
        .map(|guide| {
            let all = under_way.iter().map(|(trip, next)| (*trip, *next, true));
            let all = all.chain(new.clone().map(|trip| (trip, 0, !trip.is_multiple_of(3))));
            let mine: Vec<_> = all.filter(|it| it.0 % GUIDES == guide).collect();
            let runs = runs.clone();
            tokio::spawn(async move {
                for (trip, next, ends) in mine {
                    guide_one(&runs, trip, next, ends).await;
                }
            })
        })
        .collect();
    for guide in guides {
        guide.await.expect("guide ends");
    }
}

/// The numbers of new trips from `first` on.
pub(crate) fn new_from(first: u64) -> Range<u64> {
    first..first + COMMITS_MAX
}

async fn guide_one(runs: &Runs, trip: u64, next: u64, ends: bool) {
    let id = trip.to_string();
    say(&format!("invoked {trip}"));
    match runs.start(Trip::at(&id), trip).await {
        Ok(_) => say(&format!("acked {trip}")),
        Err(error) => return wrong(trip, &error),
    }
    let news = (next..trip % 4).map(Some).chain(ends.then_some(None));
    for news in news {
        let word = news.map_or("last".into(), |it| it.to_string());
        say(&format!("telling {trip} {word}"));
        match runs.send_event(Trip::NAME, &id, "news", &news).await {
            Ok(()) => say(&format!("told {trip} {word}")),
            // The last event had arrived before, with an unknown outcome.
            Err(RunError::WrongStatus { .. }) if news.is_none() => {
                say(&format!("told {trip} {word}"));
            }
            // Later events must not overtake it.
            Err(error) => return wrong(trip, &error),
        }
    }
}

fn wrong(trip: u64, error: &RunError) {
    // The store determines whether it happened, if it failed.
    let word = if matches!(error, RunError::Store(_)) { "unknown" } else { "failed" };
    say(&format!("{word} {trip} {}: {error}", error.code()));
}
