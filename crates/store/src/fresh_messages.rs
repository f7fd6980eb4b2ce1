//! A cache of messages that were just written and are about to be delivered, so that the delivery
//! need not read them.

use std::collections::{HashMap, VecDeque};

use crate::{Position, Recorded, State, Work, plan::Plan};

/// Maximum bytes; the oldest are evicted first.
const BYTES_MAX: usize = 4 << 20;
/// Approximate size of a message without its contents.
const ROW_BYTES: usize = 512;

/// The last messages, each until it is taken.
#[derive(Debug, Default)]
pub(crate) struct FreshMessages {
    messages: HashMap<Position, Recorded>,
    /// In the order of insertion; some may be taken.
    order: VecDeque<(Position, usize)>,
    bytes: usize,
}

impl FreshMessages {
    /// Adds the messages of a batch that are to be delivered. Consumers of queues read by the page.
    pub(crate) fn keep(&mut self, plan: &Plan) {
        let mut works = plan.works.iter().peekable();
        for row in &plan.messages {
            while works.next_if(|it| it.position < row.position).is_some() {}
            let Some(work) = works.next_if(|it| it.position == row.position) else { continue };
            let &Work { due_at, attempts, claim, queued, .. } = work;
            // Messages that are not yet due would only fill the cache.
            if queued || claim.is_some() || plan.at < due_at {
                continue;
            }
            let state = State::Pending { due_at, attempts };
            let bytes = ROW_BYTES + row.data.as_str().len() + row.metadata.as_str().len();
            let mut message = row.clone().recorded(Some(state), None);
            message.lineage = plan.lineage;
            self.messages.insert(row.position, message);
            self.order.push_back((row.position, bytes));
            self.bytes += bytes;
        }
        while BYTES_MAX < self.bytes
            && let Some((oldest, bytes)) = self.order.pop_front()
        {
            self.bytes -= bytes;
            self.messages.remove(&oldest);
        }
    }

    /// A message as it was written, once.
    pub(crate) fn take(&mut self, position: Position) -> Option<Recorded> {
        self.messages.remove(&position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Address, Commit, Due, EntityKind, Json, Message, Task, Timestamp,
        plan::{self, Facts},
        store_clock::{BatchTime, ClockRecord},
    };

    const NOW: Timestamp = Timestamp(1_000_000);

    /// A plan with messages of these sizes, some of which are due later.
    fn plan(sizes: &[usize], due: Due) -> Plan {
        let target = Address::new(EntityKind::Object, "a", "b").unwrap();
        let message = |size: &usize| {
            let data = Json::of(&"x".repeat(*size)).unwrap();
            let task = Task { target: target.clone(), ordered: false, due };
            Message::new("m", data).unwrap().task(task)
        };
        let commit = Commit::append(&target, 0, sizes.iter().map(message).collect());
        let record = ClockRecord { at: NOW, ..ClockRecord::default() };
        let time = BatchTime { record, ..BatchTime::default() };
        plan::plan(Facts::default(), time, [&commit])
    }

    fn positions(plan: &Plan) -> Vec<Position> {
        plan.messages.iter().map(|it| it.position).collect()
    }

    #[test]
    fn a_due_message_is_cached_once_as_it_was_written() {
        let (mut fresh, plan) = (FreshMessages::default(), plan(&[10, 20], Due::At(NOW)));
        fresh.keep(&plan);
        for (row, position) in plan.messages.iter().zip(positions(&plan)) {
            let found = fresh.take(position).unwrap();
            assert_eq!((found.position, &found.data), (position, &row.data));
            assert_eq!(found.state, Some(State::Pending { due_at: NOW, attempts: 0 }));
            assert!(fresh.take(position).is_none(), "once");
        }
    }

    #[test]
    fn a_delayed_message_is_not_cached() {
        let (mut fresh, plan) =
            (FreshMessages::default(), plan(&[10], Due::At(Timestamp(NOW.0 + 1))));
        fresh.keep(&plan);
        assert!(fresh.take(positions(&plan)[0]).is_none());
    }

    #[test]
    fn the_oldest_are_evicted_when_the_cache_is_full() {
        let (mut fresh, sizes) = (FreshMessages::default(), [900_000; 6]);
        let plan = plan(&sizes, Due::At(NOW));
        fresh.keep(&plan);
        let kept: Vec<bool> =
            positions(&plan).into_iter().map(|it| fresh.take(it).is_some()).collect();
        assert_eq!(kept, [false, false, true, true, true, true]);
        assert!(fresh.bytes <= BYTES_MAX);
    }
}
