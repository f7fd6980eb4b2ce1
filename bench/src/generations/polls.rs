//! Clients that poll the progress of generations, 500 times a second whatever the response time.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use crate::{http::Caller, measure::now};

/// Clients, and their rate in all.
const PEOPLE: usize = 64;
const EVERY: Duration = Duration::from_millis(2);

pub(super) struct Polls {
    ids: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    people: Vec<JoinHandle<Vec<Duration>>>,
}

impl Polls {
    /// Starts to poll these, and those that are added.
    pub(super) fn start(address: SocketAddr, ids: Vec<String>) -> Self {
        let (ids, is_over) = (Arc::new(Mutex::new(ids)), Arc::new(AtomicBool::new(false)));
        let (turn, began) = (Arc::new(AtomicUsize::new(0)), now());
        let people = (0..PEOPLE).map(|_| {
            let (ids, is_over, turn) = (ids.clone(), is_over.clone(), turn.clone());
            std::thread::spawn(move || ask(address, &ids, &is_over, &turn, began))
        });
        let people = people.collect();
        Self { ids, is_over, people }
    }

    pub(super) fn ids(&self) -> Arc<Mutex<Vec<String>>> {
        self.ids.clone()
    }

    pub(super) fn take_over(&mut self, ids: Vec<String>) {
        *self.ids.lock().expect("no thread panics") = ids;
    }

    /// The duration of each answer, from its scheduled time.
    pub(super) async fn end(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::SeqCst);
        let people = self.people;
        let all = move || people.into_iter().flat_map(|it| it.join().expect("ends")).collect();
        tokio::task::spawn_blocking(all).await.expect("ends")
    }
}

/// One client: takes the next slot, waits for its time, polls.
fn ask(
    address: SocketAddr,
    ids: &Mutex<Vec<String>>,
    is_over: &AtomicBool,
    turn: &AtomicUsize,
    began: Instant,
) -> Vec<Duration> {
    let (mut caller, mut times) = (Caller::new(&address.to_string()), Vec::new());
    while !is_over.load(Ordering::SeqCst) {
        let number = turn.fetch_add(1, Ordering::Relaxed);
        let due = began + EVERY * u32::try_from(number).expect("fits");
        while now() < due {
            std::thread::park_timeout(due.saturating_duration_since(now()));
        }
        let id = {
            let ids = ids.lock().expect("no thread panics");
            if ids.is_empty() {
                continue;
            }
            // A stride that visits all of them.
            ids[number * 7_919 % ids.len()].clone()
        };
        caller.get(&format!("/api/generations/{id}"));
        // A late answer delays the next ones: that is counted, too.
        times.push(due.elapsed());
    }
    times
}
