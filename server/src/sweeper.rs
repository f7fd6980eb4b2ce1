//! Forgets what is older than it needs to be, now and then.

use std::time::Duration;

use steadfast_store::{Clock, Retention, Store, sweep};

/// A node that has just started has better things to do.
const FIRST: Duration = Duration::from_mins(1);

/// How often afterwards.
const PERIOD: Duration = Duration::from_hours(1);

/// Sweeps for as long as the node lives. Where nothing was committed since the last time nothing is
/// done: an idle node leaves its database alone.
pub(crate) async fn run(store: &dyn Store, clock: &dyn Clock, retention: Retention) {
    let mut swept_at = None;
    let mut pause = FIRST;
    loop {
        clock.sleep_until(clock.now().after(pause)).await;
        pause = PERIOD;
        let commits = store.activity().commits;
        if swept_at != Some(commits) {
            match sweep(store, clock, retention).await {
                Ok(count) if 0 < count => tracing::info!(count, "old messages forgotten"),
                Ok(_) => {}
                Err(error) => tracing::warn!(error = %error, "old messages were not forgotten"),
            }
            // The sweep itself is a commit, and no reason to sweep.
            swept_at = Some(store.activity().commits);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::Arc, task::Poll};

    use steadfast_store::{Address, Commit, Json, ManualClock, MemoryStore, Message, Timestamp};

    use super::*;

    #[tokio::test]
    async fn old_messages_go_and_an_idle_node_asks_nothing() {
        let clock = ManualClock::at(Timestamp(0));
        let store = MemoryStore::new(Arc::new(clock.clone()));
        let stream: Address = "stream/a/b".parse().unwrap();
        let event = || Message::new("x", Json::empty()).unwrap().event();
        let append = Commit::append(&stream, 0, vec![event(), event()]);
        store.commit(append).await.unwrap();
        let retention = Retention { keep: Duration::from_hours(2) };
        let mut sweeper = std::pin::pin!(run(&store, &clock, retention));
        let mut turn = async || {
            let polled = poll_fn(|cx| Poll::Ready(sweeper.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        };
        turn().await;
        clock.advance(FIRST);
        turn().await;
        assert_eq!(store.read_all(0, 9).await.unwrap().len(), 2);
        store.commit(Commit::append(&stream, 2, vec![event()])).await.unwrap();
        clock.advance(Duration::from_hours(3));
        turn().await;
        assert_eq!(store.read_all(0, 9).await.unwrap().len(), 1, "the last of a stream stays");
        let before = store.activity();
        clock.advance(PERIOD);
        turn().await;
        assert_eq!(store.activity(), before);
    }
}
