//! Server-sent events: a one-way connection to an object.
//!
//! The body of the response is polled only while the client reads. A task therefore watches for the
//! end of the connection and for a client that does not read.

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response, Sse,
    sse::{Event, KeepAlive},
};
use futures_util::{FutureExt, stream};
use serde_json::json;
use steadfast_core::{Closed, LiveSocket};
use steadfast_store::{Clock, SystemClock};
use tokio::{sync::mpsc, time::timeout};

use super::{CLOSE_NOTICE_DELAY, COMMENT, WRITE_TIMEOUT};
use crate::listener::ConnectionSlot;

/// Delay before a browser reconnects.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// The response that streams until the connection ends.
pub(crate) fn answer(
    live: LiveSocket,
    slot: Option<ConnectionSlot>,
    access_ended: impl Future<Output = ()> + Send + 'static,
) -> Response {
    let (out, events) = mpsc::channel(1);
    tokio::spawn(
        async move {
            let closed = tokio::select! {
                closed = stream_messages(&live, &out) => closed,
                () = access_ended => super::access_closed(),
            };
            end(live, closed, out, slot).await;
        }
        .boxed(),
    );
    answer_of(events)
}

/// The response that streams these events.
pub(super) fn answer_of(events: mpsc::Receiver<Event>) -> Response {
    let events = stream::unfold(events, async |mut events| {
        let event: Event = events.recv().await?;
        Some((Ok::<_, Infallible>(event), events))
    });
    let alive = KeepAlive::new().interval(COMMENT);
    // The connection is not reused: it ends with the events.
    let headers = [("x-accel-buffering", "no"), ("connection", "close")];
    (headers, Sse::new(events).keep_alive(alive)).into_response()
}

/// Reports the end to the client and to the object.
async fn end(
    live: LiveSocket,
    closed: Closed,
    out: mpsc::Sender<Event>,
    slot: Option<ConnectionSlot>,
) {
    let why = json!({ "code": closed.code, "reason": closed.reason }).to_string();
    let last = Event::default().event("closed").data(why);
    send_last(out, last).await;
    live.close(closed).await;
    close(slot).await;
}

/// Sends the last event, if the client reads it.
pub(super) async fn send_last(out: mpsc::Sender<Event>, last: Event) {
    let _ = timeout(CLOSE_NOTICE_DELAY, out.send(last)).await;
}

/// Closes a connection whose events have ended.
pub(super) async fn close(slot: Option<ConnectionSlot>) {
    if let Some(slot) = slot {
        // A client that reads has received everything by then; others are not waited for.
        SystemClock.sleep(2 * CLOSE_NOTICE_DELAY).await;
        slot.close();
    }
}

/// Streams the messages; returns the reason of the end.
async fn stream_messages(live: &LiveSocket, out: &mpsc::Sender<Event>) -> Closed {
    let gone = || Closed::new(Closed::BROKEN, "the connection broke");
    let mut next = Event::default().retry(RETRY).comment("connected");
    loop {
        tokio::select! {
            biased;
            sent = timeout(WRITE_TIMEOUT, out.send(next)) => match sent {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return gone(),
                Err(_) => return Closed::new(Closed::TRY_AGAIN, "too slow: reconnect"),
            },
            closed = live.ended() => return closed,
        }
        let event = tokio::select! {
            event = live.next() => event,
            () = out.closed() => return gone(),
        };
        next = match event {
            Ok(event) => {
                let out = Event::default().data(&*event.text);
                match event.number {
                    Some(number) => out.id(number.to_string()),
                    None => out,
                }
            }
            Err(closed) => return closed,
        };
    }
}
