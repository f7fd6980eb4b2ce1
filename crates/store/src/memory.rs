//! A store in memory, for tests and simulation.

mod answer;
mod map;
mod nouns;
mod tables;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use self::tables::Tables;
use crate::{
    Activity, Answer, CLOCK_STEP_MAX, Clock, Commit, CommitCallback, Health, Notices, Outcome,
    Owner, Query, Setting, Store, StoreClock, StoreError,
    plan::{self, Needs},
    writer::Status,
};

/// A store in memory. Its data is lost when it is dropped.
#[derive(Debug)]
pub struct MemoryStore {
    tables: Arc<Mutex<Tables>>,
    status: Status,
    wall: Arc<dyn Clock>,
    crash: Mutex<Crash>,
}

/// A planned crash of a store in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Crash {
    /// None.
    #[default]
    Never,
    /// At the n-th commit from now.
    At(usize, Moment),
    /// It has crashed.
    Over,
}

/// The side of a commit on which a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The commit does not happen.
    Before,
    /// The commit happens, and its caller gets no answer.
    After,
}

impl MemoryStore {
    /// An empty store.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let owner = Owner { epoch: 1, unclean_until: None };
        Self::owned(owner, clock, Arc::default())
    }

    /// Crashes the store at its n-th commit from now (from 1): from then on it answers nothing.
    /// [`MemoryStore::restart`] has the committed data.
    pub fn crash_at(&self, commit: usize, moment: Moment) {
        *self.crash.lock() = Crash::At(commit, moment);
    }

    /// The same data under its next owner, after an unclean end of this one.
    pub fn restart(&self) -> Self {
        let unclean_until = Some(self.tables().totals().position);
        let owner = Owner { epoch: self.owner().epoch + 1, unclean_until };
        Self::owned(owner, self.wall.clone(), self.tables.clone())
    }

    fn owned(owner: Owner, wall: Arc<dyn Clock>, tables: Arc<Mutex<Tables>>) -> Self {
        let recorded = tables.lock().clock();
        let clock = StoreClock::new(wall.clone(), CLOCK_STEP_MAX, recorded);
        let status = Status::new(owner, Arc::new(clock));
        Self { tables, status, wall, crash: Mutex::default() }
    }

    /// Whether the next commit happens, and whether it is answered.
    fn next_commit(&self) -> (bool, bool) {
        let mut crash = self.crash.lock();
        match *crash {
            Crash::Never => (true, true),
            Crash::Over => (false, false),
            Crash::At(1, moment) => {
                *crash = Crash::Over;
                (moment == Moment::After, false)
            }
            Crash::At(left, moment) => {
                *crash = Crash::At(left - 1, moment);
                (true, true)
            }
        }
    }

    /// Whether the store has crashed.
    pub fn has_crashed(&self) -> bool {
        *self.crash.lock() == Crash::Over
    }

    fn decide(&self, commit: &Commit) -> Result<Outcome, StoreError> {
        commit.check()?;
        // Lock before the decision: nothing may be written after the crash, because the next owner
        // may have read already.
        let mut tables = self.tables();
        let (happens, is_answered) = self.next_commit();
        if !happens {
            return Err(StoreError::Closed);
        }
        let time = self.status.clock.batch_time();
        let facts = tables.facts(Needs::of([commit], &time));
        let mut plan = plan::plan(facts, time, [commit]);
        let answer = plan.answers.pop().expect("one commit has one answer");
        tables.apply(&plan);
        if is_answered {
            // Publish before a read can find the rows: a message that was read and delivered must
            // not be announced afterwards. Count after the notices.
            self.status.notices.publish(&plan);
        }
        drop(tables);
        self.status.count_batch(1);
        if is_answered { Ok(answer) } else { Err(StoreError::Closed) }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn submit(&self, commit: Commit, answer: CommitCallback) {
        answer(self.decide(&commit));
    }

    async fn read(&self, query: Query) -> Result<Answer, StoreError> {
        if self.has_crashed() {
            return Err(StoreError::Closed);
        }
        self.status.count_read();
        Ok(self.tables().answer(query))
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        let concern = Some("everything is forgotten when the process ends".into());
        Ok(vec![Setting { name: "durability".into(), value: "none".into(), concern }])
    }

    fn notices(&self) -> &Notices {
        &self.status.notices
    }

    fn clock(&self) -> &Arc<StoreClock> {
        &self.status.clock
    }

    fn owner(&self) -> Owner {
        self.status.owner()
    }

    fn health(&self) -> Health {
        self.status.health()
    }

    fn activity(&self) -> Activity {
        self.status.activity()
    }

    async fn close(&self) {}
}
