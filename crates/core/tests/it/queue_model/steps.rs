//! The random operations on queues, and the expected changes of the model.

use std::{collections::BTreeSet, time::Duration};

use steadfast_core::{
    QueueError,
    queue::Redrive,
    store::{Moment, Position},
};

use super::{INSIDE, LEASE, OUTSIDE, Place, RETRIES, World};
use crate::play::Pace;

impl World {
    pub(super) async fn step(&mut self) -> Result<(), QueueError> {
        let queues = self.app().queues().clone();
        match self.below(20) {
            0..=4 => self.send().await?,
            5..=7 => self.pull().await?,
            8..=10 => self.answer().await?,
            11..=13 => {
                let seconds = [0, 1, 2, 15, 30][self.below(5) as usize];
                self.clock.advance(Duration::from_secs(seconds));
            }
            14 => {
                self.paused = self.below(2) == 0;
                match self.paused {
                    true => queues.pause("inside").await?,
                    false => queues.resume("inside").await?,
                }
            }
            15 if self.below(4) == 0 => {
                let free = self.free("outside");
                assert_eq!(queues.purge("outside", None, None).await?, free.len() as u64);
                free.iter().for_each(|it| _ = self.places.insert(*it, Place::Cancelled));
            }
            16 if self.below(3) == 0 => self.redrive().await?,
            17 if self.below(2) == 0 => self.crash_soon(),
            18 if self.below(4) == 0 => {
                self.app.take().unwrap().stop().await;
                self.begin().await;
            }
            _ => {}
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<(), QueueError> {
        let delay = Duration::from_secs([0, 0, 0, 1, 10][self.below(5) as usize]);
        let number = self.sent;
        self.sent += 1;
        let queues = self.app().queues();
        if self.below(2) == 0 {
            let position = queues.send_after(INSIDE, &number, delay).await?;
            self.places.insert(position, Place::Unknown);
        } else {
            let position = queues.send_after(OUTSIDE, &number, delay).await?;
            let (due_at, tries, lease) = (self.now().after(delay), 0, None);
            let place = Place::In { queue: "outside", due_at, tries, lease };
            self.places.insert(position, place);
        }
        Ok(())
    }

    async fn pull(&mut self) -> Result<(), QueueError> {
        let now = self.now();
        let mut wanted = self.free("outside");
        wanted.retain(|it| matches!(self.places[it], Place::In { due_at, .. } if due_at <= now));
        let used_up =
            |it: &Position| matches!(self.places[it], Place::In { tries, .. } if RETRIES < tries);
        let over: BTreeSet<Position> = wanted.iter().copied().filter(used_up).collect();
        let max = 1 + self.below(6) as usize;
        let expected = max.min(wanted.len() - over.len());
        let mut pulled = Vec::new();
        // Notices of redriven messages may still be in flight.
        let mut pace = Pace::new();
        loop {
            let queues = self.app().queues();
            pulled.extend(queues.pull("outside", max - pulled.len(), LEASE).await?);
            if expected <= pulled.len() {
                break;
            }
            pace.wait("the messages are pulled").await;
        }
        assert_eq!(pulled.len(), expected, "{wanted:?}");
        for it in pulled {
            let position = it.queued.message.position;
            let Place::In { tries, .. } = self.places[&position] else { panic!("{position}") };
            assert!(wanted.contains(&position), "{position} was not to be had");
            assert_eq!((it.attempt, it.until), (tries + 1, now.after(LEASE)), "{position}");
            self.leases.push((it.lease, position));
            let (queue, due_at, tries, lease) = ("outside", it.until, it.attempt, Some(it.lease));
            self.places.insert(position, Place::In { queue, due_at, tries, lease });
        }
        // Messages without attempts left become dead when they are read.
        let dead = self.letters("dead").await?;
        for it in dead.iter().filter(|it| over.contains(&it.message.position)) {
            self.bury(it.message.position);
        }
        Ok(())
    }

    fn bury(&mut self, position: Position) {
        let (queue, due_at, tries, lease) = ("dead", self.now(), 0, None);
        self.places.insert(position, Place::In { queue, due_at, tries, lease });
    }

    /// Acknowledges or retries something that was pulled, now or long ago.
    async fn answer(&mut self) -> Result<(), QueueError> {
        if self.leases.is_empty() {
            return Ok(());
        }
        let (id, position) = self.leases[self.below(self.leases.len() as u64) as usize];
        let place = self.places[&position];
        let tries = match place {
            Place::In { lease: Some(it), tries, .. } if it == id => Some(tries),
            _ => None,
        };
        let queues = self.app().queues();
        if self.below(2) == 0 {
            let answer = queues.ack("outside", &[id], &[]).await?;
            assert_eq!((answer.acked, answer.lost.len()), ends(tries), "{place:?}");
            if tries.is_some() {
                self.places.insert(position, Place::Done);
            }
            return Ok(());
        }
        let delay = Duration::from_secs(self.below(3));
        let answer = queues.ack("outside", &[], &[(id, Some(delay))]).await?;
        assert_eq!((answer.retried, answer.lost.len()), ends(tries), "{place:?}");
        match tries {
            Some(tries) if RETRIES < tries => self.bury(position),
            Some(tries) => {
                let (queue, due_at, lease) = ("outside", self.now().after(delay), None);
                self.places.insert(position, Place::In { queue, due_at, tries, lease });
            }
            None => {}
        }
        Ok(())
    }

    async fn redrive(&mut self) -> Result<(), QueueError> {
        let before = self.letters("dead").await?;
        let done = self.app().queues().redrive("dead", &Redrive::default()).await?;
        // Messages of the consumer in the process may become dead meanwhile.
        assert!(before.len() as u64 <= done.moved, "{} of {}", done.moved, before.len());
        for it in before {
            let position = it.message.position;
            if matches!(self.places.get(&position), Some(Place::In { .. })) {
                let (queue, due_at, tries, lease) = ("outside", self.now(), 0, None);
                self.places.insert(position, Place::In { queue, due_at, tries, lease });
            }
        }
        Ok(())
    }

    fn crash_soon(&self) {
        if let Some(memory) = &self.memory {
            let moment = if self.below(2) == 0 { Moment::Before } else { Moment::After };
            memory.crash_at(1 + self.below(4) as usize, moment);
        }
    }
}

/// The number of acknowledged and of lost leases.
fn ends(is_held: Option<u32>) -> (usize, usize) {
    if is_held.is_some() { (1, 0) } else { (0, 1) }
}
