//! How the owner of due work learns of it: from the commits themselves, without a query.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Position, Recorded, Work, fresh::Fresh, plan::Plan};

/// Work that a commit wrote, handed to the one who dispatches it.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    heard: AtomicBool,
    waiting: Mutex<Waiting>,
    fresh: Mutex<Fresh>,
    notify: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    notices: Vec<Notice>,
    overflowed: bool,
}

/// Something about work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It is to be done.
    Due(Work),
    /// It was ordered and is settled: what waits behind it may go on.
    Unblocked(Work),
}

/// What has been written since the last time.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// Just this.
    Notices(Vec<Notice>),
    /// More than is kept: read the store.
    Overflow,
}

impl Notices {
    /// Rows that are kept for a listener who does not come; memory stays bounded.
    const WAITING_MAX: usize = 65_536;

    /// Begins to keep notices. Before, nobody listens and nothing is kept.
    pub fn listen(&self) {
        self.shared.heard.store(true, Ordering::Release);
    }

    /// Waits for news.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub async fn next(&self) -> News {
        loop {
            let notified = self.shared.notify.notified();
            if let Some(news) = self.take() {
                return news;
            }
            notified.await;
        }
    }

    /// Whether there is no news.
    pub fn is_empty(&self) -> bool {
        let waiting = self.lock();
        waiting.notices.is_empty() && !waiting.overflowed
    }

    fn take(&self) -> Option<News> {
        let mut waiting = self.lock();
        if std::mem::take(&mut waiting.overflowed) {
            return Some(News::Overflow);
        }
        if waiting.notices.is_empty() {
            return None;
        }
        Some(News::Notices(std::mem::take(&mut waiting.notices)))
    }

    /// A message that was just written and is to be delivered, once: as it was written, whatever
    /// has become of it since. `None` says nothing: then it has to be read.
    pub fn fresh(&self, position: Position) -> Option<Recorded> {
        self.shared.fresh.lock().take(position)
    }

    /// Adds what a durable batch wrote.
    pub(crate) fn publish(&self, plan: &Plan) {
        // Who claims work inside of this process knows of it; what a consumer outside claims is
        // news.
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
        // A panic cannot leave the list half changed.
        self.shared.waiting.lock()
    }
}
