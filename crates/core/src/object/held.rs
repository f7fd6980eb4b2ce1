//! An object between its turns and their way to the disk.

use std::sync::Arc;

use steadfast_store::Commit;

use super::{
    activation::Activation,
    cell::Cell,
    flight::Release,
    mailbox::{Input, Item},
    objects::Shared,
    step::Step,
};

/// Bytes of a commit that count as another one.
const LARGE: usize = 64 << 10;

thread_local! {
    static IN_TURN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether this thread runs a turn: then it must not wait for another one.
pub(super) fn is_in_turn() -> bool {
    IN_TURN.get()
}

/// An object whose turns have run. Nobody else runs it meanwhile, so its commits go out in their
/// order.
pub(super) struct Held {
    cell: Arc<Cell>,
    activation: Box<Activation>,
    commits: Vec<(u64, Commit)>,
    /// Whether what is in memory is still of use.
    awake: bool,
}

impl Held {
    pub(super) fn new(cell: Arc<Cell>, activation: Box<Activation>) -> Self {
        Self { cell, activation, commits: Vec::new(), awake: true }
    }

    /// How many commits it holds; a large one counts as several.
    pub(super) fn len(&self) -> usize {
        self.commits.iter().map(|(_, commit)| 1 + commit.bytes() / LARGE).sum()
    }

    pub(super) fn is_awake(&self) -> bool {
        self.awake
    }

    /// Runs one turn, behind those by which the object parts with connections that ended with an
    /// earlier process.
    pub(super) fn run(&mut self, shared: &Shared, item: Item) {
        let now = shared.clock.now();
        let class = self.cell.class.clone();
        IN_TURN.set(true);
        while self.awake
            && !matches!(item.input, Input::Delete)
            && let Some(step) = self.activation.part_with_lost(&class, shared.rooms.first(), now)
        {
            if step.broken && step.reply.is_err() {
                // It cannot even be told that they are gone: so much for this input.
                IN_TURN.set(false);
                return self.keep(step, Some(item));
            }
            self.keep(step, None);
        }
        if self.awake {
            let run = || self.activation.run(&class, &item.input, item.end, now, &*shared.entropy);
            let step = class.pace.measure(run);
            if let Err(error) = &step.reply {
                shared.desk.failures.note(self.cell.address.id(), now, item.input.label(), error);
            }
            self.keep(step, Some(item));
        } else {
            // Nothing may overtake it meanwhile.
            self.cell.put_back(item);
        }
        IN_TURN.set(false);
    }

    /// Keeps what came of a turn until the commits go out.
    fn keep(&mut self, step: Step, item: Option<Item>) {
        let Step { reply, commit, after, ops, again, broken } = step;
        self.awake = !broken;
        let commits: Vec<Commit> = commit.into_iter().chain(after).collect();
        let sizes: Vec<usize> = commits.iter().map(Commit::bytes).collect();
        let (done, again) = if again { (None, item) } else { (item, None) };
        let waiting = done.map(|item| (item.reply, reply));
        let first = self.cell.note(&sizes, Release { waiting, ops, is_seen: false }, again);
        self.commits.extend((first..).zip(commits));
    }

    /// Hands the commits to the store.
    pub(super) fn release(self) {
        let Self { cell, activation, commits, awake } = self;
        if let Some(shared) = cell.shared.upgrade() {
            for (number, commit) in commits {
                let answered = cell.clone();
                let answer = move |result| answered.answered(number, result);
                shared.store.submit(commit, Box::new(answer));
            }
        }
        cell.worked(activation, awake);
    }
}
