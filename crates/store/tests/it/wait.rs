//! Waits for a condition.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};

/// Polls without a pause: most conditions hold after some turns of the other tasks.
const POLLS: usize = 100;

/// Interval of the polls after that. A test that waits leaves the processors to the database and to
/// other tests.
const PAUSE: Duration = Duration::from_millis(1);

/// Bounded by time and not by polls: a database may be slow on a busy machine.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The pace of a loop that polls a condition.
pub(crate) struct Pace {
    polls: usize,
    pause: Interval,
    began: Instant,
}

impl Pace {
    pub(crate) fn new() -> Self {
        let mut pause = interval(PAUSE);
        pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { polls: 0, pause, began: Instant::now() }
    }

    /// Waits before the next poll for a condition that should come.
    pub(crate) async fn wait(&mut self, what: &str) {
        assert!(self.began.elapsed() < WAIT_MAX, "never: {what}");
        self.polls += 1;
        if self.polls < POLLS {
            tokio::task::yield_now().await;
        } else {
            self.pause.tick().await;
        }
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let mut pace = Pace::new();
    let waits = async {
        while !holds().await {
            pace.wait(what).await;
        }
    };
    let came = timeout(WAIT_MAX, waits).await;
    assert!(came.is_ok(), "never: {what}");
}
