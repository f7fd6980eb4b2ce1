//! The turns of connections: somebody comes, says something, goes.

use std::{rc::Rc, sync::Arc};

use steadfast_store::Timestamp;

use super::{Arrival, Closed, Connection, ConnectionId, Line, room::Op};
use crate::{
    Result,
    object::{
        CallError,
        activation::Activation,
        calls::Fault,
        objects::Class,
        step::Step,
        transact::{Done, broken, guarded},
        turn::Core,
    },
};

/// Connections of an earlier process that one turn parts with.
const LOST_AT_ONCE: i64 = 200;

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
        let mut step = self.part(class, closed, now, find);
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
        if self.has_parted || class.door.is_none() || self.open(class).is_err() {
            return None;
        }
        let lost = self.core().connections_before(first, 1);
        if lost.is_ok_and(|it| it.is_empty()) {
            self.has_parted = true;
            return None;
        }
        let find = |core: &Core| core.connections_before(first, LOST_AT_ONCE);
        let step = self.part(class, &Closed::with_the_process(), now, find);
        // It is tried again when the object wakes the next time.
        self.has_parted = step.reply.is_err();
        Some(step)
    }

    /// Parts with connections in one turn. What their handlers do is undone where they fail; that
    /// they are gone is not.
    fn part(
        &mut self,
        class: &Class,
        closed: &Closed,
        now: Timestamp,
        find: impl Fn(&Core) -> rusqlite::Result<Vec<Connection>>,
    ) -> Step {
        let handlers = self.migrate(class, now);
        let step = match handlers {
            Ok(()) => self.turn("closed", None, now, None, |core| {
                for connection in remove(core, &find)? {
                    let handler = || {
                        let door = class.door.as_ref();
                        door.map_or(Ok(()), |it| (it.closed)(core, &connection, closed))
                    };
                    let attempt = || core.attempt(handler).map_err(Fault::Refused);
                    let handled = guarded(core, "closed", attempt);
                    if let Err(error) = handled {
                        let object = core.me.to_string();
                        tracing::warn!(object, error = %error, "handler of an end failed");
                    }
                }
                Ok(Done::nothing())
            }),
            Err(error) => Step::reply(Err(error)),
        };
        match &step.reply {
            Err(error) if !step.broken => {
                let object = self.me().to_string();
                tracing::error!(object, error = %error, "connections ended without handlers");
                self.turn("closed", None, now, None, |core| {
                    remove(core, &find)?;
                    Ok(Done::nothing())
                })
            }
            Ok(_) | Err(_) => step,
        }
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
    let Some(door) = &class.door else {
        return Err(CallError::NotLive { class: core.me.class().into() });
    };
    guarded(core, name, || handler(core, door).map_err(Fault::Refused))?;
    Ok(Done::nothing())
}
