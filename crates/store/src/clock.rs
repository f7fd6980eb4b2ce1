//! Clocks, and sources of randomness. Both are injected, so that tests and simulation can control
//! them.

use std::{
    fmt,
    future::Future,
    hash::{BuildHasher, RandomState},
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// Milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Before everything.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// After everything.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// This time plus `duration`.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// This time minus `duration`.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The duration from `earlier` to this; zero if it is not later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The future of a sleep.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Computes the remaining time of a wait.
pub type TimeLeft<'a> = Box<dyn Fn() -> Duration + Send + Sync + 'a>;

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The time of day. It can be set, in both directions.
    fn now(&self) -> Timestamp;

    /// The time since a fixed moment, including suspension of the machine. It cannot be set.
    fn elapsed(&self) -> Duration;

    /// Returns when no time is left. It calls `left` again when that much time has passed, and
    /// within a second after the time of day was set.
    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a>;

    /// Returns when [`now`](Clock::now) has reached `at`.
    fn sleep_until(&self, at: Timestamp) -> Sleep<'_> {
        self.wait(Box::new(move || at.since(self.now())))
    }

    /// Returns when [`elapsed`](Clock::elapsed) has advanced by `duration`: for timeouts and
    /// pauses, which must not depend on the time of day.
    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        let end = self.elapsed().saturating_add(duration);
        self.wait(Box::new(move || end.saturating_sub(self.elapsed())))
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Interval at which a sleeper checks whether the time of day was set.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// It also advances while the machine is suspended.
#[cfg(target_os = "linux")]
const ELAPSED: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const ELAPSED: ClockId = ClockId::Monotonic;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the door for the wall clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::default().after(since)
    }

    fn elapsed(&self) -> Duration {
        Duration::try_from(clock_gettime(ELAPSED)).unwrap_or_default()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door for sleeping")]
    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a> {
        Box::pin(async move {
            loop {
                let left = left();
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LOOK_EVERY)).await;
            }
        })
    }

    // Timers of tokio do not follow the time of day, so this timer is only a bound. It is created
    // when it is polled: it needs a runtime.
    #[expect(clippy::disallowed_methods, reason = "this is the door for sleeping")]
    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        let began = self.elapsed();
        Box::pin(async move {
            let passed = SystemClock.elapsed().saturating_sub(began);
            tokio::time::sleep(duration.saturating_sub(passed)).await;
        })
    }
}

/// A clock that only [`advance`](Self::advance) and [`set`](Self::set) move.
#[derive(Clone, Debug)]
pub struct ManualClock {
    times: watch::Sender<(Timestamp, Duration)>,
}

impl ManualClock {
    /// Starts at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { times: watch::Sender::new((now, Duration::ZERO)) }
    }

    /// Lets `duration` pass and wakes every sleeper whose time has come.
    pub fn advance(&self, duration: Duration) {
        self.times.send_modify(|(now, elapsed)| {
            (*now, *elapsed) = (now.after(duration), *elapsed + duration);
        });
    }

    /// Sets the time of day, backwards too, as an operator or NTP does: no time passes.
    pub fn set(&self, now: Timestamp) {
        self.times.send_modify(|it| it.0 = now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.times.borrow().0
    }

    fn elapsed(&self) -> Duration {
        self.times.borrow().1
    }

    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a> {
        // Subscribe before the first check, so that no change is missed.
        let mut times = self.times.subscribe();
        Box::pin(async move {
            while !left().is_zero() {
                // The sender is `self`, which outlives this future: waiting cannot fail.
                let _ = times.changed().await;
            }
        })
    }
}

/// A source of random numbers.
pub trait Entropy: Send + Sync + fmt::Debug + 'static {
    /// The next 64 random bits.
    fn next(&self) -> u64;

    /// A number from 0 up to, not including, 1.
    fn unit(&self) -> f64 {
        // 53 bits fill a double's mantissa exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A deterministic generator (SplitMix64). Not for secrets.
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// Starts at a seed of the operating system.
    pub fn from_system() -> Self {
        Self::new(RandomState::new().hash_one("steadfast"))
    }
}

impl Entropy for SeededEntropy {
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut x = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }
}
