//! Live connections from both ends: what a turn does with the connections of its object, and the
//! socket of the client, for a server or for the program itself.
//!
//! Operations of a turn are performed when the turn is durable, in the order of turns, or not at
//! all.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use steadfast_store::{self as store, EntityKind, OpaqueArc, StoreError, futures::FutureExt};

use super::{
    CallError, Objects,
    api::{Object, Turn},
    connection::{
        Caller, Closed, ConnectParams, Connection, ConnectionEvent, ConnectionId, ConnectionOp,
        NewConnection, Outbox, Recipients,
    },
    registry::ConnectionSlot,
    request::{Reply, Request},
    scheduler::{Scheduler, ServedClass},
    transaction::TurnState,
};
use crate::{Error, Result};

/// Bytes of one event.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// The limit of comparable platforms.
const TAGS_MAX: usize = 10;
const TAG_CHARS_MAX: usize = 256;
const ATTACHMENT_BYTES_MAX: usize = 16 << 10;
/// The limit of a WebSocket close frame.
const REASON_BYTES_MAX: usize = 123;

impl<C: Object> Turn<C> {
    /// Sends an event to all connections.
    pub fn broadcast(&self, msg: &impl Serialize) {
        tell(&self.state, Recipients::All, None, msg);
    }

    /// Sends an event to the connections with a tag.
    pub fn broadcast_to(&self, tag: &str, msg: &impl Serialize) {
        tell(&self.state, Recipients::Tagged(tag.into()), None, msg);
    }

    /// Sends an event to one connection. If it has ended, the event is dropped.
    pub fn tell(&self, id: ConnectionId, msg: &impl Serialize) {
        tell(&self.state, Recipients::One(id), None, msg);
    }

    /// Events that are sent through this have a number. A client that reconnects passes the last
    /// number it has seen, see [`Connection::last_seen`]; browsers do so for server-sent events.
    pub fn numbered(&self, number: i64) -> NumberedEvents<'_> {
        NumberedEvents { state: &self.state, number }
    }

    /// Closes a connection. Later texts from it are ignored.
    pub fn close(&self, id: ConnectionId, reason: &str) {
        let mut reason = reason.to_owned();
        reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
        let closed = Closed::new(Closed::NORMAL, reason);
        alter(&self.state, self.state.close_connection(id), ConnectionOp::Close { id, closed });
    }

    /// Replaces the tags of a connection: at most 10 of 256 characters.
    pub fn set_tags<T: AsRef<str>>(&self, id: ConnectionId, tags: &[T]) {
        let tags: Box<[Box<str>]> = tags.iter().map(|it| it.as_ref().into()).collect();
        let long = tags.iter().find(|it| TAG_CHARS_MAX < it.chars().count());
        if TAGS_MAX < tags.len() || long.is_some() {
            let text = format!("a connection has at most {TAGS_MAX} tags of {TAG_CHARS_MAX} chars");
            return self.state.fail(Error::terminal(text).with_code("invalid_tags"));
        }
        let json = match serde_json::to_string(&tags) {
            Ok(json) => json,
            Err(error) => return self.state.fail(Error::terminal(error)),
        };
        let tagged = self.state.tag_connection(id, &json);
        alter(&self.state, tagged, ConnectionOp::Tag { id, tags });
    }

    /// Replaces the attachment of a connection: at most 16 KiB of JSON.
    pub fn attach(&self, id: ConnectionId, value: &impl Serialize) {
        let json = match serde_json::to_string(value) {
            Ok(json) => json,
            Err(error) => return self.state.fail(Error::terminal(error)),
        };
        if ATTACHMENT_BYTES_MAX < json.len() {
            let text =
                format!("attachment has {} bytes, limit is {ATTACHMENT_BYTES_MAX}", json.len());
            return self.state.fail(Error::terminal(text).with_code("attachment_too_large"));
        }
        if let Err(error) = self.state.attach_to(id, Some(&json)) {
            self.state.fail(error.into());
        }
    }

    /// The connections, in the order in which they connected.
    pub fn connections(&self) -> Result<Vec<Connection>> {
        Ok(self.state.all_connections()?)
    }

    /// The number of connections.
    pub fn connection_count(&self) -> Result<usize> {
        Ok(self.state.count_connections()?)
    }

    /// A connection; `None` if it has ended.
    pub fn connection(&self, id: ConnectionId) -> Result<Option<Connection>> {
        Ok(self.state.find_connection(id, false)?)
    }
}

/// Sends events that have a number.
pub struct NumberedEvents<'a> {
    state: &'a TurnState,
    number: i64,
}

impl NumberedEvents<'_> {
    /// Sends an event to all connections.
    pub fn broadcast(&self, msg: &impl Serialize) {
        tell(self.state, Recipients::All, Some(self.number), msg);
    }

    /// Sends an event to the connections with a tag.
    pub fn broadcast_to(&self, tag: &str, msg: &impl Serialize) {
        tell(self.state, Recipients::Tagged(tag.into()), Some(self.number), msg);
    }

    /// Sends an event to one connection.
    pub fn tell(&self, id: ConnectionId, msg: &impl Serialize) {
        tell(self.state, Recipients::One(id), Some(self.number), msg);
    }
}

fn tell(state: &TurnState, to: Recipients, number: Option<i64>, msg: &impl Serialize) {
    match serde_json::to_string(msg) {
        Ok(text) if text.len() <= EVENT_BYTES_MAX => {
            state.record(ConnectionOp::Tell {
                to,
                event: ConnectionEvent { text: text.into(), number },
            });
        }
        Ok(text) => {
            let text = format!("event has {} bytes, limit is {EVENT_BYTES_MAX}", text.len());
            state.fail(Error::terminal(text).with_code("event_too_large"));
        }
        Err(error) => state.fail(Error::terminal(error)),
    }
}

/// Records an operation if the row of the connection was changed. If the connection has ended,
/// nothing is done.
fn alter(state: &TurnState, changed: rusqlite::Result<bool>, op: ConnectionOp) {
    match changed {
        Ok(true) => state.record(op),
        Ok(false) => {}
        Err(error) => state.fail(error.into()),
    }
}

/// The first wait when an object is busy, and the longest.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Attempts to deliver a text while the object is busy.
const ATTEMPTS: u32 = 10;

/// One end of a live connection. Dropping it ends the connection and notifies the object.
pub struct LiveSocket {
    scheduler: OpaqueArc<Scheduler>,
    class: Arc<ServedClass>,
    object: store::Address,
    id: ConnectionId,
    caller: Caller,
    outbox: Arc<Outbox>,
    /// The reason, if it was closed from here.
    closed: Option<Closed>,
    slot: Option<ConnectionSlot>,
}

impl Objects {
    /// Connects to an object by names. The future is ready when the turn that accepted is durable.
    #[steadfast_store::boxed]
    pub async fn connect(
        &self,
        class: &str,
        name: &str,
        params: ConnectParams,
    ) -> Result<LiveSocket, CallError> {
        let (scheduler, found) = (&self.scheduler, self.class(class)?);
        let object = store::Address::new(EntityKind::Object, class, name)?;
        let slot = scheduler.connections.enter(&object, &scheduler.options)?;
        let id = scheduler.connections.next_id();
        let outbox = Outbox::new(scheduler.options.unread_bytes_max);
        let caller = params.caller();
        let new = NewConnection { id, params, outbox: outbox.clone() };
        // From here on the object is notified of the end, even if this future is dropped.
        let mut socket = LiveSocket {
            scheduler: scheduler.clone(),
            class: found.clone(),
            object,
            id,
            caller,
            outbox,
            closed: None,
            slot: Some(slot),
        };
        let accepted = socket.request(Request::Connected(Box::new(new))).await;
        match accepted {
            Ok(_) => Ok(socket),
            Err(error) => {
                // If the outcome is unknown, the connection may have been accepted.
                if error.surely_unapplied() {
                    socket.slot = None;
                }
                Err(error)
            }
        }
    }

    /// The number of live connections.
    pub fn connections(&self) -> usize {
        self.scheduler.connections.count()
    }

    /// Closes all live connections, takes no new ones, and waits until their objects are notified.
    #[steadfast_store::boxed]
    pub async fn hang_up(&self) {
        self.scheduler.connections.stop().await;
    }
}

impl LiveSocket {
    async fn request(&self, request: Request) -> Reply {
        Scheduler::call(&self.scheduler, &self.object, &self.class, request, None).await
    }

    /// Its number.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Delivers a text. The future is ready when the turn that received it is durable. While the
    /// object is busy, it waits.
    #[steadfast_store::boxed]
    pub async fn send(&self, text: &str) -> Result<(), CallError> {
        if let Some(reply) = self.auto_reply(text) {
            self.outbox.push(ConnectionEvent { text: reply.into(), number: None });
            return Ok(());
        }
        let mut pause = PAUSE;
        for _ in 1..ATTEMPTS {
            match self.request(self.received(text)).await {
                Err(CallError::Busy { .. }) => {}
                done => return done.map(|_| ()),
            }
            pause = wait(&self.scheduler, pause).await;
        }
        self.request(self.received(text)).await.map(|_| ())
    }

    fn received(&self, text: &str) -> Request {
        Request::Received { id: self.id, text: text.into(), caller: self.caller.clone() }
    }

    /// The answer to a text that needs no turn.
    pub fn auto_reply(&self, text: &str) -> Option<&'static str> {
        let replies = self.class.class.live.auto_reply;
        replies.iter().find(|it| it.0 == text).map(|it| it.1)
    }

    /// The next event for the connection, or its end.
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing is lost.
    #[steadfast_store::boxed]
    pub async fn next(&self) -> Result<ConnectionEvent, Closed> {
        self.outbox.next().await
    }

    /// Waits until the object or the server has ended the connection and all events are read.
    #[steadfast_store::boxed]
    pub async fn ended(&self) -> Closed {
        self.outbox.ended().await
    }

    /// Ends the connection, and waits until the object is notified.
    #[steadfast_store::boxed]
    pub async fn close(mut self, closed: Closed) {
        self.closed = Some(closed);
        if let Some(parting) = self.parting() {
            parting.await;
        }
    }

    /// Notifies the object of the end, without a time limit.
    fn parting(&mut self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let slot = self.slot.take()?;
        let (scheduler, class) = (self.scheduler.clone(), self.class.clone());
        let (object, id) = (self.object.clone(), self.id);
        let closed = self.closed.take().unwrap_or_else(Closed::broken);
        Some(async move {
            let _slot = slot;
            let mut pause = PAUSE;
            loop {
                let request = Request::Closed { id, closed: closed.clone() };
                match Scheduler::call(&scheduler, &object, &class, request, None).await {
                    Ok(_) => return,
                    Err(error) if error.is_retryable() => {}
                    Err(CallError::Store(StoreError::Unknown { .. })) => {}
                    // The next process finds it in the table of the object.
                    Err(error) => {
                        let object = object.to_string();
                        tracing::warn!(object, error = %error, "connection end was not recorded");
                        return;
                    }
                }
                pause = wait(&scheduler, pause).await;
            }
        })
    }
}

impl Drop for LiveSocket {
    fn drop(&mut self) {
        if let Some(parting) = self.parting() {
            self.scheduler.tokio.spawn(parting.boxed());
        }
    }
}

async fn wait(scheduler: &Scheduler, pause: Duration) -> Duration {
    scheduler.clock.sleep(pause).await;
    (pause * 2).min(PAUSE_MAX)
}
