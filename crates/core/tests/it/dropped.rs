//! Operations whose callers go away.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

/// Polls an operation this often, and drops it. `None` if it has not ended.
pub(crate) async fn dropped<T>(polls: usize, operation: impl Future<Output = T>) -> Option<T> {
    let (mut operation, mut left) = (pin!(operation), polls);
    poll_fn(|context| {
        left -= 1;
        match operation.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
