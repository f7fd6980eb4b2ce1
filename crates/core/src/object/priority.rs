//! Two priorities: calls, whose callers wait, and deliveries, which can be many.

use std::collections::VecDeque;

/// Consecutive calls before a waiting delivery.
const CALLS_IN_A_ROW: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    Call,
    Delivery,
}

/// A queue that returns calls before deliveries, and lets no delivery starve.
pub(super) struct PriorityQueue<T> {
    calls: VecDeque<T>,
    deliveries: VecDeque<T>,
    /// Calls taken since the last delivery.
    in_a_row: usize,
}

impl<T> Default for PriorityQueue<T> {
    fn default() -> Self {
        Self { calls: VecDeque::new(), deliveries: VecDeque::new(), in_a_row: 0 }
    }
}

impl<T> PriorityQueue<T> {
    pub(super) fn push(&mut self, it: T, priority: Priority) {
        match priority {
            Priority::Call => self.calls.push_back(it),
            Priority::Delivery => self.deliveries.push_back(it),
        }
    }

    /// The priority of the next one; `None` if the queue is empty.
    fn next(&self) -> Option<Priority> {
        let is_enough = CALLS_IN_A_ROW <= self.in_a_row || self.calls.is_empty();
        match (is_enough && !self.deliveries.is_empty(), self.calls.is_empty()) {
            (true, _) => Some(Priority::Delivery),
            (false, false) => Some(Priority::Call),
            (false, true) => None,
        }
    }

    pub(super) fn peek(&self) -> Option<&T> {
        match self.next()? {
            Priority::Call => self.calls.front(),
            Priority::Delivery => self.deliveries.front(),
        }
    }

    pub(super) fn take(&mut self) -> Option<T> {
        let Some(priority) = self.next() else {
            self.in_a_row = 0;
            return None;
        };
        match priority {
            Priority::Call => {
                self.in_a_row += 1;
                self.calls.pop_front()
            }
            Priority::Delivery => {
                self.in_a_row = 0;
                self.deliveries.pop_front()
            }
        }
    }

    /// Drops those at the front, so that the next one is not one of them.
    pub(super) fn drop_front(&mut self, drops: impl Fn(&T) -> bool) {
        while self.calls.pop_front_if(|it| drops(it)).is_some() {}
        while self.deliveries.pop_front_if(|it| drops(it)).is_some() {}
    }

    pub(super) fn take_call(&mut self) -> Option<T> {
        self.calls.pop_front()
    }

    /// Makes a delivery a call. `false` if it is not among the deliveries.
    pub(super) fn promote(&mut self, is_it: impl Fn(&T) -> bool) -> bool {
        let found = self.deliveries.iter().position(is_it);
        let promoted = found.and_then(|at| self.deliveries.remove(at));
        let is_there = promoted.is_some();
        self.calls.extend(promoted);
        is_there
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.len()
    }

    pub(super) fn retain_calls(&mut self, keeps: impl FnMut(&T) -> bool) {
        self.calls.retain(keeps);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.deliveries.is_empty()
    }

    /// The priority of the most urgent one.
    pub(super) fn priority(&self) -> Priority {
        if self.calls.is_empty() { Priority::Delivery } else { Priority::Call }
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.calls.drain(..).chain(self.deliveries.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(mut take: impl FnMut() -> Option<i32>) -> Vec<i32> {
        std::iter::from_fn(&mut take).collect()
    }

    #[test]
    fn calls_come_first_and_no_delivery_starves() {
        let mut queue = PriorityQueue::default();
        (0..3).for_each(|it| queue.push(it, Priority::Delivery));
        (10..20).for_each(|it| queue.push(it, Priority::Call));
        let mut peeked = Vec::new();
        let taken = order(|| {
            peeked.extend(queue.peek().copied());
            queue.take()
        });
        assert_eq!(taken, [10, 11, 12, 13, 0, 14, 15, 16, 17, 1, 18, 19, 2]);
        assert_eq!(peeked, taken);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_delivery_is_promoted_once() {
        let mut queue = PriorityQueue::default();
        (0..4).for_each(|it| queue.push(it, Priority::Delivery));
        assert!(queue.promote(|it| *it == 2));
        assert!(!queue.promote(|it| *it == 2));
        assert_eq!(order(|| queue.take()), [2, 0, 1, 3]);
    }

    #[test]
    fn calls_can_be_taken_alone() {
        let mut queue = PriorityQueue::default();
        (0..2).for_each(|it| queue.push(it, Priority::Delivery));
        (10..12).for_each(|it| queue.push(it, Priority::Call));
        assert_eq!(order(|| queue.take_call()), [10, 11]);
        assert_eq!(order(|| queue.take()), [0, 1]);
    }
}
