//! The commits of an object that are in flight, and the completions that wait for them. A
//! completion leaves only when every commit that its turn has seen is durable.

use std::collections::VecDeque;

use crate::object::CallError;

/// Commits of one object in flight.
const COMMITS_MAX: usize = 256;
/// Bytes of them.
const BYTES_MAX: usize = 8 << 20;
/// Completions that wait for them.
const WAITING_MAX: usize = 1_024;

pub(super) struct InFlightCommits<R> {
    commits: VecDeque<InFlightCommit<R>>,
    /// The number of the first commit.
    first: u64,
    bytes: usize,
    waiting: usize,
    failed: Option<CallError>,
}

struct InFlightCommit<R> {
    bytes: usize,
    answer: Option<Result<(), CallError>>,
    /// With the failure that a turn without a commit has seen.
    completions: Vec<(R, Option<CallError>)>,
}

impl<R> Default for InFlightCommits<R> {
    fn default() -> Self {
        Self { commits: VecDeque::new(), first: 0, bytes: 0, waiting: 0, failed: None }
    }
}

impl<R> InFlightCommits<R> {
    pub(super) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        COMMITS_MAX <= self.commits.len() || BYTES_MAX <= self.bytes || WAITING_MAX <= self.waiting
    }

    /// Whether a commit has failed: the object in memory differs from the store.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The number of the next commit.
    pub(super) fn next(&self) -> u64 {
        self.first + self.commits.len() as u64
    }

    /// Adds the commits of a turn, of these sizes. The completion leaves with the first of them.
    /// Without a commit it waits for the last one in flight: the turn has seen it. It is returned
    /// if nothing is in flight.
    pub(super) fn add(
        &mut self,
        sizes: &[usize],
        completion: R,
        bytes: usize,
    ) -> Option<(R, Result<(), CallError>)> {
        let mut first = None;
        for (index, size) in sizes.iter().enumerate() {
            let commit = InFlightCommit { bytes: *size, answer: None, completions: Vec::new() };
            self.bytes += size;
            self.commits.push_back(commit);
            if index == 0 {
                first = Some(self.commits.len() - 1);
            }
        }
        let seen = if sizes.is_empty() { self.failed.clone() } else { None };
        let last = self.commits.len().checked_sub(1);
        let Some(commit) = first.or(last).and_then(|index| self.commits.get_mut(index)) else {
            return Some((completion, seen.map_or(Ok(()), Err)));
        };
        commit.bytes += bytes;
        commit.completions.push((completion, seen));
        self.bytes += bytes;
        self.waiting += 1;
        None
    }

    /// Records the answer to a commit, and returns the completions that no commit blocks any more,
    /// in turn order.
    pub(super) fn answered(
        &mut self,
        number: u64,
        answer: Result<(), CallError>,
        mut complete: impl FnMut(R, Result<(), CallError>),
    ) {
        if let (None, Err(error)) = (&self.failed, &answer) {
            self.failed = Some(error.clone());
        }
        let index = number.checked_sub(self.first).and_then(|it| usize::try_from(it).ok());
        if let Some(commit) = index.and_then(|it| self.commits.get_mut(it)) {
            commit.answer = Some(answer);
        }
        while let Some(commit) = self.commits.pop_front_if(|it| it.answer.is_some()) {
            self.first += 1;
            self.bytes -= commit.bytes;
            self.waiting -= commit.completions.len();
            let answer = commit.answer.unwrap_or(Ok(()));
            for (completion, seen) in commit.completions {
                complete(completion, answer.clone().and(seen.map_or(Ok(()), Err)));
            }
        }
    }

    /// Clears the failure, when nothing is in flight and the object is read again.
    pub(super) fn start_over(&mut self) {
        self.failed = None;
    }
}
