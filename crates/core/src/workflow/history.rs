//! The history of a run: every entry of its record, for views.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use steadfast_store::{Recorded, StoreError, Timestamp, Version};

use super::{RunError, Runs, look::BOUNDED_PAGE, record::Entry, runs::address, view::Time};

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
