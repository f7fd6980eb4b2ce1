//! The turns of connections: somebody comes, says something, goes.

use std::{rc::Rc, sync::Arc};

use steadfast_store::Timestamp;

use super::{Arrival, Closed, Connection, ConnectionId, Line, room::Op};
use crate::{
    Result,
    object::{
        CallError, NOT_LIVE,
        activation::Activation,
        calls::Fault,
        objects::Class,
        step::Step,
        transact::{Done, broken, guarded},
        turn::Core,
    },
};

/// Connections of an earlier process that one turn parts with.
pub(in crate::object) const LOST_AT_ONCE: i64 = 200;

/// Somebody who comes.
pub(in crate::object) struct Coming {
    pub(super) id: ConnectionId,
    pub(super) arrival: Arrival,
    pub(super) line: Arc<Line>,
}

impl Activation {
    pub(in crate::object) fn connected(
        &mut self,
        class: &Class,
        coming: &Coming,
        now: Timestamp,
    ) -> Step {
        self.turn("connected", None, now, None, |core| {
            let Coming { id, arrival, line } = coming;
            core.add_connection(*id).map_err(|error| broken(core, &error))?;
            core.leads_to(Op::Join { id: *id, line: line.clone() });
            let connection = Connection {
                id: *id,
                tags: Vec::new(),
                connected_at: now,
                attachment: None,
                arrival: arrival.clone(),
            };
            live(core, class, "connected", |core, door| (door.connected)(core, &connection))
        })
    }

    pub(in crate::object) fn received(
        &mut self,
        class: &Class,
        id: ConnectionId,
        text: &str,
        now: Timestamp,
    ) -> Step {
        self.turn("received", None, now, None, |core| {
            let found = core.find_connection(id, false).map_err(|error| broken(core, &error))?;
            let Some(connection) = found else {
                let object = core.me.to_string();
                return Err(CallError::NotConnected { object, connection: id.0 });
            };
            live(core, class, "received", |core, door| (door.received)(core, &connection, text))
        })
    }

    pub(in crate::object) fn closed(
        &mut self,
        class: &Class,
        id: ConnectionId,
        closed: &Closed,
        now: Timestamp,
    ) -> Step {
        let find = |core: &Core| Ok(Vec::from_iter(core.find_connection(id, true)?));
        let mut step = self.part(class, closed, now, true, find);
        if let Err(error) = &step.reply
            && !matches!(error, CallError::Migration { .. })
            && !step.broken
        {
            step = self.part(class, closed, now, false, find);
        }
        step.ops.push(Op::Leave { id });
        step
    }

    /// Parts with connections that ended with an earlier process; `None` if there are none.
    pub(in crate::object) fn part_with_lost(
        &mut self,
        class: &Class,
        first: ConnectionId,
        now: Timestamp,
    ) -> Option<Step> {
        // If it cannot be opened, who waits for it is told.
        if self.lost_at_once == 0 || self.open(class).is_err() {
            return None;
        }
        let lost = self.core().connections_before(first, 1);
        if lost.is_ok_and(|it| it.is_empty()) {
            self.lost_at_once = 0;
            return None;
        }
        let closed = Closed::with_the_process();
        let next = |limit: i64| move |core: &Core| core.connections_before(first, limit);
        let mut step = self.part(class, &closed, now, true, next(self.lost_at_once));
        let is_limit = |step: &Step| {
            let is_migration = matches!(step.reply, Err(CallError::Migration { .. }));
            step.reply.is_err() && !step.broken && !is_migration
        };
        if is_limit(&step) && 1 < self.lost_at_once {
            // Together they were too much for a turn.
            self.lost_at_once = 1;
            step = self.part(class, &closed, now, true, next(1));
        }
        if is_limit(&step) {
            step = self.part(class, &closed, now, false, next(1));
        }
        if step.reply.is_err() {
            // It is tried again when the object wakes the next time.
            self.lost_at_once = 0;
        }
        Some(step)
    }

    /// Parts with connections in one turn. What their handlers do is undone where they fail; that
    /// they are gone is not.
    fn part(
        &mut self,
        class: &Class,
        closed: &Closed,
        now: Timestamp,
        handled: bool,
        find: impl Fn(&Core) -> rusqlite::Result<Vec<Connection>>,
    ) -> Step {
        if handled && let Err(error) = self.migrate(class, now) {
            return Step::reply(Err(error));
        }
        if !handled {
            let object = self.me().to_string();
            tracing::error!(object, "connection ended without its handler, which met a limit");
        }
        let door = handled.then_some(&class.door);
        self.turn("closed", None, now, None, |core| {
            for connection in remove(core, &find)? {
                let handler = || door.map_or(Ok(()), |it| (it.closed)(core, &connection, closed));
                let attempt = || core.attempt(handler).map_err(Fault::Refused);
                if let Err(error) = guarded(core, "closed", attempt) {
                    let object = core.me.to_string();
                    tracing::warn!(object, error = %error, "handler of an end failed");
                }
            }
            Ok(Done::nothing())
        })
    }
}

fn remove(
    core: &Core,
    find: &impl Fn(&Core) -> rusqlite::Result<Vec<Connection>>,
) -> Result<Vec<Connection>, CallError> {
    let connections = find(core).map_err(|error| broken(core, &error))?;
    for connection in &connections {
        core.remove_connection(connection.id).map_err(|error| broken(core, &error))?;
    }
    Ok(connections)
}

/// Runs a handler of the class.
fn live(
    core: &Rc<Core>,
    class: &Class,
    name: &str,
    handler: impl FnOnce(&Rc<Core>, &super::Door) -> Result<()>,
) -> Result<Done, CallError> {
    match guarded(core, name, || handler(core, &class.door).map_err(Fault::Refused)) {
        Ok(()) => Ok(Done::nothing()),
        Err(CallError::Refused(error)) if error.code() == NOT_LIVE => {
            Err(CallError::NotLive { class: core.me.class().into() })
        }
        Err(error) => Err(error),
    }
}
