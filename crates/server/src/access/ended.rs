//! Requests in flight end with the access of their caller.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use hyper::body::{Frame, SizeHint};
use steadfast_api::Code;
use steadfast_web::Problem;

use super::Admission;
use crate::{listener::ConnectionSlot, server::Server};

/// Bodies of this size arrive at once.
const SMALL: u64 = 64 << 10;

pub(crate) const ENDED: &str = "the access of the caller ended while the request was in flight";

/// Answers a request that waits, unless the access of its caller ends first.
pub(crate) async fn answer_or_end(
    server: Arc<Server>,
    admission: Admission,
    handled: impl Future<Output = Response>,
) -> Response {
    if admission.caller.principal().is_none() {
        return handled.await;
    }
    tokio::select! {
        biased;
        response = handled => response,
        () = admission.ended(server) => Problem::of(Code::TokenRevoked, ENDED).into_response(),
    }
}

/// A large body ends with the access of its sender.
pub(crate) fn end_body(
    server: &Arc<Server>,
    admission: &Admission,
    (headers, slot): (&HeaderMap, Option<&ConnectionSlot>),
    body: Body,
) -> Body {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let is_small = body.is_end_stream() || length.is_some_and(|it| it <= SMALL);
    if is_small || admission.caller.principal().is_none() {
        return body;
    }
    let ended: Ended = Box::pin(admission.clone().ended(server.clone()));
    Body::new(EndingBody { body, ended: Some(ended), slot: slot.cloned() })
}

type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

struct EndingBody {
    body: Body,
    /// `None` when it has ended.
    ended: Option<Ended>,
    slot: Option<ConnectionSlot>,
}

impl HttpBody for EndingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(ended) = &mut self.ended else { return Poll::Ready(None) };
        if ended.as_mut().poll(context).is_ready() {
            self.ended = None;
            self.slot.iter().for_each(|it| it.note_ended(true));
            return Poll::Ready(Some(Err(axum::Error::new(ENDED))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
