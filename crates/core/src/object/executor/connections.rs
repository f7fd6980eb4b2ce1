//! The turns of connections: connect, receive a text, end.

use std::rc::Rc;

use steadfast_store::Timestamp;

use super::{
    TurnExecutor, TurnResult,
    class::{HandlerError, LiveClass, NOT_LIVE},
    transaction::{TurnReply, guarded},
    turn_state::TurnState,
};
use crate::{
    Result,
    object::{
        CallError,
        connections::{Closed, Connection, ConnectionId, ConnectionOp, NewConnection},
    },
};

/// Maximum lost connections that one turn closes.
pub(super) const LOST_AT_ONCE: i64 = 200;

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
        if let Err(error) = &result.reply
            && !matches!(error, CallError::Migration { .. })
            && result.usable
        {
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
        let is_limit = |result: &TurnResult| {
            let is_migration = matches!(result.reply, Err(CallError::Migration { .. }));
            result.reply.is_err() && result.usable && !is_migration
        };
        if is_limit(&result) && 1 < self.lost_batch {
            // Together they exceeded the limits of a turn.
            self.lost_batch = 1;
            result = self.part(&closed, now, true, next(1));
        }
        if is_limit(&result) {
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
