//! Deliveries to one target begin in the order of their messages, although each is loaded on its
//! own: each waits until the one before has begun, or has ended without. If that one found no place
//! and goes back, those behind it go back, too.

use tokio::sync::oneshot;

/// Where one delivery waits for the one before it. Dropped, it lets the next one go.
pub(super) struct Turnstile {
    before: Option<oneshot::Receiver<()>>,
    next: oneshot::Sender<()>,
}

impl Turnstile {
    /// Behind `before`, with what the next one waits for.
    pub(super) fn new(before: Option<oneshot::Receiver<()>>) -> (Self, oneshot::Receiver<()>) {
        let (next, waits) = oneshot::channel();
        (Self { before, next }, waits)
    }

    /// Returns when the one before has begun; `false` if it went back.
    pub(super) async fn come(&mut self) -> bool {
        match self.before.take() {
            // It is dropped when it has begun, and says so if it goes back.
            Some(before) => before.await.is_err(),
            None => true,
        }
    }

    /// Says that it goes back.
    pub(super) fn go_back(self) {
        // That nobody is behind it is no matter.
        let _ = self.next.send(());
    }
}
