//! The deltas of one database since a state, and their invariants.

use std::sync::Arc;

use steadfast_vfs::{ImageChanges, PAGE_SIZE, Page, apply, apply_to, pages_after, revert, touched};

use crate::chance::Chance;

/// A copy without shared pages, so that the image can write its pages in place.
pub(crate) fn copy(pages: &[Page]) -> Vec<Page> {
    pages.iter().map(|page| Arc::new(**page)).collect()
}

pub(crate) struct History {
    start: Vec<Page>,
    deltas: Vec<Vec<u8>>,
}

impl History {
    pub(crate) fn new(pages: &[Page]) -> Self {
        Self { start: copy(pages), deltas: Vec::new() }
    }

    pub(crate) fn push(&mut self, changes: ImageChanges) {
        assert_eq!(touched(&changes.delta).unwrap(), changes.touched);
        assert_eq!(pages_after(&changes.delta).unwrap(), changes.pages);
        self.deltas.push(changes.delta);
    }

    /// Forwards to the current state, backwards through every earlier state, and from pages of
    /// different states.
    pub(crate) fn check(&self, now: &[Page], chance: &mut Chance, place: &str) {
        let mut pages = self.start.clone();
        let mut states = vec![pages.clone()];
        for delta in &self.deltas {
            apply(&mut pages, delta).unwrap();
            states.push(pages.clone());
        }
        assert!(pages == now, "{place}: the deltas lead somewhere else");
        for (delta, state) in self.deltas.iter().zip(&states).rev() {
            revert(&mut pages, delta).unwrap();
            assert!(pages == *state, "{place}: going back leads somewhere else");
        }
        let mixed = self.mixed(&states, chance);
        assert!(mixed == now, "{place}: pages of different moments lead somewhere else");
    }

    /// Takes every page from a random state, then applies each delta to those older than it.
    fn mixed(&self, states: &[Vec<Page>], chance: &mut Chance) -> Vec<Page> {
        let longest = states.iter().map(Vec::len).max().unwrap();
        // The pages from here on have no later image: they are from the start, or missing.
        let imaged = chance.below(longest + 1);
        let moments: Vec<usize> = (0..longest)
            .map(|index| if index < imaged { chance.below(states.len()) } else { 0 })
            .collect();
        let zero: Page = Arc::new([0; PAGE_SIZE]);
        let mut pages: Vec<Page> = (0..states[0].len().max(imaged))
            .map(|index| states[moments[index]].get(index).unwrap_or(&zero).clone())
            .collect();
        for (at, delta) in self.deltas.iter().enumerate() {
            apply_to(&mut pages, delta, |number| moments[number as usize - 1] <= at).unwrap();
        }
        pages.truncate(states[states.len() - 1].len());
        pages
    }
}
