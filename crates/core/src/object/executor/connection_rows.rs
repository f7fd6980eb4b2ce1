//! The connections of an object: a table inside of it. A turn sees them in the order of turns, and
//! a later process finds those that ended with this one.

use rusqlite::{OptionalExtension, Row, params};
use steadfast_store::Timestamp;

use super::{tables::Table, turn_state::TurnState};
use crate::object::connections::{ConnectParams, Connection, ConnectionId};

const ADD: &str = "INSERT INTO _steadfast_connection (id, tags, attachment, connected_at, closing) \
     VALUES (?1, '[]', NULL, ?2, 0)";
const FIND: &str = "SELECT id, tags, attachment, connected_at FROM _steadfast_connection \
     WHERE id = ?1 AND (NOT closing OR ?2)";
const ALL: &str = "SELECT id, tags, attachment, connected_at FROM _steadfast_connection \
     WHERE NOT closing ORDER BY id";
const COUNT: &str = "SELECT count(*) FROM _steadfast_connection WHERE NOT closing";
const BEFORE: &str = "SELECT id, tags, attachment, connected_at FROM _steadfast_connection \
     WHERE id < ?1 ORDER BY id LIMIT ?2";
const TAG: &str = "UPDATE _steadfast_connection SET tags = ?2 WHERE id = ?1 AND NOT closing";
const ATTACH: &str =
    "UPDATE _steadfast_connection SET attachment = ?2 WHERE id = ?1 AND NOT closing";
const CLOSE: &str = "UPDATE _steadfast_connection SET closing = 1 WHERE id = ?1 AND NOT closing";
const REMOVE: &str = "DELETE FROM _steadfast_connection WHERE id = ?1";

impl TurnState {
    pub(in crate::object) fn add_connection(&self, id: ConnectionId) -> rusqlite::Result<()> {
        self.tables.need(Table::Connection, &self.database)?;
        self.change(ADD, params![id.0, self.now.0]).map(|_| ())
    }

    /// A connection that the object did not close itself; with `closing` those as well.
    pub(in crate::object) fn find_connection(
        &self,
        id: ConnectionId,
        closing: bool,
    ) -> rusqlite::Result<Option<Connection>> {
        if !self.tables.has(Table::Connection) {
            return Ok(None);
        }
        let database = &self.database;
        database.guard.system(|| {
            let mut find = database.connection.prepare_cached(FIND)?;
            find.query_row(params![id.0, closing], connection).optional()
        })
    }

    pub(in crate::object) fn all_connections(&self) -> rusqlite::Result<Vec<Connection>> {
        self.list(ALL, params![])
    }

    pub(in crate::object) fn count_connections(&self) -> rusqlite::Result<usize> {
        if !self.tables.has(Table::Connection) {
            return Ok(0);
        }
        let count = self.database.number(COUNT)?.unwrap_or(0);
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// The next connections of earlier processes.
    pub(in crate::object) fn connections_before(
        &self,
        first: ConnectionId,
        limit: i64,
    ) -> rusqlite::Result<Vec<Connection>> {
        self.list(BEFORE, params![first.0, limit])
    }

    /// These return whether the connection exists.
    pub(in crate::object) fn tag_connection(
        &self,
        id: ConnectionId,
        tags: &str,
    ) -> rusqlite::Result<bool> {
        self.change(TAG, params![id.0, tags])
    }

    pub(in crate::object) fn attach_to(
        &self,
        id: ConnectionId,
        attachment: Option<&str>,
    ) -> rusqlite::Result<bool> {
        self.change(ATTACH, params![id.0, attachment])
    }

    pub(in crate::object) fn close_connection(&self, id: ConnectionId) -> rusqlite::Result<bool> {
        self.change(CLOSE, params![id.0])
    }

    pub(in crate::object) fn remove_connection(&self, id: ConnectionId) -> rusqlite::Result<bool> {
        self.change(REMOVE, params![id.0])
    }

    fn list(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<Vec<Connection>> {
        if !self.tables.has(Table::Connection) {
            return Ok(Vec::new());
        }
        let database = &self.database;
        database.guard.system(|| {
            let mut list = database.connection.prepare_cached(sql)?;
            list.query_map(params, connection)?.collect()
        })
    }

    fn change(&self, sql: &str, params: impl rusqlite::Params) -> rusqlite::Result<bool> {
        if !self.tables.has(Table::Connection) {
            return Ok(false);
        }
        let database = &self.database;
        let changed =
            database.guard.system(|| database.connection.prepare_cached(sql)?.execute(params))?;
        Ok(0 < changed)
    }
}

fn connection(row: &Row<'_>) -> rusqlite::Result<Connection> {
    let tags: String = row.get(1)?;
    Ok(Connection {
        id: ConnectionId(row.get(0)?),
        // Only the runtime writes this column.
        tags: serde_json::from_str(&tags).unwrap_or_default(),
        attachment: row.get(2)?,
        connected_at: Timestamp(row.get(3)?),
        params: ConnectParams::default(),
    })
}
