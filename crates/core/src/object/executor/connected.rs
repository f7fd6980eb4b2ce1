//! The connections of an object, inside of it: the turns in which they connect, send a text and
//! end, and the table of them. A turn sees them in the order of turns, and a later process finds
//! those that ended with this one.

use std::rc::Rc;

use rusqlite::{Params, Row, params};
use steadfast_store::Timestamp;

use super::{TurnExecutor, TurnResult};
use crate::{
    Result,
    object::{
        CallError,
        connection::{
            Closed, ConnectParams, Connection, ConnectionId, ConnectionOp, NewConnection,
        },
        database::Table,
        transaction::{HandlerError, LiveClass, NOT_LIVE, TurnReply, TurnState, guarded},
    },
};

impl TurnExecutor {
    pub(super) fn connected(&mut self, new: &NewConnection, now: Timestamp) -> TurnResult {
        let class = self.class.clone();
        self.turn("connected", None, now, None, |state| {
            let NewConnection { id, params, outbox } = new;
            state.add_connection(*id).map_err(|error| state.sql_failed(&error))?;
            state.record(ConnectionOp::Join { id: *id, outbox: outbox.clone() });
            let connection = Connection {
                id: *id,
                tags: Vec::new(),
                connected_at: now,
                attachment: None,
                params: params.clone(),
            };
            live(state, &class.live, "connected", |state, live| {
                (live.connected)(state, &connection)
            })
        })
    }

    pub(super) fn received(&mut self, id: ConnectionId, text: &str, now: Timestamp) -> TurnResult {
        let class = self.class.clone();
        self.turn("received", None, now, None, |state| {
            let found =
                state.find_connection(id, false).map_err(|error| state.sql_failed(&error))?;
            let Some(connection) = found else {
                let object = state.address.to_string();
                return Err(CallError::NotConnected { object, connection: id.0 });
            };
            live(state, &class.live, "received", |state, live| {
                (live.received)(state, &connection, text)
            })
        })
    }

    pub(super) fn closed(
        &mut self,
        id: ConnectionId,
        closed: &Closed,
        now: Timestamp,
    ) -> TurnResult {
        let find = |state: &TurnState| Ok(Vec::from_iter(state.find_connection(id, true)?));
        let mut result = self.part(closed, now, true, find);
        if exceeds_limit(&result) {
            result = self.part(closed, now, false, find);
        }
        result.connection_ops.push(ConnectionOp::Leave { id });
        result
    }

    /// Whether connections of an earlier process may still have rows.
    pub(in crate::object) fn may_have_lost_connections(&self) -> bool {
        self.lost_batch != 0
    }

    /// Closes connections of an earlier process; `None` if there are none.
    pub(in crate::object) fn close_lost_connections(
        &mut self,
        first: ConnectionId,
        now: Timestamp,
    ) -> Option<TurnResult> {
        // If it cannot be opened, the next request gets the error.
        if self.lost_batch == 0 || self.open().is_err() {
            return None;
        }
        let lost = self.state().connections_before(first, 1);
        if lost.is_ok_and(|it| it.is_empty()) {
            self.lost_batch = 0;
            return None;
        }
        let closed = Closed::with_the_process();
        let next = |limit: i64| move |state: &TurnState| state.connections_before(first, limit);
        let mut result = self.part(&closed, now, true, next(self.lost_batch));
        if exceeds_limit(&result) && 1 < self.lost_batch {
            // Together they exceeded the limits of a turn.
            self.lost_batch = 1;
            result = self.part(&closed, now, true, next(1));
        }
        if exceeds_limit(&result) {
            result = self.part(&closed, now, false, next(1));
        }
        if result.reply.is_err() {
            // It is retried when the object is loaded the next time.
            self.lost_batch = 0;
        }
        Some(result)
    }

    /// Closes connections in one turn. If a handler fails, its changes are undone; the connection
    /// is removed all the same.
    fn part(
        &mut self,
        closed: &Closed,
        now: Timestamp,
        handled: bool,
        find: impl Fn(&TurnState) -> rusqlite::Result<Vec<Connection>>,
    ) -> TurnResult {
        if handled && let Err(error) = self.migrate(now) {
            return TurnResult::reply(Err(error));
        }
        if !handled {
            let object = self.address.to_string();
            tracing::error!(
                object,
                "connection removed without its handler, which exceeded a limit"
            );
        }
        let class = self.class.clone();
        let live = handled.then_some(&class.live);
        self.turn("closed", None, now, None, |state| {
            for connection in remove(state, &find)? {
                let handler = || live.map_or(Ok(()), |it| (it.closed)(state, &connection, closed));
                let attempt = || state.attempt(handler).map_err(HandlerError::Refused);
                if let Err(error) = guarded(state, "closed", attempt) {
                    let object = state.address.to_string();
                    tracing::warn!(object, error = %error, "handler of a closed connection failed");
                }
            }
            Ok(TurnReply::nothing())
        })
    }
}

/// Whether a turn that closed connections exceeded a limit: then its handlers are left out.
fn exceeds_limit(result: &TurnResult) -> bool {
    let is_migration = matches!(result.reply, Err(CallError::Migration { .. }));
    result.reply.is_err() && result.usable && !is_migration
}

fn remove(
    state: &TurnState,
    find: &impl Fn(&TurnState) -> rusqlite::Result<Vec<Connection>>,
) -> Result<Vec<Connection>, CallError> {
    let connections = find(state).map_err(|error| state.sql_failed(&error))?;
    for connection in &connections {
        state.remove_connection(connection.id).map_err(|error| state.sql_failed(&error))?;
    }
    Ok(connections)
}

/// Runs a handler of the class.
fn live(
    state: &Rc<TurnState>,
    class: &LiveClass,
    name: &str,
    handler: impl FnOnce(&Rc<TurnState>, &LiveClass) -> Result<()>,
) -> Result<TurnReply, CallError> {
    match guarded(state, name, || handler(state, class).map_err(HandlerError::Refused)) {
        Ok(()) => Ok(TurnReply::nothing()),
        Err(CallError::Refused(error)) if error.code() == NOT_LIVE => {
            Err(CallError::NotLive { class: state.address.class().into() })
        }
        Err(error) => Err(error),
    }
}

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
    fn add_connection(&self, id: ConnectionId) -> rusqlite::Result<()> {
        self.write(Table::Connection, ADD, params![id.0, self.now.0])
    }

    /// A connection that the object did not close itself; with `closing` those as well.
    pub(in crate::object) fn find_connection(
        &self,
        id: ConnectionId,
        closing: bool,
    ) -> rusqlite::Result<Option<Connection>> {
        self.find(Table::Connection, FIND, params![id.0, closing], connection)
    }

    pub(in crate::object) fn all_connections(&self) -> rusqlite::Result<Vec<Connection>> {
        self.list(Table::Connection, ALL, (), connection)
    }

    pub(in crate::object) fn count_connections(&self) -> rusqlite::Result<usize> {
        Ok(self.find(Table::Connection, COUNT, (), |row| row.get(0))?.unwrap_or(0))
    }

    /// The next connections of earlier processes.
    fn connections_before(
        &self,
        first: ConnectionId,
        limit: i64,
    ) -> rusqlite::Result<Vec<Connection>> {
        self.list(Table::Connection, BEFORE, params![first.0, limit], connection)
    }

    /// These return whether the connection exists.
    pub(in crate::object) fn tag_connection(
        &self,
        id: ConnectionId,
        tags: &str,
    ) -> rusqlite::Result<bool> {
        self.change_connection(TAG, params![id.0, tags])
    }

    pub(in crate::object) fn attach_to(
        &self,
        id: ConnectionId,
        attachment: Option<&str>,
    ) -> rusqlite::Result<bool> {
        self.change_connection(ATTACH, params![id.0, attachment])
    }

    pub(in crate::object) fn close_connection(&self, id: ConnectionId) -> rusqlite::Result<bool> {
        self.change_connection(CLOSE, params![id.0])
    }

    fn remove_connection(&self, id: ConnectionId) -> rusqlite::Result<bool> {
        self.change_connection(REMOVE, params![id.0])
    }

    fn change_connection(&self, sql: &str, params: impl Params) -> rusqlite::Result<bool> {
        Ok(0 < self.change(Table::Connection, sql, params)?)
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
