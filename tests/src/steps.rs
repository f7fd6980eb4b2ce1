//! A wall clock that is set while the process runs.

use std::{sync::Arc, time::Duration};

use steadfast_core::store::{
    Clock, Entropy, SeededEntropy, Sleep, SystemClock, TimeLeft, Timestamp,
};

/// The clock of this process: that of the machine, or with STEADFAST_TEST_STEPS, a seed, one that
/// is set ahead and back; or with STEADFAST_TEST_AHEAD one that is this many milliseconds ahead.
pub(crate) fn clock() -> Arc<dyn Clock> {
    let number = |name| std::env::var(name).ok().map(|it| it.parse().expect("a number"));
    if let Some(seed) = number("STEADFAST_TEST_STEPS") {
        return Arc::new(Unsteady { began: SystemClock.elapsed(), seed });
    }
    match number("STEADFAST_TEST_AHEAD") {
        Some(ms) => Arc::new(Ahead { ms, began: SystemClock.elapsed() }),
        None => Arc::new(SystemClock),
    }
}

/// Offsets from the true time. Not so far ahead that keys expire: repeated requests must be
/// recognized. A process begins with the true time, or a new store would be set ahead by the
/// initial offset of its first clock.
const OFFSETS: [i64; 5] = [0, 3_600_000, -3_600_000, 400_000, -2_592_000_000];

/// The interval at which it is set.
const PERIOD: Duration = Duration::from_millis(150);

#[derive(Debug)]
struct Unsteady {
    began: Duration,
    seed: u64,
}

/// A clock that is ahead, and runs fast: data is soon old.
#[derive(Debug)]
struct Ahead {
    ms: u64,
    began: Duration,
}

/// The speed of that clock.
const RATE: u32 = 60;

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        let passed = SystemClock.elapsed().saturating_sub(self.began);
        let ahead = Duration::from_millis(self.ms) + passed * (RATE - 1);
        SystemClock.now().after(ahead)
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed().saturating_sub(self.began) * RATE
    }

    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a> {
        Box::pin(async move { SystemClock.wait(left).await })
    }
}

impl Clock for Unsteady {
    fn now(&self) -> Timestamp {
        let period = (self.elapsed() - self.began).as_millis() / PERIOD.as_millis();
        let chance = SeededEntropy::new(self.seed ^ period as u64).next();
        let chance = if period == 0 { 0 } else { chance % OFFSETS.len() as u64 };
        let Timestamp(now) = SystemClock.now();
        Timestamp(now + OFFSETS[chance as usize])
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }

    fn wait<'a>(&'a self, left: TimeLeft<'a>) -> Sleep<'a> {
        Box::pin(async move { SystemClock.wait(left).await })
    }
}
