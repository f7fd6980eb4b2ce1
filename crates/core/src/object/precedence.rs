//! What waits, in two parts: what somebody waits for, and deliveries, which can be many, while
//! nobody looks at the clock.

use std::collections::VecDeque;

/// What is asked for is taken first, but only so many before one of the others.
const ASKED_IN_A_ROW: usize = 4;

pub(super) struct Precedence<T> {
    asked: VecDeque<T>,
    others: VecDeque<T>,
    /// How many of the first were taken in a row.
    in_a_row: usize,
}

impl<T> Default for Precedence<T> {
    fn default() -> Self {
        Self { asked: VecDeque::new(), others: VecDeque::new(), in_a_row: 0 }
    }
}

impl<T> Precedence<T> {
    fn part(&mut self, is_asked: bool) -> &mut VecDeque<T> {
        if is_asked { &mut self.asked } else { &mut self.others }
    }

    pub(super) fn push(&mut self, it: T, is_asked: bool) {
        self.part(is_asked).push_back(it);
    }

    /// Puts something back to where it was taken from.
    pub(super) fn put_back(&mut self, it: T, is_asked: bool) {
        self.part(is_asked).push_front(it);
    }

    /// What is next: of what is asked for first, but the others come all the same.
    pub(super) fn take(&mut self) -> Option<T> {
        let is_enough = ASKED_IN_A_ROW <= self.in_a_row && !self.others.is_empty();
        let asked = if is_enough { None } else { self.asked.pop_front() };
        self.in_a_row = if asked.is_some() { self.in_a_row + 1 } else { 0 };
        asked.or_else(|| self.others.pop_front())
    }

    /// What is next of what is asked for.
    pub(super) fn take_asked(&mut self) -> Option<T> {
        self.asked.pop_front()
    }

    /// Somebody waits for one that is among the others. `false` if it is not.
    pub(super) fn promote(&mut self, is_it: impl Fn(&T) -> bool) -> bool {
        let found = self.others.iter().position(is_it);
        let promoted = found.and_then(|at| self.others.remove(at));
        let is_there = promoted.is_some();
        self.asked.extend(promoted);
        is_there
    }

    /// How many are asked for.
    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Keeps of what is asked for what `keeps` says.
    pub(super) fn retain_asked(&mut self, keeps: impl FnMut(&T) -> bool) {
        self.asked.retain(keeps);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.others.is_empty()
    }

    pub(super) fn has_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.asked.drain(..).chain(self.others.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(mut take: impl FnMut() -> Option<i32>) -> Vec<i32> {
        std::iter::from_fn(&mut take).collect()
    }

    #[test]
    fn whoever_is_waited_for_comes_first_and_the_others_come_all_the_same() {
        let mut waiting = Precedence::default();
        (0..3).for_each(|it| waiting.push(it, false));
        (10..20).for_each(|it| waiting.push(it, true));
        let expected = [10, 11, 12, 13, 0, 14, 15, 16, 17, 1, 18, 19, 2];
        assert_eq!(order(|| waiting.take()), expected);
        assert!(waiting.is_empty());
    }

    #[test]
    fn one_that_is_asked_later_goes_over_once() {
        let mut waiting = Precedence::default();
        (0..4).for_each(|it| waiting.push(it, false));
        assert!(waiting.promote(|it| *it == 2));
        assert!(!waiting.promote(|it| *it == 2));
        assert_eq!(order(|| waiting.take()), [2, 0, 1, 3]);
    }

    #[test]
    fn one_part_can_be_taken_from_alone() {
        let mut waiting = Precedence::default();
        (0..2).for_each(|it| waiting.push(it, false));
        (10..12).for_each(|it| waiting.push(it, true));
        assert_eq!(order(|| waiting.take_asked()), [10, 11]);
        waiting.push(12, true);
        waiting.put_back(9, false);
        assert_eq!(order(|| waiting.take()), [12, 9, 0, 1]);
    }
}
