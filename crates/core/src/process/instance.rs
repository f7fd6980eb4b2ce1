//! An instance of a process: its folded stream.

use serde::de::IgnoredAny;
use serde_json::Value;
use steadfast_store::{Address, Json, Snapshot, Store, StoreError, Version, limits};

use super::{Event, EventOf, InputError, Process, record};
use crate::body::to_value;

/// An instance, folded from its stream.
pub(super) struct Instance<P: Process> {
    pub(super) state: P::State,
    pub(super) version: Version,
    pub(super) completed: bool,
    /// Whether it has ever scheduled an input, so that there may be one to cancel.
    pub(super) scheduled: bool,
    /// Messages since its last snapshot.
    pub(super) unkept: Version,
}

impl<P: Process> Clone for Instance<P> {
    fn clone(&self) -> Self {
        Self {
            state: self.state.clone(),
            version: self.version,
            completed: self.completed,
            scheduled: self.scheduled,
            unkept: self.unkept,
        }
    }
}

/// Messages of one page while a stream is read.
const PAGE: usize = 500;

/// Messages after which a snapshot is written, so that long streams need not be read whole.
const KEEP_AFTER: Version = 200;

impl<P: Process> Instance<P> {
    fn new() -> Self {
        let state = P::State::default();
        Self { state, version: 0, completed: false, scheduled: false, unkept: 0 }
    }

    /// Reads the last snapshot of this code, and the stream behind it.
    pub(super) async fn load(store: &dyn Store, stream: &Address) -> Result<Self, InputError> {
        let snapshot = store.snapshot(stream.id()).await?;
        let mut instance = snapshot.as_ref().and_then(Self::thaw).unwrap_or_else(Self::new);
        // A completed instance stays completed, for other code as well and after retention has
        // deleted its stream.
        instance.completed |= snapshot.as_ref().is_some_and(is_of_the_end);
        loop {
            let page = store.read_stream(stream.id(), instance.version + 1, PAGE).await?;
            for message in &page {
                // It was readable when it was written: an unreadable stream is a defect of this
                // program.
                let event = record::event::<P>(message).map_err(|error| {
                    let reason = format!("message {}: {error}", message.position);
                    StoreError::Corrupt { reason }
                });
                if let Some(event) = event? {
                    instance.apply(&event);
                }
                instance.version = message.version;
                instance.unkept += 1;
            }
            if page.len() < PAGE {
                return Ok(instance);
            }
        }
    }

    pub(super) fn apply(&mut self, event: &EventOf<P>) {
        self.completed |= *event == Event::Completed;
        self.scheduled |= matches!(event, Event::Scheduled(..));
        self.state = P::evolve(std::mem::take(&mut self.state), event);
    }

    /// Whether enough messages were recorded since the last snapshot.
    pub(super) fn is_long(&self) -> bool {
        KEEP_AFTER <= self.unkept
    }

    /// A snapshot; `None` if the state cannot be serialized, which is no reason to stop: the stream
    /// is still there.
    pub(super) fn freeze(&self, stream: &Address) -> Option<Snapshot> {
        let frozen = Json::of(&(&self.state, self.completed, self.scheduled)).ok();
        let frozen = frozen.filter(|it| it.as_str().len() <= limits::DATA_BYTES_MAX);
        // The completion must be recorded in any case, under a version that no code has.
        let (state, code) = match frozen {
            Some(state) => (state, P::VERSION),
            None if self.completed => (Json::of(&((), true, self.scheduled)).ok()?, i32::MIN),
            None => return None,
        };
        Some(Snapshot { stream: stream.id(), version: self.version, code, state })
    }

    /// A snapshot of other code, or one that cannot be read, is ignored.
    fn thaw(snapshot: &Snapshot) -> Option<Self> {
        if snapshot.code != P::VERSION {
            return None;
        }
        let (state, completed, scheduled) = serde_json::from_str(snapshot.state.as_str()).ok()?;
        Some(Self { state, version: snapshot.version, completed, scheduled, unkept: 0 })
    }

    /// The state as JSON, for views.
    pub(super) fn shown(&self) -> Result<Value, StoreError> {
        to_value(&self.state).map_err(|error| StoreError::Corrupt { reason: error.to_string() })
    }
}

/// Whether the instance had completed when the snapshot was made.
fn is_of_the_end(snapshot: &Snapshot) -> bool {
    let frozen = serde_json::from_str::<(IgnoredAny, bool, bool)>(snapshot.state.as_str());
    frozen.is_ok_and(|(_, completed, _)| completed)
}
