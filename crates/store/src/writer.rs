//! The queue of commits for the one writer, and the status of the store. Both SQL stores share
//! them.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    Activity, Clock, Commit, CommitCallback, Health, Notices, Outcome, Owner, Position, StoreClock,
    StoreError, SystemClock, limits,
};

/// Polls of an empty queue before the writer sleeps: some 30 µs.
const LINGER: usize = 800;

/// A commit that waits for the writer.
pub(crate) struct Request {
    pub(crate) commit: Commit,
    pub(crate) bytes: usize,
    answer: Option<CommitCallback>,
}

impl Request {
    /// Calls the callback.
    pub(crate) fn answer(mut self, result: Result<Outcome, StoreError>) {
        if let Some(answer) = self.answer.take() {
            answer(result);
        }
    }
}

/// If the writer ends unexpectedly, every waiting caller gets an error.
impl Drop for Request {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(Err(StoreError::Closed));
        }
    }
}

/// The callers' end of the queue.
pub(crate) struct Queue {
    sender: Mutex<Option<mpsc::Sender<Request>>>,
    waiting_bytes: Arc<AtomicUsize>,
}

/// The writer's end of the queue.
pub(crate) struct Requests {
    receiver: mpsc::Receiver<Request>,
    waiting_bytes: Arc<AtomicUsize>,
    /// Taken from the queue, but too large for the current batch, or to be alone.
    held_back: Option<Request>,
}

pub(crate) fn queue() -> (Queue, Requests) {
    let (sender, receiver) = mpsc::channel(limits::WAITING_COMMITS_MAX);
    let waiting_bytes = Arc::new(AtomicUsize::new(0));
    let queue = Queue { sender: Mutex::new(Some(sender)), waiting_bytes: waiting_bytes.clone() };
    (queue, Requests { receiver, waiting_bytes, held_back: None })
}

impl Queue {
    /// Submits a commit to the writer. A commit that cannot be queued is answered immediately.
    pub(crate) fn submit(&self, commit: Commit, answer: CommitCallback) {
        let bytes = match commit.check() {
            Ok(bytes) => bytes,
            Err(error) => return answer(Err(error.into())),
        };
        let request = Request { commit, bytes, answer: Some(answer) };
        if let Err((request, error)) = self.send(request) {
            request.answer(Err(error));
        }
    }

    fn send(&self, request: Request) -> Result<(), (Request, StoreError)> {
        // Not under the lock: the callback is code of the caller.
        let sender = self.sender.lock().clone();
        let Some(sender) = sender else { return Err((request, StoreError::Closed)) };
        let waiting = || StoreError::Busy { waiting: sender.max_capacity() - sender.capacity() };
        let bytes = request.bytes;
        let before = self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if 0 < before && limits::WAITING_BYTES_MAX < before + bytes {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err((request, waiting()));
        }
        sender.try_send(request).map_err(|error| {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            match error {
                mpsc::error::TrySendError::Full(it) => (it, waiting()),
                mpsc::error::TrySendError::Closed(it) => (it, StoreError::Closed),
            }
        })
    }

    /// Refuses commits from now on. When the answer is dropped, the writer finishes those that are
    /// queued and ends.
    pub(crate) fn close(&self) -> impl Sized + Send {
        self.sender.lock().take()
    }
}

impl Requests {
    /// Waits for commits and takes a batch; `None` when the queue is closed.
    pub(crate) fn next_batch_blocking(&mut self) -> Option<Vec<Request>> {
        let waits = self.held_back.take().or_else(|| self.linger());
        let first = waits.or_else(|| self.receiver.blocking_recv())?;
        Some(self.fill(first))
    }

    /// Callers that got an answer often commit again immediately. Polling for some microseconds
    /// costs less than sleeping and waking.
    fn linger(&mut self) -> Option<Request> {
        for _ in 0..LINGER {
            match self.receiver.try_recv() {
                Ok(request) => return Some(request),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
                Err(mpsc::error::TryRecvError::Empty) => std::hint::spin_loop(),
            }
        }
        None
    }

    /// The same, for an async writer.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if the future is dropped.
    pub(crate) async fn next_batch(&mut self) -> Option<Vec<Request>> {
        let first = match self.held_back.take() {
            Some(request) => request,
            None => self.receiver.recv().await?,
        };
        Some(self.fill(first))
    }

    /// Whether the queue is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.receiver.is_closed()
    }

    /// Takes all queued commits, to be refused.
    pub(crate) fn take_waiting(&mut self) -> Vec<Request> {
        let mut batch: Vec<Request> = self.held_back.take().into_iter().collect();
        while let Ok(request) = self.receiver.try_recv() {
            batch.push(request);
        }
        self.left(&batch);
        batch
    }

    fn fill(&mut self, first: Request) -> Vec<Request> {
        let mut bytes = first.bytes;
        let is_full = first.commit.is_exclusive();
        let mut batch = vec![first];
        while !is_full && batch.len() < limits::BATCH_COMMITS_MAX {
            let Ok(request) = self.receiver.try_recv() else { break };
            bytes += request.bytes;
            if limits::BATCH_BYTES_MAX < bytes || request.commit.is_exclusive() {
                self.held_back = Some(request);
                break;
            }
            batch.push(request);
        }
        self.left(&batch);
        batch
    }

    fn left(&self, batch: &[Request]) {
        let bytes = batch.iter().map(|it| it.bytes).sum();
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The status of a store, which other threads may read at any time.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) notices: Notices,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) epoch: AtomicI64,
    unclean_until: Option<Position>,
    health: Mutex<Health>,
    /// The error of a store that has stopped.
    stopped: OnceLock<StoreError>,
    /// Until when this process may answer, in nanoseconds since the machine started; for ever
    /// without a lease.
    answers_until: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) reads: AtomicU64,
    steps: AtomicU64,
    pub(crate) heartbeats: AtomicU64,
    log_bytes: AtomicU64,
}

impl Status {
    pub(crate) fn new(owner: Owner, clock: Arc<StoreClock>) -> Self {
        Self {
            notices: Notices::default(),
            clock,
            epoch: AtomicI64::new(owner.epoch),
            unclean_until: owner.unclean_until,
            health: Mutex::new(Health::Ready),
            stopped: OnceLock::new(),
            answers_until: AtomicU64::new(u64::MAX),
            commits: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            heartbeats: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn owner(&self) -> Owner {
        let epoch = self.epoch.load(Ordering::Acquire);
        Owner { epoch, unclean_until: self.unclean_until }
    }

    pub(crate) fn health(&self) -> Health {
        let health = self.health.lock().clone();
        match (health, self.check_lease()) {
            (Health::Ready, Err(error)) => Health::Degraded { reason: error.to_string() },
            (health, _) => health,
        }
    }

    /// Sets until when this process may answer, by the time since the machine started: a later
    /// answer may be older than one of the next owner.
    pub(crate) fn set_lease(&self, until: Duration) {
        let until = u64::try_from(until.as_nanos()).unwrap_or(u64::MAX);
        self.answers_until.store(until, Ordering::Release);
    }

    /// Whether a value that was read, or is in memory, may be returned.
    pub(crate) fn check_lease(&self) -> Result<(), StoreError> {
        if let Some(error) = self.stopped.get() {
            return Err(error.clone());
        }
        let until = self.answers_until.load(Ordering::Acquire);
        if until == u64::MAX {
            return Ok(());
        }
        let over = SystemClock.elapsed().saturating_sub(Duration::from_nanos(until));
        if over.is_zero() {
            return Ok(());
        }
        let reason = format!(
            "the lease of this process ended {:.1} s ago and could not be renewed",
            over.as_secs_f64()
        );
        Err(StoreError::Unavailable { reason })
    }

    /// Refuses everything with this error from now on.
    pub(crate) fn stop(&self, error: StoreError) {
        self.set_health(Health::Failed { reason: error.to_string() });
        let _ = self.stopped.set(error);
    }

    /// Sets the health and logs a change. A failed store stays failed.
    pub(crate) fn set_health(&self, health: Health) {
        let mut now = self.health.lock();
        if *now == health || matches!(*now, Health::Failed { .. }) {
            return;
        }
        match &health {
            Health::Ready => tracing::info!("store writes again"),
            Health::Degraded { reason } => tracing::warn!(error = %reason, "store cannot write"),
            Health::Failed { reason } => tracing::error!(error = %reason, "store failed for good"),
        }
        *now = health;
    }

    /// Marks the store as failed if the writer ends by a panic.
    pub(crate) fn fail_if_dropped(self: &Arc<Self>) -> FailIfDropped {
        FailIfDropped(Some(self.clone()))
    }

    pub(crate) fn activity(&self) -> Activity {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Activity {
            commits: of(&self.commits),
            batches: of(&self.batches),
            reads: of(&self.reads),
            steps: of(&self.steps),
            heartbeats: of(&self.heartbeats),
            log_bytes: of(&self.log_bytes),
        }
    }

    pub(crate) fn count_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts steps that a read took.
    pub(crate) fn count_steps(&self, steps: u64) {
        self.steps.fetch_add(steps, Ordering::Relaxed);
    }

    /// Counts bytes that were written to the log.
    pub(crate) fn count_log(&self, bytes: u64) {
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a batch of this many commits.
    pub(crate) fn count_batch(&self, commits: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.commits.fetch_add(commits as u64, Ordering::Relaxed);
    }
}

/// Marks the store as failed when it is dropped, unless it is disarmed.
pub(crate) struct FailIfDropped(Option<Arc<Status>>);

impl FailIfDropped {
    /// The writer has ended normally.
    pub(crate) fn disarm(mut self) {
        self.0.take();
    }
}

impl Drop for FailIfDropped {
    fn drop(&mut self) {
        if let Some(status) = self.0.take() {
            status.set_health(Health::Failed { reason: "the writer ended unexpectedly".into() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Address, CLOCK_STEP_MAX, Json, ManualClock, Message, Sweep, SweepList, Timestamp, Write,
        store_clock::ClockRecord,
    };

    /// A commit that counts almost 32 MiB and holds 1 MiB, because all its messages share their
    /// text.
    fn large() -> Commit {
        let text = format!("\"{}\"", "x".repeat(limits::DATA_BYTES_MAX - 2));
        let message = Message::new("x", Json::parse(&text).unwrap()).unwrap();
        let stream: Address = "stream/a/b".parse().unwrap();
        Commit::of(Write::Append { stream, messages: vec![message; 31] })
    }

    #[tokio::test]
    async fn waiting_commits_are_bounded_in_bytes_and_capacity_is_released() {
        let (queue, mut requests) = queue();
        let send = |commit: Commit| {
            let bytes = commit.check().unwrap();
            let answer: CommitCallback = Box::new(|_| ());
            let sent = queue.send(Request { commit, bytes, answer: Some(answer) });
            sent.map_err(|(_, error)| error)
        };
        for _ in 0..8 {
            send(large()).unwrap();
        }
        assert!(matches!(send(large()), Err(StoreError::Busy { waiting: 8 })));
        // A batch takes one such commit at a time and holds the next one back.
        assert_eq!(requests.next_batch().await.unwrap().len(), 1);
        send(large()).unwrap();
        assert!(send(large()).is_err());
        assert_eq!(requests.take_waiting().len(), 8);
        assert_eq!(queue.waiting_bytes.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_sweep_is_alone_in_its_batch_wherever_it_is_in_the_queue() {
        let (queue, mut requests) = queue();
        let send = |commit: Commit| queue.submit(commit, Box::new(|_| ()));
        let (list, until) = (SweepList::Keys, Timestamp(1));
        let sweep = || Commit::of(Write::Sweep(Sweep { list, until, dead_until: until }));
        let stream: Address = "stream/a/b".parse().unwrap();
        let plain = || Commit::of(Write::Close { stream: stream.id() });
        for commit in [sweep(), plain(), plain(), sweep(), sweep(), plain()] {
            send(commit);
        }
        drop(queue.close());
        let mut batches = Vec::new();
        while let Some(batch) = requests.next_batch().await {
            batches.push(batch.iter().map(|it| it.commit.is_exclusive()).collect::<Vec<_>>());
        }
        let expected = [vec![true], vec![false, false], vec![true], vec![true], vec![false]];
        assert_eq!(batches, expected, "in order, and nothing is left");
        assert_eq!(requests.waiting_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_writer_that_panics_leaves_a_failed_store_and_one_that_ends_does_not() {
        let clock = ManualClock::at(Timestamp(0));
        let clock = StoreClock::new(Arc::new(clock), CLOCK_STEP_MAX, ClockRecord::default());
        let owner = Owner { epoch: 1, unclean_until: None };
        let status = Arc::new(Status::new(owner, Arc::new(clock)));
        status.fail_if_dropped().disarm();
        assert_eq!(status.health(), Health::Ready);
        let of_writer = status.clone();
        let writer = std::thread::spawn(move || {
            let _alive = of_writer.fail_if_dropped();
            panic!("a bug in the planner");
        });
        assert!(writer.join().is_err());
        assert!(matches!(status.health(), Health::Failed { .. }));
    }

    #[test]
    fn the_text_of_an_error_counts_against_the_queue() {
        let error = "x".repeat(1_000_000);
        let after = std::time::Duration::ZERO;
        let retry = Commit::of(Write::Retry { position: 1, lease: None, error, after });
        assert!(1_000_000 < retry.check().unwrap());
    }
}
