//! Describes an object: its size, tables, alarms and connections.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use serde_json::Value;
use steadfast_store::{Head, ObjectSummary, Store, StoreError, Timestamp, sort::sort_by_key};

use super::{
    super::{
        connections::ConnectionId,
        executor::{Alarm, PREFIX},
        scheduler::LastFailure,
        storage::Past,
    },
    reader::Reader,
    table::Table,
};
use crate::workflow::Time;

/// Maximum turns that are read to find the oldest.
const LOOK_BACK: usize = 2_000;

/// Rows of a table that are counted.
const ROWS_MAX: usize = 10_000;

/// Alarms and connections that are shown.
const SHOWN_MAX: usize = 1_000;

/// The description of an object.
#[derive(Clone, Debug)]
pub struct ObjectView {
    /// Its address and its head.
    pub summary: ObjectSummary,
    /// Whether this program serves its class.
    pub served: bool,
    /// Whether it is in memory.
    pub awake: bool,
    /// The oldest turn whose state can be read; searched up to 2,000 turns back.
    pub oldest_turn: i64,
    /// The last failed turn since this process began. Failures of alarms are in the alarms.
    pub last_failure: Option<LastFailure>,
    /// Its contents; an error describes the damage.
    pub inside: Result<ObjectContents, String>,
}

impl Serialize for ObjectView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ObjectSummary { address, created_at, updated_at, head } = &self.summary;
        let mut view = serializer.serialize_struct("ObjectView", 10)?;
        view.serialize_field("address", &address.to_string())?;
        view.serialize_field("turns", &head.seq)?;
        view.serialize_field("served", &self.served)?;
        view.serialize_field("awake", &self.awake)?;
        view.serialize_field("createdAt", &Time(*created_at))?;
        view.serialize_field("updatedAt", &updated_at.map(Time))?;
        view.serialize_field("oldestTurn", &self.oldest_turn)?;
        view.serialize_field("lastFailure", &self.last_failure)?;
        view.serialize_field("inside", &self.inside.as_ref().ok())?;
        view.serialize_field("damage", &self.inside.as_ref().err())?;
        view.end()
    }
}

/// The contents of an object.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ObjectContents {
    /// Bytes of its database.
    pub bytes: usize,
    /// Its tables, by name; the runtime's own come last.
    pub tables: Vec<TableView>,
    /// Its alarms by due time; failed ones come last.
    pub alarms: Vec<Alarm>,
    /// Its connections.
    pub connections: Vec<ConnectionView>,
}

/// A table of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = TableEntry))]
pub struct TableView {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// The number of rows, up to 10,000; null if it could not be counted in time.
    pub rows: Option<usize>,
    /// Whether there are more than that.
    pub more: bool,
    /// Whether it is the runtime's own.
    pub system: bool,
}

/// A live connection of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ConnectionEntry))]
pub struct ConnectionView {
    /// Its number.
    pub id: i64,
    /// Its tags.
    pub tags: Vec<String>,
    /// When it was accepted.
    pub connected_at: Time,
    /// Its attachment.
    pub attachment: Value,
}

/// The oldest turn whose state can be read.
pub(super) async fn oldest(store: &dyn Store, head: &Head) -> Result<i64, StoreError> {
    let turns = store.turn_summaries(head.position, LOOK_BACK).await?;
    // The changes of a turn lead back to the state before it.
    Ok(turns.last().map_or(head.seq, |it| (it.seq - 1).max(1)))
}

/// Reads the contents of an object; an error describes the damage.
pub(super) fn inside(past: Past, first: ConnectionId) -> Result<ObjectContents, String> {
    let bytes = past.bytes_len();
    let reader = Reader::open(past).map_err(|error| error.to_string())?;
    let tables = Table::all(&reader.connection).map_err(|error| error.to_string())?;
    let has = |name: &str| tables.iter().any(|it| it.name == name);
    let alarms = if has("_steadfast_alarm") {
        Alarm::list(&reader.connection, SHOWN_MAX).map_err(|error| error.to_string())?
    } else {
        Vec::new()
    };
    let connections = if has("_steadfast_connection") {
        connections(&reader, first).map_err(|error| error.to_string())?
    } else {
        Vec::new()
    };
    let mut tables: Vec<TableView> = tables.iter().map(|it| view(&reader, it)).collect();
    sort_by_key(&mut tables, |it| it.system);
    Ok(ObjectContents { bytes, tables, alarms, connections })
}

fn view(reader: &Reader, table: &Table) -> TableView {
    let count = table.count(ROWS_MAX + 1);
    let counted: Option<usize> = reader.connection.query_row(&count, (), |row| row.get(0)).ok();
    TableView {
        name: table.name.clone(),
        columns: table.columns.clone(),
        rows: counted.map(|it| it.min(ROWS_MAX)),
        more: counted.is_some_and(|it| ROWS_MAX < it),
        system: is_system(&table.name),
    }
}

/// Whether a table is the runtime's own.
pub(super) fn is_system(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Connections of this process; the object has not yet processed the ends of others.
fn connections(reader: &Reader, first: ConnectionId) -> rusqlite::Result<Vec<ConnectionView>> {
    let sql = format!(
        "SELECT id, tags, connected_at, attachment FROM _steadfast_connection \
         WHERE id >= {first} AND NOT closing ORDER BY id LIMIT {SHOWN_MAX}"
    );
    let mut list = reader.connection.prepare(&sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let tags: String = row.get(1)?;
        let attachment: Option<String> = row.get(3)?;
        Ok(ConnectionView {
            id: row.get(0)?,
            tags: serde_json::from_str(&tags).unwrap_or_default(),
            connected_at: Time(Timestamp(row.get(2)?)),
            attachment: attachment.map_or(Value::Null, |text| {
                serde_json::from_str(&text).unwrap_or(Value::String(text))
            }),
        })
    };
    let found = list.query_map((), read)?;
    found.collect()
}
