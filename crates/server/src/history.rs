//! Metrics of the last hour, in memory: one sample per 10 seconds. A restart clears them.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use steadfast_store::{Clock, Store, Timestamp, Totals};

/// The time between two samples.
const PERIOD: Duration = Duration::from_secs(10);

/// Samples of one hour.
const SAMPLES_MAX: usize = 360;

/// Four buckets per power of two: a percentile is at most 25 % too high. The last bucket holds all
/// durations above 3 minutes.
const RANGES: usize = 26 * 4;

/// One period: its counts, and the backlog at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// The end of the period.
    pub(crate) at: Timestamp,
    /// Commits per second.
    pub(crate) commits: f64,
    /// Median latency of requests; `None` without a request.
    pub(crate) median: Option<Duration>,
    /// 95th percentile of the latency.
    pub(crate) p95: Option<Duration>,
    /// Messages to be delivered; `None` if the store did not respond.
    pub(crate) pending: Option<u64>,
    /// Messages that became dead, and requests with a status of 500 and above.
    pub(crate) failures: u64,
}

/// Counters at one time.
#[derive(Clone, Copy, Debug)]
struct Counters {
    elapsed: Duration,
    commits: u64,
    totals: Option<Totals>,
    errors: u64,
}

#[derive(Debug, Default)]
struct State {
    since: Option<Timestamp>,
    last: Option<Counters>,
    samples: VecDeque<Sample>,
}

/// The samples, and the counters of the current period.
#[derive(Debug)]
pub(crate) struct History {
    state: Mutex<State>,
    errors: AtomicU64,
    durations: [AtomicU64; RANGES],
}

impl Default for History {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            errors: AtomicU64::new(0),
            durations: [const { AtomicU64::new(0) }; RANGES],
        }
    }
}

impl History {
    /// Counts a request; without a duration if it waited by design.
    pub(crate) fn count_request(&self, took: Option<Duration>, is_error: bool) {
        if let Some(took) = took {
            self.durations[range(took)].fetch_add(1, Ordering::Relaxed);
        }
        self.errors.fetch_add(u64::from(is_error), Ordering::Relaxed);
    }

    /// When measuring began; `None` if it did not.
    pub(crate) fn since(&self) -> Option<Timestamp> {
        self.lock().since
    }

    /// The samples, oldest first.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.lock().samples.iter().copied().collect()
    }

    /// Takes a sample in every period.
    pub(crate) async fn measure(&self, store: &dyn Store, clock: &dyn Clock) {
        loop {
            let commits = store.activity().commits;
            let last = self.lock().last;
            // An idle program does not read its store.
            let totals = match last.filter(|it| it.commits == commits && it.totals.is_some()) {
                Some(last) => last.totals,
                None => store.totals().await.ok(),
            };
            let errors = self.errors.load(Ordering::Relaxed);
            let elapsed = clock.elapsed();
            self.add(clock.now(), Counters { elapsed, commits, totals, errors });
            clock.sleep(PERIOD).await;
        }
    }

    fn add(&self, at: Timestamp, counters: Counters) {
        let durations = self.durations.each_ref().map(|it| it.swap(0, Ordering::Relaxed));
        let mut state = self.lock();
        state.since.get_or_insert(at);
        if let Some(last) = state.last.replace(counters) {
            if state.samples.len() == SAMPLES_MAX {
                state.samples.pop_front();
            }
            state.samples.push_back(sample(at, last, counters, &durations));
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn sample(at: Timestamp, last: Counters, now: Counters, durations: &[u64; RANGES]) -> Sample {
    let seconds = now.elapsed.saturating_sub(last.elapsed).as_secs_f64().max(0.001);
    let dead = |it: Counters| it.totals.map(|it| it.dead);
    // A redrive lowers the number.
    let died = dead(now).zip(dead(last)).map_or(0, |(now, last)| (now - last).max(0));
    Sample {
        at,
        commits: now.commits.saturating_sub(last.commits) as f64 / seconds,
        median: percentile(durations, 50),
        p95: percentile(durations, 95),
        pending: now.totals.map(|it| it.pending.max(0).unsigned_abs()),
        failures: died.unsigned_abs() + now.errors.saturating_sub(last.errors),
    }
}

/// The bucket of a duration: its highest bit and the two bits below it.
fn range(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(4);
    let octave = micros.ilog2();
    let quarter = (micros >> (octave - 2)) & 3;
    ((octave - 2) as usize * 4 + quarter as usize).min(RANGES - 1)
}

/// The upper bound of a bucket.
fn end(range: usize) -> Duration {
    let (octave, quarter) = (range / 4, range as u64 % 4);
    Duration::from_micros((quarter + 5) << octave)
}

fn percentile(durations: &[u64; RANGES], percent: u64) -> Option<Duration> {
    let wanted = (durations.iter().sum::<u64>() * percent).div_ceil(100);
    let mut passed = 0;
    durations.iter().enumerate().find_map(|(at, count)| {
        passed += count;
        (0 < wanted && wanted <= passed).then(|| end(at))
    })
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::Arc, task::Poll};

    use steadfast_store::{Commit, ManualClock, MemoryStore, SystemClock};

    use super::*;

    fn counters(seconds: u64, commits: u64, dead: i64, errors: u64) -> Counters {
        let totals = Some(Totals { position: 0, pending: 7, dead });
        Counters { elapsed: Duration::from_secs(seconds), commits, totals, errors }
    }

    #[test]
    fn a_sample_has_the_changes_since_the_previous_one() {
        let history = History::default();
        assert_eq!(history.since(), None);
        history.add(Timestamp(0), counters(0, 100, 3, 0));
        assert_eq!((history.since(), history.samples().len()), (Some(Timestamp(0)), 0));
        history.add(Timestamp(10_000), counters(10, 350, 5, 4));
        history.add(Timestamp(20_000), counters(20, 350, 1, 4));
        let samples = history.samples();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].commits, samples[0].failures), (25.0, 6));
        assert_eq!((samples[0].pending, samples[0].p95), (Some(7), None));
        assert_eq!((samples[1].commits, samples[1].failures), (0.0, 0), "a redrive is no failure");
    }

    #[test]
    fn the_oldest_sample_is_dropped_after_an_hour() {
        let history = History::default();
        for number in 0..=SAMPLES_MAX as u64 + 2 {
            history.add(Timestamp(number as i64), counters(number, number, 0, 0));
        }
        let samples = history.samples();
        assert_eq!((samples.len(), samples[0].at), (SAMPLES_MAX, Timestamp(3)));
        assert_eq!(history.since(), Some(Timestamp(0)));
    }

    #[test]
    fn percentiles_are_those_of_the_period() {
        let history = History::default();
        history.add(Timestamp(0), counters(0, 0, 0, 0));
        for millis in 1..=100 {
            history.count_request(Some(Duration::from_millis(millis)), millis == 1);
        }
        history.add(Timestamp(1), counters(10, 0, 0, 0));
        history.add(Timestamp(2), counters(20, 0, 0, 0));
        let samples = history.samples();
        let near = |found: Option<Duration>, millis: u64| {
            let (found, wanted) = (found.unwrap(), Duration::from_millis(millis));
            assert!(wanted <= found && found <= wanted * 5 / 4, "{found:?} for {wanted:?}");
        };
        near(samples[0].median, 50);
        near(samples[0].p95, 95);
        assert_eq!(samples[1].median, None, "no request came in the second period");
    }

    #[test]
    fn every_duration_is_below_the_end_of_its_bucket() {
        for micros in [0, 1, 3, 4, 5, 7, 8, 100, 1_000, 999_999, 33_000_000] {
            let took = Duration::from_micros(micros);
            assert!(took < end(range(took)), "{took:?}");
        }
        assert_eq!(range(Duration::MAX), RANGES - 1);
    }

    #[tokio::test]
    async fn a_sample_is_taken_in_every_period() {
        let clock = ManualClock::at(Timestamp(0));
        let store = MemoryStore::new(Arc::new(SystemClock));
        let history = History::default();
        let mut measuring = std::pin::pin!(history.measure(&store, &clock));
        let mut turn =
            async || poll_fn(|cx| Poll::Ready(measuring.as_mut().poll(cx).is_pending())).await;
        assert!(turn().await);
        store.commit(Commit::default()).await.unwrap();
        clock.advance(PERIOD / 2);
        assert!(turn().await);
        assert_eq!(history.samples().len(), 0);
        clock.advance(PERIOD / 2);
        assert!(turn().await);
        assert_eq!((history.samples().len(), history.samples()[0].commits), (1, 0.1));
    }
}
