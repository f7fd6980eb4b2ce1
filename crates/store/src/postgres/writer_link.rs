//! The writer's connection, as readers need it.

use std::time::Instant;

use deadpool_postgres::{Client, Object};
use parking_lot::{Mutex, MutexGuard};

use super::node::AcknowledgedBatch;
use crate::Position;

/// The writer's connection, and the last batch that was acknowledged over it.
pub(super) struct WriterLink(Mutex<State>);

struct State {
    acknowledged: AcknowledgedBatch,
    /// When the writer connected. Older connections may be to a server that was replaced.
    since: Instant,
}

impl WriterLink {
    pub(super) fn new(epoch: i64, position: Position) -> Self {
        let acknowledged = AcknowledgedBatch { epoch, batch: 0, commits: 0, position };
        Self(Mutex::new(State { acknowledged, since: now() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// The batch that the database must have.
    pub(super) fn acknowledged(&self) -> AcknowledgedBatch {
        self.state().acknowledged
    }

    /// Records a batch that is about to be acknowledged.
    pub(super) fn acknowledge(&self, acknowledged: AcknowledgedBatch) {
        self.state().acknowledged = acknowledged;
    }

    /// The writer has connected again.
    pub(super) fn reconnected(&self, acknowledged: AcknowledgedBatch) {
        *self.state() = State { acknowledged, since: now() };
    }

    /// Whether a reader's connection is not older than the writer's.
    pub(super) fn is_current(&self, reader: &Client) -> bool {
        self.state().since <= Object::metrics(reader).created
    }
}

#[expect(clippy::disallowed_methods, reason = "connections live in real time, in tests as well")]
fn now() -> Instant {
    Instant::now()
}
