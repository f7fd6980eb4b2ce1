//! Checks the trips of a store after their process was killed.
//!
//! The oracle: acknowledged starts and events are found, found ones were requested, each result is
//! recorded once, and no result that a step, an object or a caller has seen is lost.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steadfast_core::{
    object::pages_at,
    store::{Address, EntityKind, Store},
};

use crate::killer::{Victim, open, read_all};

/// As in the victim.
const GATES: u64 = 3;

/// A trip, and the number of an event that is not the last.
type News = (u64, u64);

/// The requests of the victims of one store, and the answers.
#[derive(Default)]
pub(crate) struct Trips {
    invoked: BTreeSet<u64>,
    acked: BTreeSet<u64>,
    telling: BTreeSet<News>,
    told: BTreeSet<News>,
    /// Trips that got the last event.
    ended: BTreeSet<u64>,
    /// The input of each leg, for each time that it ran.
    did: BTreeMap<(u64, String), Vec<u64>>,
}

/// The record of one trip.
#[derive(Default)]
struct Record {
    started: usize,
    /// Events that arrived, in their order.
    news: Vec<u64>,
    output: Option<Value>,
    /// All of it, to diagnose failures.
    story: Vec<String>,
}

impl Trips {
    /// An unused number.
    pub(crate) fn next_number(&self) -> u64 {
        self.invoked.last().map_or(0, |last| last + 1)
    }

    /// Trips that did not get the last event, with the next event for each. An event that may have
    /// arrived is not sent again: events have no keys.
    pub(crate) fn under_way(&self) -> String {
        let open: Vec<String> = self
            .invoked
            .difference(&self.ended)
            .map(|trip| {
                let last = self.telling.range((*trip, 0)..=(*trip, u64::MAX)).next_back();
                format!("{trip}:{}", last.map_or(0, |it| it.1 + 1))
            })
            .collect();
        if open.is_empty() { "-".into() } else { open.join(",") }
    }

    pub(crate) fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        match words[..] {
            ["ready"] | ["unknown", ..] | ["telling", _, "last"] => {}
            ["invoked", _] => _ = self.invoked.insert(number(1)),
            ["acked", _] => _ = self.acked.insert(number(1)),
            ["told", _, "last"] => _ = self.ended.insert(number(1)),
            ["telling", _, _] => {
                assert!(
                    self.telling.insert((number(1), number(2))),
                    "an event is sent once: {line}"
                );
            }
            ["told", _, _] => _ = self.told.insert((number(1), number(2))),
            ["did", _, leg, _] => {
                self.did.entry((number(1), leg.into())).or_default().push(number(3));
            }
            _ => panic!("unexpected line {line}"),
        }
    }

    /// Follows a victim to its end, and kills it after this many lines.
    pub(crate) fn follow(&mut self, victim: Victim, lines: usize) -> std::process::ExitStatus {
        victim.follow(lines, |line| self.note(line))
    }

    pub(crate) fn summary(&self) -> String {
        let (trips, news) = (self.acked.len(), self.told.len());
        let (legs, did) = (self.did.len(), self.did.values().map(Vec::len).sum::<usize>());
        assert!(0 < trips && 0 < news && legs < did);
        format!("{trips} trips and {news} news acknowledged, {legs} legs done {did} times")
    }

    /// The oracle, at any time.
    pub(crate) async fn check(&self, place: &str) {
        let store = open(place).await;
        self.check_records(&read(&*store).await);
        assert_eq!(store.violations().await.expect("store answers"), Vec::<String>::new());
        store.close().await;
    }

    fn check_records(&self, records: &BTreeMap<u64, Record>) {
        let lost: Vec<_> = self.acked.iter().filter(|it| !records.contains_key(it)).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        let mut found = BTreeSet::new();
        for (trip, record) in records {
            assert!(self.invoked.contains(trip), "trip {trip} was made up");
            assert_eq!(record.started, 1, "trip {trip} began more than once");
            for news in &record.news {
                assert!(found.insert((*trip, *news)), "trip {trip} has news {news} twice");
            }
        }
        let lost: Vec<_> = self.told.difference(&found).collect();
        assert!(lost.is_empty(), "news acknowledged and lost: {lost:?}");
        let made_up: Vec<_> = found.difference(&self.telling).collect();
        assert!(made_up.is_empty(), "news made up: {made_up:?}");
    }

    /// The oracle when all trips got the last event: all have ended, each with the values that were
    /// seen outside.
    pub(crate) async fn check_all_done(&self, place: &str) {
        self.check(place).await;
        let store = open(place).await;
        let records = read(&*store).await;
        let mut gates = read_gates(&*store).await;
        assert!(self.acked.iter().eq(records.keys()), "started and not acknowledged");
        for (trip, record) in &records {
            let Some(output) = &record.output else {
                panic!("trip {trip} has not ended: {:#?}", record.story);
            };
            let value = |name: &str| output[name].as_u64().expect("a number");
            let heard: Vec<u64> = serde_json::from_value(output["heard"].clone()).unwrap();
            assert_eq!(heard, record.news, "trip {trip} takes each of its news once, in order");
            let (packed, walked) = (value("packed"), value("walked"));
            for (leg, given) in [("pack", 0), ("walk", packed), ("sleep", walked)] {
                let did = self.did.get(&(*trip, leg.into())).map_or(&[][..], Vec::as_slice);
                let told = format!("trip {trip}: {leg} was given {given}, and the world saw");
                assert!(!did.is_empty() && did.iter().all(|it| *it == given), "{told} {did:?}");
            }
            let row = output["row"].as_i64().expect("a number");
            let (called, sent) = (gates.remove(&("called".into(), *trip)), ("sent".into(), *trip));
            assert_eq!(called, Some(vec![(row, walked)]), "trip {trip} passes its gate once");
            let sent = gates.remove(&sent).unwrap_or_default();
            assert_eq!(sent.len(), 1, "trip {trip} calls its gate once: {sent:?}");
            assert_eq!(sent[0].1, walked, "trip {trip}");
        }
        assert!(gates.is_empty(), "not requested: {gates:?}");
        let totals = store.totals().await.expect("store answers");
        assert_eq!((totals.pending, totals.dead), (0, 0));
        store.close().await;
    }
}

/// The record of each trip. Nothing is recorded twice.
async fn read(store: &dyn Store) -> BTreeMap<u64, Record> {
    let all = read_all(store).await;
    let streams: BTreeSet<_> = all.iter().map(|it| it.stream).collect();
    let streams: Vec<_> = streams.into_iter().collect();
    let addresses = store.addresses(&streams).await.expect("store answers");
    let mut records: BTreeMap<u64, Record> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for message in &all {
        let address = &addresses[&message.stream];
        let data: Value = serde_json::from_str(message.data.as_str()).expect("JSON");
        // Its messages are in its stream, too.
        let (EntityKind::Run, Some(entry)) = (address.kind(), data["entry"].as_str()) else {
            continue;
        };
        let trip: u64 = address.name().parse().expect("a number");
        let record = records.entry(trip).or_default();
        record.story.push(format!("{} {:?} {data}", message.position, message.state));
        assert!(record.output.is_none() || entry == "event", "trip {trip} after its end: {data}");
        let mut once = |what: &str| assert!(known.insert((trip, what.to_owned())), "twice: {data}");
        match entry {
            "started" => record.started += 1,
            "done" | "timer" => once(&format!("{entry} {}", data["key"])),
            "took" => {
                once(&format!("took {}", data["key"]));
                once(&format!("taken {}", data["event"]));
            }
            "event" => record.news.extend(data["payload"].as_u64()),
            "completed" => record.output = Some(data["output"].clone()),
            "tried" | "wake" | "waits" => {}
            _ => panic!("trip {trip} must not have {data}"),
        }
    }
    records
}

/// The rows of the gates: cause and trip, row and value.
async fn read_gates(store: &dyn Store) -> BTreeMap<(String, u64), Vec<(i64, u64)>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for gate in 0..GATES {
        let address = Address::new(EntityKind::Object, "gate", &gate.to_string()).unwrap();
        let sql = pages_at(store, &address, None).await.unwrap().open().unwrap();
        let mut rows = sql.prepare("SELECT what, trip, id, walked FROM passed").unwrap();
        let mut rows = rows.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let (what, trip, id) = (row.get(0).unwrap(), row.get(1).unwrap(), row.get(2).unwrap());
            let walked: String = row.get(3).unwrap();
            found.entry((what, trip)).or_default().push((id, walked.parse().unwrap()));
        }
    }
    found
}
