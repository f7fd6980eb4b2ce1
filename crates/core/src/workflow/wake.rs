//! Wake-ups: the messages that wake runs. The runs of a workflow share two targets, one for new
//! runs and one for resumed runs, so that a backlog delays neither other workflows nor resumed
//! runs.

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

/// The target of the wake-ups of new runs, and that of resumed ones.
pub(super) fn target(workflow: &str, begins: bool) -> Result<Address, AddressError> {
    let class = if begins { "workflow-start" } else { "workflow" };
    Address::new(EntityKind::System, class, workflow)
}

/// The wake-up of a new run.
pub(super) fn beginning(run: &Address, due: Due) -> Result<Message, InvalidInput> {
    message(run, due, Vec::new(), true)
}

/// A wake-up that is due immediately.
pub(super) fn at_once(run: &Address) -> Result<Message, InvalidInput> {
    message(run, AT_ONCE, Vec::new(), false)
}

/// A wake-up at the first of the times that a run waits for.
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

/// A wake-up that a driver holds.
pub(super) struct WakeUp {
    pub(super) position: Position,
    pub(super) lease: Option<Lease>,
    /// From 1. Earlier attempts ended with their process.
    pub(super) attempt: u32,
    /// The delivery that waits until the wake-up is settled. `None` if this process created the run
    /// and holds its first wake-up.
    pub(super) delivery: Option<oneshot::Sender<()>>,
}

impl WakeUp {
    /// Notifies the delivery that the wake-up is settled.
    pub(super) fn done(self) {
        if let Some(delivery) = self.delivery {
            // Ignore a delivery that was cancelled.
            let _ = delivery.send(());
        }
    }

    pub(super) fn settle(&self) -> Write {
        settle(self.position, self.lease, SettledAs::Done)
    }
}

/// Cancels a wake-up that its run no longer needs.
pub(super) fn cancel(position: Position) -> Write {
    settle(position, None, SettledAs::Cancelled)
}

fn settle(position: Position, lease: Option<Lease>, as_: SettledAs) -> Write {
    Write::Settle { position, lease, as_, error: None }
}
