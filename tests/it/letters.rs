//! Checks the letters of a store after their process was killed.
//!
//! The oracle: acknowledged letters are found, found letters were sent, each is done once or dead
//! once according to its number, and none is handled twice without an end in between.

use std::collections::{BTreeMap, BTreeSet};

use steadfast_core::{
    object::{HistoryError, pages_at},
    store::{
        Address, DueCursor, EntityKind, QueuedMessage, Recorded, SettledAs, State, Store, Timestamp,
    },
};

use crate::{
    fate::{End, Fate, GROUP, RETRIES, TALLIES},
    killer::{Victim, open, read_all},
};

/// The consumed queues, each with its dead-letter queue.
const QUEUES: [(&str, &str); 2] = [("letters", "letters-dead"), ("bundles", "bundles-dead")];

/// The requests of the victims of one store, and the answers.
#[derive(Default)]
pub(crate) struct Post {
    invoked: BTreeSet<u64>,
    /// The id of each.
    acked: BTreeMap<u64, i64>,
    /// The victims that were done with each.
    done: BTreeMap<u64, Vec<usize>>,
    /// The attempts that began in the present victim.
    attempts: BTreeSet<(u64, u32)>,
    /// When each was sent, as it was first seen.
    sent_at: BTreeMap<i64, Timestamp>,
    victims: usize,
}

/// The letters of a store.
struct Found {
    messages: BTreeMap<u64, Recorded>,
    /// The queues of pending ones, and all their attempts.
    waiting: BTreeMap<u64, (&'static str, QueuedMessage)>,
    /// The number of times each was counted.
    counted: BTreeMap<u64, usize>,
}

impl Post {
    /// An unused number.
    pub(crate) fn next_number(&self) -> u64 {
        self.invoked.last().map_or(0, |last| last + 1).next_multiple_of(GROUP)
    }

    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().expect("a number");
        match words[..] {
            ["ready"] | ["unknown", ..] => {}
            ["invoked", _] => assert!(self.invoked.insert(number(1)), "sent twice: {line}"),
            ["acked", _, _] => _ = self.acked.insert(number(1), number(2) as i64),
            ["began", _, id, _] => {
                let known = self.acked.get(&number(1)).map(ToString::to_string);
                assert!(known.is_none_or(|it| it == id), "the id has changed: {line}");
                let attempt = number(3) as u32;
                assert!(self.attempts.insert((number(1), attempt)), "an attempt twice: {line}");
            }
            ["done", _] => {
                let victims = self.done.entry(number(1)).or_default();
                assert!(!victims.contains(&self.victims), "done twice by one process: {line}");
                victims.push(self.victims);
            }
            _ => panic!("unexpected line {line}"),
        }
    }

    /// Follows a victim to its end, and kills it after this many lines.
    pub(crate) fn follow(&mut self, victim: Victim, lines: usize) -> std::process::ExitStatus {
        self.victims += 1;
        self.attempts.clear();
        victim.follow(lines, |line| self.note(line))
    }

    pub(crate) fn summary(&self) -> String {
        let (acked, done) = (self.acked.len(), self.done.len());
        let again = self.done.values().filter(|it| 1 < it.len()).count();
        let dead = self.acked.keys().filter(|it| Fate::of(**it).end == End::Dead).count();
        let delayed = self.acked.keys().filter(|it| !Fate::of(**it).delay.is_zero()).count();
        assert!(0 < done && 0 < dead && 0 < delayed);
        format!(
            "{acked} letters acknowledged, {delayed} of them delayed, {done} done, {again} of them \
             again, {dead} dead"
        )
    }

    /// The oracle, at any time.
    pub(crate) async fn check(&mut self, place: &str) {
        let store = open(place).await;
        let found = Found::read(&*store).await;
        self.check_found(&found);
        assert_eq!(store.violations().await.expect("store answers"), Vec::<String>::new());
        store.close().await;
    }

    fn check_found(&mut self, found: &Found) {
        for (number, id) in &self.acked {
            let message = found.messages.get(number);
            let position = message.map(|it| it.position);
            assert_eq!(position, Some(*id), "letter {number} was acknowledged and lost");
        }
        for (number, message) in &found.messages {
            assert!(self.invoked.contains(number), "letter {number} was made up");
            let sent_at = self.sent_at.entry(message.position).or_insert(message.created_at);
            assert_eq!(*sent_at, message.created_at, "letter {number}");
            let (fate, waiting) = (Fate::of(*number), found.waiting.get(number));
            if fate.together {
                let first = number / GROUP * GROUP;
                let group = (first..first + GROUP).all(|it| found.messages.contains_key(&it));
                assert!(group, "the batch of letter {number} was torn");
            }
            let is_done = match (&message.state, waiting) {
                (Some(State::Settled(it)), None) => it.as_ == SettledAs::Done,
                (Some(State::Pending { .. } | State::InFlight { .. }), Some((queue, _))) => {
                    let is_dead = QUEUES.iter().any(|it| it.1 == *queue);
                    assert!(!is_dead || fate.end == End::Dead, "letter {number} was buried");
                    false
                }
                other => panic!("letter {number} is nowhere, or in two places: {other:?}"),
            };
            let is_counted = fate.end == End::Counted;
            let times = usize::from(is_done && is_counted);
            let counted = found.counted.get(number).copied().unwrap_or(0);
            assert_eq!(counted, times, "letter {number}, done: {is_done}");
            // A process may be killed between the commit and its output.
            let told = self.done.contains_key(number) || is_counted;
            assert!(!is_done || told, "letter {number} is done without a consumer");
        }
        let made_up: Vec<_> =
            found.counted.keys().filter(|it| !found.messages.contains_key(it)).collect();
        assert!(made_up.is_empty(), "counted and never sent: {made_up:?}");
    }

    /// The oracle when nothing is left to be consumed: each letter is done, or a dead letter with
    /// its error, according to its number.
    pub(crate) async fn check_all_done(&mut self, place: &str) {
        self.check(place).await;
        let store = open(place).await;
        let found = Found::read(&*store).await;
        for number in found.messages.keys() {
            let fate = Fate::of(*number);
            let Some((queue, letter)) = found.waiting.get(number) else {
                assert_ne!(fate.end, End::Dead, "letter {number} is done");
                continue;
            };
            let dead = QUEUES.iter().find(|it| it.0 == fate.queue).expect("a queue").1;
            assert_eq!((fate.end, *queue), (End::Dead, dead), "letter {number} has not ended");
            assert!(RETRIES < letter.attempts, "letter {number}: {letter:?}");
            assert_eq!(letter.tries(), 0, "letter {number} has new attempts: {letter:?}");
            let error = letter.message.last_error.as_deref().unwrap_or_default();
            let own = format!("no such street: {number}");
            let is_known = error.contains(&own) || error.starts_with("the process ended");
            // In a bundle the last attempt may end with that of another one.
            let others = ["no such street: ", "nobody at home"];
            let is_shared = fate.queue == "bundles" && others.iter().any(|it| error.contains(it));
            assert!(is_known || is_shared, "letter {number}: {error}");
        }
        let totals = store.totals().await.expect("store answers");
        assert_eq!((totals.pending, totals.dead), (found.waiting.len() as i64, 0));
        store.close().await;
    }
}

impl Found {
    async fn read(store: &dyn Store) -> Self {
        let mut messages = BTreeMap::new();
        for message in read_all(store).await.into_iter().filter(|it| it.action == "enqueue") {
            let number: u64 = message.data.as_str().parse().expect("a number");
            let twice = messages.insert(number, message);
            assert!(twice.is_none(), "letter {number} is there twice: {twice:?}");
        }
        let mut waiting = BTreeMap::new();
        for queue in QUEUES.into_iter().flat_map(|(queue, dead)| [queue, dead]) {
            let id = Address::new(EntityKind::Queue, queue, "0").unwrap().id();
            let mut after = DueCursor::START;
            loop {
                let page = store.queue_messages(id, after, Timestamp::MAX, 500).await.unwrap();
                let Some(last) = page.last() else { break };
                after = DueCursor { due_at: last.due_at(), position: last.message.position };
                for letter in page {
                    let number: u64 = letter.message.data.as_str().parse().expect("a number");
                    let twice = waiting.insert(number, (queue, letter));
                    assert!(twice.is_none(), "letter {number} waits twice: {twice:?}");
                }
            }
        }
        Self { messages, waiting, counted: counted(store).await }
    }
}

async fn counted(store: &dyn Store) -> BTreeMap<u64, usize> {
    let mut counted: BTreeMap<u64, usize> = BTreeMap::new();
    for tally in 0..TALLIES {
        let address = Address::new(EntityKind::Object, "tally", &tally.to_string()).unwrap();
        let past = match pages_at(store, &address, None).await {
            Ok(past) => past,
            Err(HistoryError::NoTurn { last: 0, .. }) => continue,
            Err(error) => panic!("tally {tally}: {error}"),
        };
        let sql = past.open().unwrap();
        let mut rows = sql.prepare("SELECT number FROM counted").unwrap();
        let mut rows = rows.query(()).unwrap();
        while let Some(row) = rows.next().unwrap() {
            *counted.entry(row.get(0).unwrap()).or_default() += 1;
        }
    }
    counted
}
