//! Leases of deliveries, and the task that runs code of the user's.

use std::{
    any::Any,
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use parking_lot::Mutex;
use steadfast_store::{Commit, Lease, Position, Store, Timestamp, Write};
use tokio::task::JoinSet;

/// The leases of deliveries in flight.
#[derive(Default)]
pub(crate) struct Leases {
    last: Arc<AtomicI64>,
    held: Mutex<HashMap<Position, (Lease, Timestamp)>>,
}

impl Leases {
    /// Others, with numbers that differ from these.
    pub(crate) fn beside(&self) -> Self {
        Self { last: self.last.clone(), held: Mutex::default() }
    }

    /// A lease that this process has not given before. The number of an exclusive one is negative,
    /// so that the next process knows that nothing else that is suspect ran beside it.
    pub(crate) fn next(&self, store: &dyn Store, is_exclusive: bool) -> Lease {
        let number = 1 + self.last.fetch_add(1, Ordering::Relaxed);
        let number = if is_exclusive { -number } else { number };
        Lease { holder: store.owner().epoch, number }
    }

    pub(crate) fn hold(&self, position: Position, lease: Lease, until: Timestamp) {
        self.held.lock().insert(position, (lease, until));
    }

    /// When the lease of a message ends, if one is held.
    pub(crate) fn until(&self, position: Position) -> Option<Timestamp> {
        self.held.lock().get(&position).map(|(_, until)| *until)
    }

    pub(crate) fn let_go(&self, position: Position) {
        self.held.lock().remove(&position);
    }

    /// Gives back the leases of deliveries that were stopped, as if they had not begun.
    pub(crate) async fn release_all(&self, store: &dyn Store) {
        let held = std::mem::take(&mut *self.held.lock());
        for (position, (lease, _)) in held {
            let release = Commit::of(Write::Release { position, lease });
            if let Err(error) = store.commit(release).await {
                tracing::warn!(message_id = position, error = %error, "lease was not given back");
            }
        }
    }
}

/// Runs code of the user's in a task of its own, so that a panic harms nobody else. The task ends
/// when nobody waits for it any more, or with the reason that `over` gives.
pub(crate) async fn run_apart<T: Send + 'static>(
    who: &str,
    work: impl Future<Output = T> + Send + 'static,
    over: impl Future<Output = String>,
) -> Result<T, String> {
    let mut task = JoinSet::new();
    task.spawn(work);
    tokio::select! {
        Some(done) = task.join_next() => done.map_err(|error| match error.try_into_panic() {
            Ok(panic) => format!("the {who} panicked: {}", panic_message(&*panic)),
            Err(_) => format!("the {who} was cancelled"),
        }),
        reason = over => Err(reason),
    }
}

/// The text of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a text".into())
}
