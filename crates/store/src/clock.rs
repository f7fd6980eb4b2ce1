//! Time comes in through the door, so that tests and simulation can turn it.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;

/// Milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Before everything.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// After everything.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// This time and `duration` more.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long it is from `earlier` to this; zero if it is not later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A sleep that somebody waits for.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Tells the time and waits for it.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Returns when `at` is reached.
    fn sleep_until(&self, at: Timestamp) -> Sleep<'_>;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the door for the wall clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::default().after(since)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door for sleeping")]
    fn sleep_until(&self, at: Timestamp) -> Sleep<'_> {
        // Woken at least hourly, because the wall clock may be set while we sleep.
        Box::pin(async move {
            loop {
                let left = at.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(Duration::from_hours(1))).await;
            }
        })
    }
}

/// A clock that moves only when it is told to.
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
}

impl ManualClock {
    /// Starts at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now: watch::Sender::new(now) }
    }

    /// Moves on by `duration` and wakes who waited for a time on the way.
    pub fn advance(&self, duration: Duration) {
        self.now.send_modify(|it| *it = it.after(duration));
    }

    /// Sets the time, backwards too.
    pub fn set(&self, now: Timestamp) {
        self.now.send_replace(now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep_until(&self, at: Timestamp) -> Sleep<'_> {
        let mut now = self.now.subscribe();
        Box::pin(async move {
            // The sender is `self`, which outlives this future: waiting cannot fail.
            let _ = now.wait_for(|it| at <= *it).await;
        })
    }
}
