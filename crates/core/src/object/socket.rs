//! The client end of a live connection, for a server or for the program itself.

use std::{sync::Arc, time::Duration};

use steadfast_store::{self as store, EntityKind, StoreError, futures::FutureExt};

use super::{
    CallError, Objects,
    caller::Caller,
    connections::{
        Closed, ConnectParams, ConnectionId, ConnectionSlot, Event, NewConnection, Outbox,
    },
    request::{Reply, Request},
    scheduler::{Scheduler, ServedClass},
};

/// The first wait when an object is busy, and the longest.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Attempts to deliver a text while the object is busy.
const ATTEMPTS: u32 = 10;

/// One end of a live connection. Dropping it ends the connection and notifies the object.
pub struct LiveSocket {
    scheduler: Arc<Scheduler>,
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
        self.scheduler.call(&self.object, &self.class, request, None).await
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
            self.outbox.push(Event { text: reply.into(), number: None });
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
    pub async fn next(&self) -> Result<Event, Closed> {
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

    /// Sets the reason of the end, before this is dropped.
    pub fn was_closed(&mut self, closed: Closed) {
        self.closed.get_or_insert(closed);
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
                match scheduler.call(&object, &class, request, None).await {
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
