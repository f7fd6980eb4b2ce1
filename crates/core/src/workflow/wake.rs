//! Wake-ups: the messages by which the store has a run go on. All runs of a workflow are two
//! targets, one for those that begin and one for those that go on, so that many of them hold up
//! neither other workflows nor each other.

use std::time::Duration;

use serde_json::json;
use steadfast_store::{
    Address, AddressError, Due, EntityKind, InvalidInput, Json, Lease, Message, Position,
    SettledAs, Task, Write,
};
use tokio::sync::oneshot;

use super::record::{Entry, Wait};

/// Now.
pub(super) const AT_ONCE: Due = Due::After(Duration::ZERO);

/// Where the wake-ups of runs go that begin, and of those that go on.
pub(super) fn target(workflow: &str, begins: bool) -> Result<Address, AddressError> {
    let class = if begins { "workflow-start" } else { "workflow" };
    Address::new(EntityKind::System, class, workflow)
}

/// Has a run begin.
pub(super) fn beginning(run: &Address, due: Due) -> Result<Message, InvalidInput> {
    message(run, due, Vec::new(), true)
}

/// Has a run go on at once.
pub(super) fn at_once(run: &Address) -> Result<Message, InvalidInput> {
    message(run, AT_ONCE, Vec::new(), false)
}

/// Has a run go on at the first of the times that it waits for.
pub(super) fn wake_up(run: &Address, due: Due, waits: Vec<Wait>) -> Result<Message, InvalidInput> {
    message(run, due, waits, false)
}

fn message(
    run: &Address,
    due: Due,
    waits: Vec<Wait>,
    begins: bool,
) -> Result<Message, InvalidInput> {
    let target = target(run.class(), begins).map_err(|_| InvalidInput::Key { len: 0 })?;
    let metadata = Json::of(&json!({ "to": run.to_string() }))?;
    let wake = Json::of(&Entry::Wake { waits })?;
    let message = Message::new("wake", wake)?.action("run").metadata(metadata)?;
    Ok(message.task(Task { target, ordered: false, due }))
}

/// A wake-up that a driver has taken.
pub(super) struct WakeUp {
    pub(super) position: Position,
    pub(super) lease: Option<Lease>,
    /// From 1. The attempts before ended with their process.
    pub(super) attempt: u32,
    /// The delivery that waits until the wake-up is settled. `None` if the run was made here, and
    /// we hold its first wake-up.
    pub(super) delivery: Option<oneshot::Sender<()>>,
}

impl WakeUp {
    /// Tells the delivery that the wake-up is settled.
    pub(super) fn done(self) {
        if let Some(delivery) = self.delivery {
            // A delivery that was given up does not listen.
            let _ = delivery.send(());
        }
    }

    pub(super) fn settle(&self) -> Write {
        settle(self.position, self.lease, SettledAs::Done)
    }
}

/// Ends the wake-up of a run that no longer waits for it.
pub(super) fn cancel(position: Position) -> Write {
    settle(position, None, SettledAs::Cancelled)
}

fn settle(position: Position, lease: Option<Lease>, as_: SettledAs) -> Write {
    Write::Settle { position, lease, as_, error: None }
}
