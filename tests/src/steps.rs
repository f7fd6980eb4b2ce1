//! A wall clock that is set while the process runs.

use std::{sync::Arc, time::Duration};

use steadfast::store::{Clock, Entropy, Left, SeededEntropy, Sleep, SystemClock, Timestamp};

/// The clock of this process: that of the machine, or with STEADFAST_TEST_STEPS, a seed, one that
/// is set ahead and back.
pub(crate) fn clock() -> Arc<dyn Clock> {
    match std::env::var("STEADFAST_TEST_STEPS") {
        Ok(seed) => Arc::new(Unsteady { seed: seed.parse().expect("a number") }),
        Err(_) => Arc::new(SystemClock),
    }
}

/// How far it may be from the true time. Not so far ahead that keys expire: repeated requests must
/// be recognized.
const OFFSETS: [i64; 5] = [0, 3_600_000, -3_600_000, 400_000, -2_592_000_000];

/// It is set so often.
const PERIOD: Duration = Duration::from_millis(150);

#[derive(Debug)]
struct Unsteady {
    seed: u64,
}

impl Clock for Unsteady {
    fn now(&self) -> Timestamp {
        let period = self.elapsed().as_millis() / PERIOD.as_millis();
        let chance = SeededEntropy::new(self.seed ^ period as u64).next();
        let Timestamp(now) = SystemClock.now();
        Timestamp(now + OFFSETS[(chance % OFFSETS.len() as u64) as usize])
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }

    fn wait<'a>(&'a self, left: Left<'a>) -> Sleep<'a> {
        Box::pin(async move { SystemClock.wait(left).await })
    }
}
