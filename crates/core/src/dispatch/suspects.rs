//! Messages that may have crashed a process, and which of them may be delivered at the same time.
//!
//! A message that was pending when a process ended without a clean shutdown is *counted*: each
//! attempt is claimed before it begins. A message that was claimed at that time is *blamed*: one at
//! a time, concurrent with counted ones. Only an attempt after which a message could be given up is
//! *exclusive*: no other suspect message runs at the same time. A delivery is exclusive for
//! [`ALONE_MAX`] at most: one that hangs delays other suspects no longer than that, and never
//! messages that are not suspect.

use std::{pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use steadfast_store::{StoreClock, Timestamp};

use super::waker::LoopWaker;

/// Maximum duration of an exclusive delivery, including the wait for it.
const ALONE_MAX: Duration = Duration::from_secs(30);

/// The isolation that a delivery needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// None: its commit alone decides whether it happened.
    Plain,
    /// It may have crashed a process, or its last lease has expired: it is claimed, and thereby
    /// counted, before it is delivered.
    Counted,
    /// A process crashed while it was claimed: at most one of these runs at a time.
    Blamed {
        /// It could be given up after this attempt.
        is_last: bool,
    },
}

/// The suspect messages of loops that deliver concurrently.
#[derive(Clone, Default)]
pub(crate) struct Suspects(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The loops that wait for each other's suspect messages.
    wakers: Vec<Arc<LoopWaker>>,
    /// Deliveries of counted messages in flight.
    counted: usize,
    /// A blamed message is in flight.
    is_blamed: bool,
    /// It runs exclusively.
    is_exclusive: bool,
    /// Since when a message waits to run exclusively.
    wanted_since: Option<Timestamp>,
}

/// Whether a delivery may begin.
pub(crate) enum Admission {
    /// It may.
    Yes(AdmissionGuard),
    /// Not before another delivery ends, or not before this time.
    Wait(Option<Timestamp>),
}

/// A delivery that may run, until this is dropped.
pub(crate) struct AdmissionGuard {
    suspects: Suspects,
    isolation: Isolation,
    is_exclusive: bool,
}

impl Suspects {
    /// Wakes a loop whenever an exclusive delivery ends.
    pub(crate) fn add_loop(&self, waker: Arc<LoopWaker>) {
        self.0.lock().wakers.push(waker);
    }

    pub(crate) fn admit(&self, isolation: Isolation, now: Timestamp) -> Admission {
        let mut state = self.0.lock();
        let mut is_exclusive = false;
        match isolation {
            Isolation::Plain => {}
            Isolation::Counted if state.is_exclusive => return Admission::Wait(None),
            Isolation::Counted => match state.wanted_since.map(|it| it.after(ALONE_MAX)) {
                Some(until) if now < until => return Admission::Wait(Some(until)),
                Some(_) | None => state.counted += 1,
            },
            Isolation::Blamed { .. } if state.is_blamed => return Admission::Wait(None),
            Isolation::Blamed { is_last: true } if 0 < state.counted => {
                // The message that wanted it long ago does not wait any more.
                state.wanted_since.take_if(|it| it.after(2 * ALONE_MAX) <= now);
                let until = state.wanted_since.get_or_insert(now).after(ALONE_MAX);
                if now < until {
                    return Admission::Wait(Some(until));
                }
                // The others take too long: run concurrently, without giving the message up
                // afterwards.
                (state.wanted_since, state.is_blamed) = (None, true);
            }
            Isolation::Blamed { is_last } => {
                (state.is_exclusive, is_exclusive) = (is_last, is_last);
                state.is_blamed = true;
                if is_last {
                    state.wanted_since = None;
                }
            }
        }
        Admission::Yes(AdmissionGuard { suspects: self.clone(), isolation, is_exclusive })
    }
}

impl AdmissionGuard {
    /// Delivers the message. Other suspect messages may begin when it has ended, or after
    /// [`ALONE_MAX`].
    pub(crate) async fn run<T>(self, clock: &StoreClock, delivery: impl Future<Output = T>) -> T {
        if self.isolation == Isolation::Plain {
            return delivery.await;
        }
        let mut delivery = pin!(delivery);
        let is_blamed = matches!(self.isolation, Isolation::Blamed { .. });
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

impl Drop for AdmissionGuard {
    fn drop(&mut self) {
        let mut state = self.suspects.0.lock();
        match self.isolation {
            Isolation::Plain => return,
            Isolation::Counted => state.counted -= 1,
            Isolation::Blamed { .. } => {
                state.is_blamed = false;
                if self.is_exclusive {
                    state.is_exclusive = false;
                }
            }
        }
        let wakers = state.wakers.clone();
        drop(state);
        wakers.iter().for_each(|it| it.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(0);
    const LAST: Isolation = Isolation::Blamed { is_last: true };
    const NOT_LAST: Isolation = Isolation::Blamed { is_last: false };

    fn yes(suspects: &Suspects, isolation: Isolation) -> Option<AdmissionGuard> {
        match suspects.admit(isolation, NOW) {
            Admission::Yes(it) => Some(it),
            Admission::Wait(_) => None,
        }
    }

    #[test]
    fn blamed_messages_run_one_at_a_time_and_concurrently_with_counted_ones() {
        let suspects = Suspects::default();
        let counted = yes(&suspects, Isolation::Counted);
        let blamed = yes(&suspects, NOT_LAST).expect("concurrent with counted ones");
        assert!(!blamed.is_exclusive && yes(&suspects, NOT_LAST).is_none());
        assert!(
            yes(&suspects, Isolation::Counted).is_some()
                && yes(&suspects, Isolation::Plain).is_some()
        );
        drop(blamed);
        assert!(yes(&suspects, NOT_LAST).is_some());
        drop(counted);
    }

    #[test]
    fn a_last_attempt_is_exclusive_and_does_not_wait_for_ever() {
        let suspects = Suspects::default();
        let counted = yes(&suspects, Isolation::Counted).expect("nothing else runs");
        let Admission::Wait(Some(until)) = suspects.admit(LAST, NOW) else {
            panic!("it waits for the counted one");
        };
        assert_eq!(until, NOW.after(ALONE_MAX));
        assert!(yes(&suspects, Isolation::Counted).is_none(), "it must have its turn");
        drop(counted);
        let alone = yes(&suspects, LAST).expect("nothing else runs");
        assert!(alone.is_exclusive && yes(&suspects, Isolation::Counted).is_none());
        assert!(yes(&suspects, Isolation::Plain).is_some(), "other messages are not delayed");
        drop(alone);
        let hangs = yes(&suspects, Isolation::Counted).expect("nothing else runs");
        assert!(yes(&suspects, LAST).is_none());
        let Admission::Yes(concurrent) = suspects.admit(LAST, NOW.after(ALONE_MAX)) else {
            panic!("it has waited long enough");
        };
        assert!(!concurrent.is_exclusive && yes(&suspects, Isolation::Counted).is_some());
        drop((hangs, concurrent));
    }
}
