//! Server-sent events: what an object tells, to who only listens.

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse, Response, Sse,
    sse::{Event, KeepAlive},
};
use futures_util::stream;
use serde_json::json;
use steadfast::LiveSocket;

use super::COMMENT;

/// After so long a browser comes again.
const RETRY: Duration = Duration::from_secs(1);

/// The answer that goes on until the connection ends. Nobody tells us when a client goes away: what
/// we hold for it is dropped, and the object hears of that.
pub(crate) fn answer(live: LiveSocket) -> Response {
    let hello = Event::default().retry(RETRY).comment("connected");
    let told = stream::unfold(Some((live, Some(hello))), |state| async {
        let (mut live, hello) = state?;
        if let Some(hello) = hello {
            return Some((Ok::<_, Infallible>(hello), Some((live, None))));
        }
        match live.next().await {
            Ok(event) => {
                let out = Event::default().data(&*event.text);
                let out = match event.number {
                    Some(number) => out.id(number.to_string()),
                    None => out,
                };
                Some((Ok(out), Some((live, None))))
            }
            Err(closed) => {
                let why = json!({ "code": closed.code, "reason": closed.reason });
                live.was_closed(closed);
                let out = Event::default().event("closed").data(why.to_string());
                Some((Ok(out), None))
            }
        }
    });
    let alive = KeepAlive::new().interval(COMMENT);
    let unbuffered = [("x-accel-buffering", "no")];
    (unbuffered, Sse::new(told).keep_alive(alive)).into_response()
}
