//! Deliveries to one target begin in the order of their messages, although each is loaded on its
//! own: each waits until the one before has begun, or has ended without.

use tokio::sync::oneshot;

/// Where one delivery waits for the one before it. Dropped, it lets the next one go.
pub(super) struct Turnstile {
    before: Option<oneshot::Receiver<()>>,
    _next: oneshot::Sender<()>,
}

impl Turnstile {
    /// Behind `before`, with what the next one waits for.
    pub(super) fn new(before: Option<oneshot::Receiver<()>>) -> (Self, oneshot::Receiver<()>) {
        let (next, waits) = oneshot::channel();
        (Self { before, _next: next }, waits)
    }

    /// Returns when the one before has begun.
    pub(super) async fn come(&mut self) {
        if let Some(before) = self.before.take() {
            // It was dropped, which is what is waited for.
            let _ = before.await;
        }
    }
}
