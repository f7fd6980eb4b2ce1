//! The commits of an object that are on their way, and who waits for them. Nothing that was seen or
//! said on top of a commit leaves before that commit is durable.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::{CallError, Closed, live::Op, mailbox::Reply};

/// At most so many commits of one object are on their way.
const COMMITS_MAX: usize = 256;

/// And so many bytes of them.
const BYTES_MAX: usize = 8 << 20;

/// And so many who wait for them.
const WAITING_MAX: usize = 1_024;

/// Somebody who waits, and what they will hear.
pub(super) type Waiting = (oneshot::Sender<Reply>, Reply);

/// What a turn lets out when it is durable.
#[derive(Default)]
pub(super) struct Release {
    pub(super) waiting: Option<Waiting>,
    /// For the connections of the object.
    pub(super) ops: Vec<Op>,
    /// Whether it only tells what was seen: no commit says that it is still so.
    pub(super) is_seen: bool,
}

impl Release {
    /// What it takes in memory for connections, about.
    fn bytes(&self) -> usize {
        self.ops.iter().map(Op::bytes).sum()
    }

    /// Nothing but an error is let out. If it may be durable all the same, who was to be told has
    /// to come again, to be told from what is stored.
    pub(super) fn fail(&mut self, error: &CallError) {
        if !self.ops.is_empty() {
            self.ops.clear();
            if !error.surely_unapplied() {
                let reason = "what was said may not have been told; connect again";
                let closed = Closed::new(Closed::TRY_AGAIN, reason);
                self.ops.push(Op::CloseAll { closed });
            }
        }
        if let Some((_, reply)) = &mut self.waiting {
            *reply = Err(error.clone());
        }
    }
}

#[derive(Default)]
pub(super) struct Flight {
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    bytes: usize,
    waiting: usize,
    failed: Option<CallError>,
}

struct Entry {
    bytes: usize,
    answer: Option<Result<(), CallError>>,
    releases: Vec<Release>,
}

impl Flight {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        COMMITS_MAX <= self.entries.len() || BYTES_MAX <= self.bytes || WAITING_MAX <= self.waiting
    }

    /// Whether a commit has failed: what is in memory is not what is stored.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The number of the next commit.
    pub(super) fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Adds a commit.
    pub(super) fn add(&mut self, bytes: usize, release: Option<Release>) {
        let bytes = bytes + release.as_ref().map_or(0, Release::bytes);
        self.bytes += bytes;
        self.waiting += usize::from(release.is_some());
        self.entries.push_back(Entry { bytes, answer: None, releases: Vec::from_iter(release) });
    }

    /// Has somebody wait for everything that is on its way; given back if nothing is. What they
    /// saw may have failed while they looked: then that is what they hear.
    pub(super) fn wait(&mut self, mut release: Release) -> Option<Release> {
        release.is_seen = true;
        if let Some(error) = &self.failed {
            release.fail(error);
        }
        match self.entries.back_mut() {
            Some(entry) => {
                let bytes = release.bytes();
                (entry.bytes, self.bytes) = (entry.bytes + bytes, self.bytes + bytes);
                entry.releases.push(release);
                self.waiting += 1;
                None
            }
            None => Some(release),
        }
    }

    /// Takes in how a commit ended, and returns what is let out now.
    pub(super) fn answered(&mut self, number: u64, answer: Result<(), CallError>) -> Vec<Release> {
        if let (None, Err(error)) = (&self.failed, &answer) {
            self.failed = Some(error.clone());
        }
        let index = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        if let Some(entry) = self.entries.get_mut(index) {
            entry.answer = Some(answer);
        }
        let mut released = Vec::new();
        while let Some(mut entry) = self.entries.pop_front_if(|it| it.answer.is_some()) {
            self.first += 1;
            self.bytes -= entry.bytes;
            self.waiting -= entry.releases.len();
            if let Some(Err(error)) = &entry.answer {
                entry.releases.iter_mut().for_each(|it| it.fail(error));
            }
            released.append(&mut entry.releases);
        }
        released
    }

    /// Begins anew, when nothing is on its way any more.
    pub(super) fn start_over(&mut self) {
        self.failed = None;
    }
}

/// Tells those who waited. That somebody does not wait any more is no matter.
pub(super) fn tell(waiting: impl IntoIterator<Item = Waiting>) {
    for (sender, reply) in waiting {
        let _ = sender.send(reply);
    }
}

#[cfg(test)]
mod tests {
    use steadfast_store::StoreError;

    use super::*;

    fn waiting(text: &str) -> (Release, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        let op = Op::CloseAll { closed: Closed::deleted() };
        let waiting = Some((sender, Ok(text.into())));
        (Release { waiting, ops: vec![op], is_seen: false }, receiver)
    }

    fn tell(released: Vec<Release>) {
        super::tell(released.into_iter().filter_map(|it| it.waiting));
    }

    #[test]
    fn replies_leave_in_order_and_only_when_all_before_them_are_durable() {
        let mut flight = Flight::default();
        let (one, mut heard_one) = waiting("one");
        let (two, mut heard_two) = waiting("two");
        let (read, mut heard_read) = waiting("read");
        let first = flight.next();
        flight.add(10, Some(one));
        assert!(flight.wait(read).is_none());
        let second = flight.next();
        flight.add(10, Some(two));
        tell(flight.answered(second, Ok(())));
        assert!(heard_one.try_recv().is_err() && heard_two.try_recv().is_err());
        tell(flight.answered(first, Ok(())));
        for (heard, text) in
            [(&mut heard_one, "one"), (&mut heard_read, "read"), (&mut heard_two, "two")]
        {
            assert_eq!(heard.try_recv().unwrap().unwrap(), text);
        }
        assert!(flight.is_empty() && !flight.has_failed());
    }

    #[test]
    fn a_failed_commit_is_heard_by_who_waited_for_it_and_by_who_saw_it() {
        let mut flight = Flight::default();
        let (write, mut heard_write) = waiting("write");
        let (read, mut heard_read) = waiting("read");
        let number = flight.next();
        flight.add(10, Some(write));
        flight.wait(read);
        let released = flight.answered(number, Err(CallError::Busy { object: "a".into() }));
        assert!(released.iter().all(|it| it.ops.is_empty()), "no connection is told");
        tell(released);
        assert!(heard_write.try_recv().unwrap().is_err());
        assert!(heard_read.try_recv().unwrap().is_err());
        assert!(flight.has_failed());
        let (late, _heard) = waiting("late");
        let (unknown, _heard) = waiting("unknown");
        flight.start_over();
        let number = flight.next();
        flight.add(10, Some(unknown));
        let error = CallError::Store(StoreError::Unknown { reason: "x".into() });
        let released = flight.answered(number, Err(error));
        assert!(matches!(&released[0].ops[..], [Op::CloseAll { .. }]), "they come again");
        let late = flight.wait(late).expect("nothing is on its way");
        assert!(late.waiting.is_some_and(|(_, reply)| reply.is_err()));
    }

    #[test]
    fn a_reader_waits_for_nothing_when_nothing_is_on_its_way() {
        let mut flight = Flight::default();
        let (read, _heard) = waiting("read");
        assert!(flight.wait(read).is_some());
    }
}
