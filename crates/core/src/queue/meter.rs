//! Throughput of a queue: counts per second of the last minute, in memory.

use parking_lot::Mutex;

use serde::{Deserialize, Serialize};
use steadfast_store::Timestamp;

use crate::dispatch::attempt::EndKind;

const SECONDS: usize = 60;

/// Events of a message that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageEvent {
    Sent,
    Delivered,
    Done,
    Retried,
    Dead,
}

impl From<EndKind> for MessageEvent {
    fn from(kind: EndKind) -> Self {
        match kind {
            EndKind::Done => MessageEvent::Done,
            EndKind::Retried => MessageEvent::Retried,
            EndKind::GivenUp => MessageEvent::Dead,
        }
    }
}

/// Messages per second over the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Rates {
    /// Sent.
    pub sent: f64,
    /// Delivered to consumers.
    pub delivered: f64,
    /// Handled.
    pub done: f64,
    /// Retried.
    pub retried: f64,
    /// Moved to the dead letters.
    pub dead: f64,
}

#[derive(Default)]
pub(super) struct Meter(Mutex<Counts>);

struct Counts {
    first: i64,
    /// The second of each slot, and its counts.
    seconds: [(i64, [u64; 5]); SECONDS],
    totals: [u64; 5],
}

impl Default for Counts {
    fn default() -> Self {
        Self { first: i64::MAX, seconds: [(i64::MIN, [0; 5]); SECONDS], totals: [0; 5] }
    }
}

impl Meter {
    pub(super) fn count(&self, what: MessageEvent, number: usize, now: Timestamp) {
        if number == 0 {
            return;
        }
        let second = now.0.div_euclid(1_000);
        let mut counts = self.0.lock();
        counts.first = counts.first.min(second);
        counts.totals[what as usize] += number as u64;
        let place = &mut counts.seconds[second.rem_euclid(SECONDS as i64) as usize];
        if place.0 != second {
            *place = (second, [0; 5]);
        }
        place.1[what as usize] += number as u64;
    }

    pub(super) fn rates(&self, now: Timestamp) -> Rates {
        let second = now.0.div_euclid(1_000);
        let counts = self.0.lock();
        // Not longer than the time since the first count.
        let span = second.saturating_sub(counts.first).saturating_add(1).clamp(1, SECONDS as i64);
        let of = |what: MessageEvent| {
            let recent = counts.seconds.iter().filter(|it| second - span < it.0 && it.0 <= second);
            recent.map(|it| it.1[what as usize]).sum::<u64>() as f64 / span as f64
        };
        Rates {
            sent: of(MessageEvent::Sent),
            delivered: of(MessageEvent::Delivered),
            done: of(MessageEvent::Done),
            retried: of(MessageEvent::Retried),
            dead: of(MessageEvent::Dead),
        }
    }

    /// The sum of all counts: it changes with every event.
    pub(super) fn total(&self) -> u64 {
        self.0.lock().totals.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_minute_or_of_the_time_since_the_first() {
        let meter = Meter::default();
        let at = |second: i64| Timestamp(1_000_000 + second * 1_000);
        assert_eq!(meter.rates(at(0)), Rates::default());
        meter.count(MessageEvent::Sent, 10, at(0));
        assert!((meter.rates(at(0)).sent - 10.0).abs() < 1e-9);
        assert!((meter.rates(at(9)).sent - 1.0).abs() < 1e-9);
        meter.count(MessageEvent::Sent, 50, at(59));
        assert!((meter.rates(at(59)).sent - 1.0).abs() < 1e-9);
        assert!((meter.rates(at(60)).sent - 50.0 / 60.0).abs() < 1e-9);
        assert_eq!(meter.rates(at(200)), Rates::default());
    }
}
