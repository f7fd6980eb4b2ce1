//! Connections over a store that fails, and that loses some answers.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast_core::{
    Closed, ConnectParams, LiveSocket,
    store::{ManualClock, MemoryStore},
};

use super::{
    Program, by_now,
    live::{add, look},
};
use crate::{gated_store::GatedStore, lab::START, play::until};

/// Reads the available events; a missing number without an end is a lost line.
fn read(socket: &LiveSocket, last: &mut i64) -> bool {
    loop {
        let mut next = Box::pin(socket.next());
        match by_now(&mut next) {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok(event)) => {
                if let Some(number) = event.number {
                    assert_eq!(number, *last + 1, "a line was lost or doubled");
                    *last = number;
                }
            }
        }
    }
}

/// Connects, sends and leaves, repeatedly. Returns the names under which it certainly connected.
async fn client(
    app: Arc<Program>,
    number: usize,
    tried: Arc<Mutex<BTreeSet<String>>>,
) -> Vec<String> {
    let (mut last, mut came) = (0, Vec::new());
    for round in 0..8 {
        let name = format!("c{number}-{round}");
        tried.lock().unwrap().insert(name.clone());
        let arrival = ConnectParams::new().param("name", &name).after(last);
        let Ok(socket) = app.objects.connect("hall", "a", arrival).await else { continue };
        came.push(name);
        for _ in 0..6 {
            // The received events show whether it was recorded.
            let _ = socket.send("something").await;
            if !read(&socket, &mut last) {
                break;
            }
        }
        match round % 3 {
            0 => drop(socket),
            _ => socket.close(Closed::new(Closed::NORMAL, "")).await,
        }
    }
    came
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_store_that_fails_every_connection_ends_once_and_no_line_is_missed() {
    for seed in 1..=20 {
        let clock = ManualClock::at(START);
        let store = GatedStore::new(MemoryStore::new(Arc::new(clock.clone())));
        let app = Arc::new(Program::of(store.clone(), &clock, add).await);
        let tried = Arc::new(Mutex::new(BTreeSet::new()));
        store.make_trouble(seed * 7_919);
        let clients: Vec<_> =
            (0..4).map(|it| tokio::spawn(client(app.clone(), it, tried.clone()))).collect();
        // Retries of a failing store wait by this clock.
        until("the clients have left", async || {
            clock.advance(Duration::from_millis(500));
            clients.iter().all(|it| it.is_finished())
        })
        .await;
        store.make_trouble(0);
        let mut came = BTreeSet::new();
        for client in clients {
            came.extend(client.await.unwrap());
        }
        until("the ends are handled", async || {
            clock.advance(Duration::from_secs(1));
            app.objects.connections() == 0
        })
        .await;
        let seen = look(&app).await;
        let gone: BTreeSet<String> = seen.gone.iter().map(|it| it.0.clone()).collect();
        assert_eq!(gone.len(), seen.gone.len(), "seed {seed}: each is handled once");
        assert!(came.is_subset(&gone), "seed {seed}: {:?}", came.difference(&gone));
        assert!(gone.is_subset(&tried.lock().unwrap()), "seed {seed}");
        assert_eq!((seen.here, seen.connected), (Vec::new(), Vec::new()), "seed {seed}");
    }
}
