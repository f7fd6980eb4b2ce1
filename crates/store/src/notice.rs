//! Notices of due work: commits announce it, so that the dispatcher needs no query.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Position, Recorded, Work, fresh_messages::FreshMessages, plan::Plan};

/// Work that commits wrote, for its dispatcher.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    heard: AtomicBool,
    waiting: Mutex<Waiting>,
    fresh: Mutex<FreshMessages>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    notices: Vec<Notice>,
    overflowed: bool,
}

/// A notice about work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It was written or changed.
    Due(Work),
    /// It was ordered and is settled: the work behind it may begin.
    Unblocked(Work),
}

/// The notices since the last call.
#[derive(Debug, PartialEq, Eq)]
pub enum NoticeBatch {
    /// All of them.
    Notices(Vec<Notice>),
    /// More than the buffer holds: read the store.
    Overflow,
}

impl Notices {
    /// Maximum buffered notices; memory stays bounded if the listener is slow.
    const WAITING_MAX: usize = 65_536;

    /// Starts to buffer notices. Before, there is no listener and nothing is buffered.
    pub fn listen(&self) {
        self.shared.heard.store(true, Ordering::Release);
    }

    /// Waits for notices.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    #[crate::boxed]
    pub async fn next(&self) -> NoticeBatch {
        loop {
            let notified = self.shared.notify.notified();
            if let Some(news) = self.take() {
                return news;
            }
            notified.await;
        }
    }

    /// Whether there are no notices.
    pub fn is_empty(&self) -> bool {
        let waiting = self.lock();
        waiting.notices.is_empty() && !waiting.overflowed
    }

    fn take(&self) -> Option<NoticeBatch> {
        let mut waiting = self.lock();
        if std::mem::take(&mut waiting.overflowed) {
            return Some(NoticeBatch::Overflow);
        }
        if waiting.notices.is_empty() {
            return None;
        }
        Some(NoticeBatch::Notices(std::mem::take(&mut waiting.notices)))
    }

    /// A message that was just written and is to be delivered, once, as it was written; it may have
    /// changed since. `None` if it is not cached: then it has to be read.
    pub fn fresh(&self, position: Position) -> Option<Recorded> {
        self.shared.fresh.lock().take(position)
    }

    /// Adds the notices of a durable batch.
    pub(crate) fn publish(&self, plan: &Plan) {
        // A claim inside of this process is known to its owner; a claim of a consumer outside needs
        // a notice.
        let inside = |it: &&Work| it.claim.is_some_and(|(lease, _)| lease.holder != 0);
        let works = plan.works.iter().filter(|it| !inside(it));
        let more = works.clone().count() + plan.unblocked.len();
        if more == 0 || !self.shared.heard.load(Ordering::Acquire) {
            return;
        }
        self.shared.fresh.lock().keep(plan);
        let mut waiting = self.lock();
        if Self::WAITING_MAX < waiting.notices.len() + more {
            waiting.notices = Vec::new();
            waiting.overflowed = true;
        } else if !waiting.overflowed {
            waiting.notices.extend(plan.unblocked.iter().map(|work| Notice::Unblocked(*work)));
            waiting.notices.extend(works.map(|work| Notice::Due(*work)));
        }
        drop(waiting);
        self.shared.notify.notify_one();
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Waiting> {
        // A panic cannot leave the list inconsistent.
        self.shared.waiting.lock()
    }
}
