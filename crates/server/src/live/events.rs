//! Server-sent events: what an object tells, to who only listens.
//!
//! The body of the answer is asked for only while the client reads, so a task of its own watches:
//! for the end of the connection, and for a client that reads nothing.

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response, Sse,
    sse::{Event, KeepAlive},
};
use futures_util::stream;
use serde_json::json;
use steadfast_core::{Closed, LiveSocket};
use steadfast_store::{Clock, SystemClock};
use tokio::{sync::mpsc, time::timeout};

use super::{COMMENT, GOODBYE_MOMENT, WRITE_TIMEOUT};
use crate::listener::Seat;

/// After so long a browser comes again.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// The answer that goes on until the connection ends.
pub(crate) fn answer(live: LiveSocket, seat: Option<Seat>) -> Response {
    let (out, told) = mpsc::channel(1);
    tokio::spawn(tell(live, out, seat));
    answer_of(told)
}

/// The answer that tells events as they come.
pub(super) fn answer_of(told: mpsc::Receiver<Event>) -> Response {
    let told = stream::unfold(told, async |mut told| {
        let event: Event = told.recv().await?;
        Some((Ok::<_, Infallible>(event), told))
    });
    let alive = KeepAlive::new().interval(COMMENT);
    // It is not used again: when the events end, so does the connection.
    let headers = [("x-accel-buffering", "no"), ("connection", "close")];
    (headers, Sse::new(told).keep_alive(alive)).into_response()
}

/// Tells everything until the end, of which the object hears.
async fn tell(live: LiveSocket, out: mpsc::Sender<Event>, seat: Option<Seat>) {
    let closed = talk(&live, &out).await;
    let why = json!({ "code": closed.code, "reason": closed.reason }).to_string();
    let goodbye = Event::default().event("closed").data(why);
    let _ = timeout(GOODBYE_MOMENT, out.send(goodbye)).await;
    drop(out);
    live.close(closed).await;
    if let Some(seat) = seat {
        // Who reads has all of it by then; who does not is not waited for.
        SystemClock.sleep(2 * GOODBYE_MOMENT).await;
        seat.cut();
    }
}

/// How it ended.
async fn talk(live: &LiveSocket, out: &mpsc::Sender<Event>) -> Closed {
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
