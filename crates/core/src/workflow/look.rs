//! Views of one run, its history with every entry of its record, and waiting for new entries.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_store::{Address, Recorded, StoreError, Timestamp, Version};

use super::{
    definition::address,
    error::RunError,
    fold::RunFold,
    record::Entry,
    runs::Runs,
    view::{LiveState, RunView},
};
use crate::body::Time;

/// Entries of one read while bytes are counted: each may have 1 MiB.
const BOUNDED_PAGE: usize = 50;

impl Runs {
    /// A view of a run.
    #[steadfast_store::boxed]
    pub async fn look(&self, workflow: &str, id: &str) -> Result<RunView, RunError> {
        let run = address(workflow, id)?;
        let live = self.live(&run);
        let fold = RunFold::for_view().read(&*self.shared.store, &run, Version::MAX);
        match fold.await? {
            Some(fold) => Ok(RunView::of(&fold, &run, &live)),
            None => Err(self.unknown(&run)),
        }
    }

    /// A view of a run, unless its record has more entries or bytes than this: then `None`, after a
    /// read of at most 50 more entries.
    #[steadfast_store::boxed]
    pub async fn look_within(
        &self,
        workflow: &str,
        id: &str,
        entries: Version,
        mut bytes: usize,
    ) -> Result<Option<RunView>, RunError> {
        let run = address(workflow, id)?;
        let live = self.live(&run);
        let mut fold = RunFold::for_view();
        loop {
            let from = fold.head.version + 1;
            let page = self.shared.store.read_stream(run.id(), from, BOUNDED_PAGE).await?;
            for message in &page {
                let len = message.data.as_str().len();
                if bytes < len || entries < message.version {
                    return Ok(None);
                }
                bytes -= len;
                fold.take(message)?;
            }
            if page.len() < BOUNDED_PAGE {
                fold.name_receivers(&*self.shared.store).await?;
                let view = (0 < fold.head.version).then(|| RunView::of(&fold, &run, &live));
                return view.map(Some).ok_or_else(|| self.unknown(&run));
            }
        }
    }

    /// The number of entries in the record of a run.
    #[steadfast_store::boxed]
    pub async fn length(&self, workflow: &str, id: &str) -> Result<Version, RunError> {
        let run = address(workflow, id)?;
        match self.shared.store.version(run.id()).await? {
            0 => Err(self.unknown(&run)),
            length => Ok(length),
        }
    }

    /// The error of a run without a record.
    pub(super) fn unknown(&self, run: &Address) -> RunError {
        let unknown = RunError::UnknownRun { run: run.to_string() };
        self.check(run.class()).err().unwrap_or(unknown)
    }

    /// A view of a run after the change that was made under the key of this handle; without a key,
    /// the current view. A repetition gets the same view as the first request: it is made from the
    /// record alone, and leaves out attempts in flight.
    #[steadfast_store::boxed]
    pub async fn look_then(&self, workflow: &str, id: &str) -> Result<RunView, RunError> {
        let run = address(workflow, id)?;
        let Some(changed) = self.changed_before().await? else {
            return self.look(workflow, id).await;
        };
        let unknown = || RunError::UnknownRun { run: run.to_string() };
        let fold = RunFold::for_view().read(&*self.shared.store, &run, changed.version).await?;
        // Another run may have this id since.
        let fold = fold.filter(|it| it.head.first == changed.first).ok_or_else(unknown)?;
        let (now, in_flight, progress) = (Timestamp(changed.at), None, None);
        let live = LiveState { now, in_flight, progress, running: 0, served: true };
        Ok(RunView::of(&fold, &run, &live))
    }

    /// Waits until the record of a run has more than `after` entries.
    #[steadfast_store::boxed]
    pub async fn grown(&self, workflow: &str, id: &str, after: Version) -> Result<(), RunError> {
        let run = address(workflow, id)?;
        // Watch before the read, so that no change is missed.
        let mut watcher = self.shared.watchers.watch(run.id());
        if self.shared.store.version(run.id()).await? <= after {
            // The sender exists as long as the watcher.
            let _ = watcher.updates.wait_for(|it| after < it.version).await;
        }
        Ok(())
    }

    fn live(&self, run: &Address) -> LiveState {
        let (in_flight, progress) = self.shared.active.in_flight(run.id()).unzip();
        LiveState {
            now: self.shared.clock.now(),
            in_flight,
            progress: progress.flatten(),
            running: self.shared.active.of(run.class()).len(),
            served: self.check(run.class()).is_ok(),
        }
    }
}

/// Bytes of entries in one answer.
const BYTES_MAX: usize = 8 << 20;

/// One entry of a run's history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HistoryEntry {
    /// Its number, from 1.
    pub number: i64,
    /// When it was recorded.
    pub at: Time,
    /// The type: started, done, failed, tried, timer, event, took, paused, resumed, terminated,
    /// restarted, completed, errored, wake, waits, progress or sent.
    pub entry: String,
    /// The fields of the entry.
    #[serde(flatten)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub fields: Map<String, Value>,
}

impl HistoryEntry {
    fn of(message: &Recorded) -> Result<Self, StoreError> {
        let corrupt = |reason: String| {
            let position = message.position;
            StoreError::Corrupt { reason: format!("message {position} of a run: {reason}") }
        };
        let (number, at) = (message.version, Time(message.created_at));
        if Entry::of(message)?.is_none() {
            let (entry, mut fields) = ("sent".to_owned(), Map::new());
            fields.insert("type".into(), message.message_type.clone().into());
            let data = serde_json::from_str(message.data.as_str());
            fields.insert("data".into(), data.map_err(|error| corrupt(error.to_string()))?);
            return Ok(Self { number, at, entry, fields });
        }
        let mut fields: Map<String, Value> = serde_json::from_str(message.data.as_str())
            .map_err(|error| corrupt(error.to_string()))?;
        let Some(Value::String(entry)) = fields.remove("entry") else {
            return Err(corrupt("it has no type".into()));
        };
        write_times(&mut fields);
        Ok(Self { number, at, entry, fields })
    }

    /// Whether it ends the run; a restart may follow.
    pub fn is_end(&self) -> bool {
        matches!(self.entry.as_str(), "completed" | "errored" | "terminated")
    }
}

/// Writes times in the format of the API.
fn write_times(fields: &mut Map<String, Value>) {
    let write = |value: &mut Value| {
        if let Some(millis) = value.as_i64() {
            *value = Value::String(Time(Timestamp(millis)).to_string());
        }
    };
    fields.get_mut("dueAt").map(write);
    fields.get_mut("retryAt").map(write);
    fields.get_mut("attempt").and_then(|it| it.get_mut("beganAt")).map(write);
    let waits = fields.get_mut("waits").and_then(Value::as_array_mut);
    waits.into_iter().flatten().filter_map(|it| it.get_mut("until")).for_each(write);
}

impl Runs {
    /// The recorded entries of a run, after an entry. The result has fewer than `limit` entries at
    /// the end of the record, or if it would exceed 8 MiB. The first entry is returned whatever its
    /// size.
    #[steadfast_store::boxed]
    pub async fn history(
        &self,
        workflow: &str,
        id: &str,
        after: Version,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, RunError> {
        let run = address(workflow, id)?;
        let (mut after, mut bytes, mut entries) = (after.max(0), 0, Vec::new());
        loop {
            let wanted = (limit - entries.len()).min(BOUNDED_PAGE);
            let page = self.shared.store.read_stream(run.id(), after + 1, wanted).await?;
            for message in &page {
                bytes += message.data.as_str().len();
                if BYTES_MAX < bytes && !entries.is_empty() {
                    return Ok(entries);
                }
                after = message.version;
                entries.push(HistoryEntry::of(message)?);
            }
            if page.len() < wanted || entries.len() == limit {
                break;
            }
        }
        if entries.is_empty() {
            self.length(workflow, id).await?;
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_of_an_entry_are_formatted_and_values_of_the_user_are_not() {
        let entry = json!({
            "attempt": { "number": 1, "beganAt": 0 }, "retryAt": 1, "dueAt": 2,
            "waits": [{ "until": 3 }, {}], "value": { "dueAt": 4 }, "key": { "count": 5 },
        });
        let Value::Object(mut fields) = entry else { unreachable!() };
        write_times(&mut fields);
        let time = |millis: u32| json!(format!("1970-01-01T00:00:00.00{millis}Z"));
        assert_eq!(fields["attempt"]["beganAt"], time(0));
        assert_eq!((&fields["retryAt"], &fields["dueAt"]), (&time(1), &time(2)));
        assert_eq!(fields["waits"], json!([{ "until": time(3) }, {}]));
        assert_eq!((&fields["value"]["dueAt"], &fields["key"]["count"]), (&json!(4), &json!(5)));
    }
}
