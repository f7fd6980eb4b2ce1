//! Sends requests in a fixed order without waiting for the replies in between.
//!
//! The server executes requests in the order in which the driver queued them, and a write that is
//! queued behind COMMIT runs outside of the transaction. The driver queues a request when its
//! future is first polled, so [`send`] polls it once, and the order of the calls is the order of
//! the requests. Combinators such as `join_all` promise no order of first polls.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

use futures_util::future::{BoxFuture, FutureExt};
use tokio_postgres::types::ToSql;

use crate::sql::Value;

/// The parameters of a statement, as arrays.
pub(super) type Arrays<'a> = Vec<Vec<Value<'a>>>;

/// The reply to a request that was sent.
pub(super) enum PendingReply<'a, T> {
    /// The request failed before it was sent, or the reply is already here.
    Ready(T),
    /// The driver has the request.
    Waiting(BoxFuture<'a, T>),
}

impl<T> PendingReply<'_, T> {
    /// Waits for the reply. Wait in the order of the requests: the driver buffers only a part of a
    /// reply, and passes on no later reply before the earlier ones are taken or dropped.
    pub(super) async fn wait(self) -> T {
        match self {
            PendingReply::Ready(reply) => reply,
            PendingReply::Waiting(request) => request.await,
        }
    }
}

/// Sends a request and returns immediately.
pub(super) async fn send<'a, T>(
    request: impl Future<Output = T> + Send + 'a,
) -> PendingReply<'a, T> {
    let mut request = request.boxed();
    match poll_fn(|cx| Poll::Ready(request.poll_unpin(cx))).await {
        Poll::Ready(reply) => PendingReply::Ready(reply),
        Poll::Pending => PendingReply::Waiting(request),
    }
}

/// The parameters as the driver takes them.
pub(super) fn references<'a>(arrays: &'a Arrays<'_>) -> Vec<&'a (dyn ToSql + Sync)> {
    arrays.iter().map(|it| it as &(dyn ToSql + Sync)).collect()
}

#[cfg(test)]
mod tests {
    use std::mem;

    use parking_lot::Mutex;

    use super::*;

    /// A request that records when it is sent, and whose reply arrives at once.
    async fn request(sent: &Mutex<Vec<usize>>, number: usize) -> usize {
        let mut is_sent = false;
        poll_fn(|cx| {
            if mem::replace(&mut is_sent, true) {
                return Poll::Ready(number);
            }
            sent.lock().push(number);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    #[tokio::test]
    async fn requests_are_sent_in_order_even_if_replies_arrive_meanwhile() {
        let sent = Mutex::new(Vec::new());
        let mut replies = Vec::new();
        for number in 0..40 {
            replies.push(send(request(&sent, number)).await);
        }
        let committed = send(request(&sent, 40)).await;
        let in_order: Vec<usize> = (0..=40).collect();
        assert_eq!(*sent.lock(), in_order, "nothing is sent after the last one");
        for (number, reply) in replies.into_iter().enumerate() {
            assert_eq!(reply.wait().await, number);
        }
        assert_eq!(committed.wait().await, 40);
    }
}
