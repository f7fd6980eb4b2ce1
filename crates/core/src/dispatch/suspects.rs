//! Messages that may have ended a process: which of them may be delivered beside each other.
//!
//! A message that waited when a process ended without a clean shutdown is *counted*: each attempt
//! is claimed before it begins. One that was claimed then is *blamed*: one at a time, beside
//! counted ones. Only an attempt after which a message could be given up is *exclusive*: nothing
//! else that is suspect runs beside it. Nobody is alone for longer than [`ALONE_MAX`]: one that
//! hangs holds up other suspects for so long at most, and nothing that is not suspect.

use std::{pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use steadfast_store::{StoreClock, Timestamp};

use super::bell::Bell;

/// How long one is alone at most, the wait for it included.
const ALONE_MAX: Duration = Duration::from_secs(30);

/// How careful a delivery must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// Its commit alone decides whether it happened.
    Plain,
    /// It may have ended a process, or somebody's lease on it has ended: it is claimed, and thereby
    /// counted, before it is delivered.
    Counted,
    /// A process ended while it was claimed: at most one of these at a time.
    Blamed {
        /// It could be given up after this attempt.
        is_last: bool,
    },
}

/// The suspects of loops that deliver beside each other.
#[derive(Clone, Default)]
pub(crate) struct Suspects(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The loops, which wait for each other's suspects.
    bells: Vec<Arc<Bell>>,
    /// Deliveries of counted messages under way.
    counted: usize,
    /// A blamed one is under way.
    is_blamed: bool,
    /// And nothing else that is suspect.
    is_exclusive: bool,
    /// Since when one waits to be exclusive.
    wanted_since: Option<Timestamp>,
}

/// Whether a delivery may begin.
pub(crate) enum Admission {
    /// It may.
    Yes(Admitted),
    /// Not before something else ends, or this time.
    Wait(Option<Timestamp>),
}

/// A delivery that may run, until it is dropped.
pub(crate) struct Admitted {
    suspects: Suspects,
    care: Care,
    is_exclusive: bool,
}

impl Suspects {
    /// Wakes a loop whenever a suspect is no longer alone.
    pub(crate) fn add_loop(&self, bell: Arc<Bell>) {
        self.0.lock().bells.push(bell);
    }

    pub(crate) fn admit(&self, care: Care, now: Timestamp) -> Admission {
        let mut state = self.0.lock();
        let mut is_exclusive = false;
        match care {
            Care::Plain => {}
            Care::Counted if state.is_exclusive => return Admission::Wait(None),
            Care::Counted => match state.wanted_since.map(|it| it.after(ALONE_MAX)) {
                Some(until) if now < until => return Admission::Wait(Some(until)),
                Some(_) | None => state.counted += 1,
            },
            Care::Blamed { .. } if state.is_blamed => return Admission::Wait(None),
            Care::Blamed { is_last: true } if 0 < state.counted => {
                // One that wanted it long ago has gone away.
                state.wanted_since.take_if(|it| it.after(2 * ALONE_MAX) <= now);
                let until = state.wanted_since.get_or_insert(now).after(ALONE_MAX);
                if now < until {
                    return Admission::Wait(Some(until));
                }
                // They take too long: beside them, and without being given up for it.
                (state.wanted_since, state.is_blamed) = (None, true);
            }
            Care::Blamed { is_last } => {
                (state.is_exclusive, is_exclusive) = (is_last, is_last);
                state.is_blamed = true;
                if is_last {
                    state.wanted_since = None;
                }
            }
        }
        Admission::Yes(Admitted { suspects: self.clone(), care, is_exclusive })
    }
}

impl Admitted {
    /// Whether nothing else that is suspect runs beside it.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    /// Delivers it. Others that are suspect may begin when it has ended, or when it was alone for
    /// long enough.
    pub(crate) async fn run<T>(self, clock: &StoreClock, delivery: impl Future<Output = T>) -> T {
        if self.care == Care::Plain {
            return delivery.await;
        }
        let mut delivery = pin!(delivery);
        let is_blamed = matches!(self.care, Care::Blamed { .. });
        let delivered = tokio::select! {
            delivered = &mut delivery => Some(delivered),
            () = clock.sleep(ALONE_MAX), if is_blamed => None,
        };
        drop(self);
        match delivered {
            Some(delivered) => delivered,
            None => delivery.await,
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = self.suspects.0.lock();
        match self.care {
            Care::Plain => return,
            Care::Counted => state.counted -= 1,
            Care::Blamed { .. } => {
                state.is_blamed = false;
                if self.is_exclusive {
                    state.is_exclusive = false;
                }
            }
        }
        let bells = state.bells.clone();
        drop(state);
        bells.iter().for_each(|it| it.ring());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(0);
    const LAST: Care = Care::Blamed { is_last: true };
    const NOT_LAST: Care = Care::Blamed { is_last: false };

    fn yes(suspects: &Suspects, care: Care) -> Option<Admitted> {
        match suspects.admit(care, NOW) {
            Admission::Yes(it) => Some(it),
            Admission::Wait(_) => None,
        }
    }

    #[test]
    fn blamed_ones_run_one_at_a_time_beside_counted_ones() {
        let suspects = Suspects::default();
        let counted = yes(&suspects, Care::Counted);
        let blamed = yes(&suspects, NOT_LAST).expect("beside counted ones");
        assert!(!blamed.is_exclusive() && yes(&suspects, NOT_LAST).is_none());
        assert!(yes(&suspects, Care::Counted).is_some() && yes(&suspects, Care::Plain).is_some());
        drop(blamed);
        assert!(yes(&suspects, NOT_LAST).is_some());
        drop(counted);
    }

    #[test]
    fn a_last_attempt_is_exclusive_and_does_not_wait_for_ever() {
        let suspects = Suspects::default();
        let counted = yes(&suspects, Care::Counted).expect("nothing else runs");
        let Admission::Wait(Some(until)) = suspects.admit(LAST, NOW) else {
            panic!("it waits for the counted one");
        };
        assert_eq!(until, NOW.after(ALONE_MAX));
        assert!(yes(&suspects, Care::Counted).is_none(), "it must have its turn");
        drop(counted);
        let alone = yes(&suspects, LAST).expect("nothing else runs");
        assert!(alone.is_exclusive() && yes(&suspects, Care::Counted).is_none());
        assert!(yes(&suspects, Care::Plain).is_some(), "what is not suspect is not held up");
        drop(alone);
        let hangs = yes(&suspects, Care::Counted).expect("nothing else runs");
        assert!(yes(&suspects, LAST).is_none());
        let Admission::Yes(beside) = suspects.admit(LAST, NOW.after(ALONE_MAX)) else {
            panic!("it has waited long enough");
        };
        assert!(!beside.is_exclusive() && yes(&suspects, Care::Counted).is_some());
        drop((hangs, beside));
    }
}
