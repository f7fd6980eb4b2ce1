//! An object while it is awake: runs turns on its database and makes commits of them.

mod upkeep;

use std::{rc::Rc, sync::Arc};

use steadfast_store::{
    self as store, Commit, Entropy, Expect, StoreError, Timestamp, Turn as TurnRow, Write, limits,
};

use super::{
    CallError, Closed, ObjectOptions,
    alarm::Alarm,
    checkpoint::Tail,
    database::Database,
    live::{LOST_AT_ONCE, Op},
    mailbox::{End, Input},
    objects::Class,
    pages::Pages,
    restore::{self, Restored},
    run_call::expect_first,
    step::Step,
    transact::{Done, broken, call, rolled_back, transact},
    turn::{Core, Ringing},
    unopened::Unopened,
};

/// Messages that one turn may send.
const SENT_MAX: usize = 5_000;

/// About what an open database takes beside its pages: schema, prepared statements, a small cache.
const CONNECTION_BYTES: usize = 128 << 10;

pub(super) struct Activation {
    options: ObjectOptions,
    me: store::Address,
    /// What was read of it. The first turn opens it, on a thread that may wait for more pages.
    unopened: Option<Unopened>,
    /// Where the pages are that were not read.
    pages: Option<Arc<Pages>>,
    /// Why it could not even be opened.
    unusable: Option<CallError>,
    /// Lent to the turn while one runs.
    core: Option<Core>,
    /// Where it stands, all that is on its way included.
    seq: i64,
    chk: u32,
    tail: Tail,
    migrated: bool,
    /// Connections of an earlier process that one turn parts with; 0 if none is left.
    pub(super) lost_at_once: i64,
}

impl Activation {
    pub(super) fn new(
        me: store::Address,
        restored: Restored,
        pages: Option<Arc<Pages>>,
        options: ObjectOptions,
    ) -> Self {
        let Restored { pages: read, head, stale, tail_bytes } = restored;
        let (seq, chk) = head.map_or((0, 0), |it| (it.seq, it.chk));
        let turns = head.map_or(0, |it| it.seq - it.base.seq);
        let tail = Tail::new(turns, tail_bytes, stale, head.map_or(0, |it| it.base.pages));
        let unopened = Some(Unopened { pages: read, is_new: head.is_none() });
        let (unusable, core, migrated) = (None, None, false);
        let lost_at_once = LOST_AT_ONCE;
        Self {
            options,
            me,
            unopened,
            pages,
            unusable,
            core,
            seq,
            chk,
            tail,
            migrated,
            lost_at_once,
        }
    }

    /// Opens the database, unless it is open.
    pub(super) fn open(&mut self, class: &Class) -> Result<(), CallError> {
        let Some(unopened) = self.unopened.take() else {
            return self.unusable.clone().map_or(Ok(()), Err);
        };
        let limits = self.options.limits();
        match unopened.open(&self.me, class, self.pages.clone(), limits) {
            Ok(opened) => {
                (self.core, self.migrated) = (Some(opened.0), opened.1);
                Ok(())
            }
            Err(error) => {
                let (object, detail) = (self.me.to_string(), error.to_string());
                let fault = self.fault().unwrap_or(CallError::Corrupt { object, detail });
                self.unusable = Some(fault.clone());
                Err(fault)
            }
        }
    }

    /// About what it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        let unopened = self.unopened.as_ref().map_or(0, Unopened::bytes);
        CONNECTION_BYTES + self.core.as_ref().map_or(unopened, |it| it.database.bytes())
    }

    /// What is wrong with what is stored, if a turn has found that out.
    pub(super) fn damage(&self) -> Option<CallError> {
        self.fault().filter(|it| matches!(it, CallError::Corrupt { .. }))
    }

    /// Why a page could not be had, if one could not: this is of no use any more.
    fn fault(&self) -> Option<CallError> {
        let unknown = || {
            let fault = self.core.as_ref()?.database.fault()?;
            Some(StoreError::Unavailable { reason: fault.to_string() }.into())
        };
        let read = || self.pages.as_ref().and_then(|it| it.fault()).or_else(unknown);
        self.unusable.clone().or_else(read)
    }

    pub(super) fn me(&self) -> &store::Address {
        &self.me
    }

    pub(super) fn core(&self) -> &Core {
        self.core.as_ref().expect("no turn runs")
    }

    fn core_mut(&mut self) -> &mut Core {
        self.core.as_mut().expect("no turn runs")
    }

    pub(super) fn run(
        &mut self,
        class: &Class,
        input: &Input,
        end: Option<End>,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> Step {
        if let Err(fault) = self.open(class) {
            return Step { broken: true, ..Step::reply(Err(fault)) };
        }
        let is_first = self.seq == 0;
        let step = self.step(class, input, end, now, entropy);
        if let (true, Some(core)) = (is_first && 0 < self.seq, &self.core) {
            class.mould.learn(core.tables.which());
        }
        match self.fault() {
            // What is sealed was whole; it is what came after that failed.
            Some(_) if step.commit.is_some() => Step { broken: true, ..step },
            Some(fault) => Step { broken: true, ..Step::reply(Err(fault)) },
            None => step,
        }
    }

    fn step(
        &mut self,
        class: &Class,
        input: &Input,
        end: Option<End>,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> Step {
        if let Input::Delete = input {
            return self.delete(end);
        }
        self.core().caller.set(input.caller());
        // A wake-up of an object that is gone: nothing is to be made for it.
        if let Input::Wake { .. } = input
            && self.seq == 0
        {
            return self.settle(end);
        }
        if let Input::Closed { id, closed } = input {
            return self.closed(class, *id, closed, now);
        }
        if let Err(error) = self.migrate(class, now) {
            return Step::reply(Err(error));
        }
        match input {
            Input::Call { message, body, key, .. } => {
                let call = |core: &Rc<Core>| call(core, class, message, body, key.as_ref());
                self.turn(input.label(), end, now, None, call)
            }
            Input::Wake { due_at } => self.wake(class, *due_at, end, now, entropy),
            Input::Connected(coming) => self.connected(class, coming, now),
            Input::Received { id, text } => self.received(class, *id, text, now),
            Input::Closed { id, closed } => self.closed(class, *id, closed, now),
            Input::Delete => self.delete(end),
        }
    }

    /// Rings the alarms that are due, one turn each; the last turn ends the wake-up.
    fn wake(
        &mut self,
        class: &Class,
        due_at: Timestamp,
        end: Option<End>,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> Step {
        let mut ringing = None;
        let step = self.turn("alarm", end, now, Some(due_at), |core| {
            let Some(alarm) = core.ringing().map_err(|error| broken(core, &error))? else {
                return Ok(Done::nothing());
            };
            let (name, due_at, attempt) = (alarm.name.clone(), alarm.due_at, alarm.attempts + 1);
            core.ringing.replace(Some(Ringing { name, due_at, attempt }));
            ringing = Some(alarm.clone());
            core.rang(&alarm).map_err(|error| broken(core, &error))?;
            let done = call(core, class, &alarm.message, &alarm.body, None)?;
            let more = core.ringing().map_err(|error| broken(core, &error))?.is_some();
            Ok(Done { reply: done.reply, again: more })
        });
        match (step.reply, ringing) {
            (Err(error), Some(alarm)) if !step.broken => {
                self.put_off(&alarm, &error, due_at, end, now, entropy)
            }
            (reply, _) => Step { reply, ..step },
        }
    }

    /// Records that the handler of an alarm failed: it rings again later, or is given up, but it is
    /// never forgotten.
    fn put_off(
        &mut self,
        alarm: &Alarm,
        error: &CallError,
        due_at: Timestamp,
        end: Option<End>,
        now: Timestamp,
        entropy: &dyn Entropy,
    ) -> Step {
        let wait = self.options.alarm_retry.wait(alarm.attempts + 1, entropy);
        let wait = wait.filter(|_| !error.is_final());
        let (object, name) = (self.me.to_string(), &alarm.name);
        match wait {
            Some(_) => tracing::warn!(object, alarm = name, error = %error, "alarm failed"),
            None if alarm.every.is_some() => {
                tracing::error!(object, alarm = name, error = %error, "repeated alarm failed");
            }
            None => tracing::error!(object, alarm = name, error = %error, "alarm given up"),
        }
        let text = error.to_string();
        self.turn("alarm failed", end, now, Some(due_at), |core| {
            let put_off = core.rang_in_vain(alarm, wait, (&text, error.is_final()));
            put_off.map_err(|error| broken(core, &error))?;
            let more = core.ringing().map_err(|error| broken(core, &error))?.is_some();
            Ok(Done { reply: "null".into(), again: more })
        })
    }

    /// Runs one turn: everything in `body` commits, or nothing does.
    pub(super) fn turn(
        &mut self,
        label: &str,
        end: Option<End>,
        now: Timestamp,
        woken: Option<Timestamp>,
        body: impl FnOnce(&Rc<Core>) -> Result<Done, CallError>,
    ) -> Step {
        let mut core = self.core.take().expect("no turn runs");
        core.now = now;
        core.seq = self.seq + 1;
        core.ringing.take();
        let core = Rc::new(core);
        let time = self.options.turn_time;
        let result = core.database.at(now, time, || transact(&core, woken, body));
        self.core = Rc::into_inner(core);
        if self.core.is_none() {
            // Nobody can keep a turn; if it were possible, its connection could not be trusted.
            let error = rolled_back(&self.me, "its turn was kept by the handler");
            return Step { broken: true, ..Step::reply(Err(error)) };
        }
        // Whatever the handler made of it.
        if let Some(fault) = self.fault() {
            return Step { broken: true, ..Step::reply(Err(fault)) };
        }
        let result = result.and_then(|done| Ok((self.seal(label, &done, end)?, done)));
        match result {
            Ok((commit, done)) => {
                let after = if commit.is_some() { self.checkpoint() } else { Ok(Vec::new()) };
                let broken = after.is_err();
                let (reply, again) = (Ok(done.reply), done.again);
                let (after, ops) = (after.unwrap_or_default(), self.core().ops.take());
                Step { reply, commit, after, ops, again, broken }
            }
            Err(error) => {
                let broken = self.undo().is_err();
                Step { broken, ..Step::reply(Err(error)) }
            }
        }
    }

    /// Makes the commit of a turn; `None` if the turn has no effects. If a run made the call, the
    /// commit stores the reply.
    fn seal(
        &mut self,
        label: &str,
        done: &Done,
        end: Option<End>,
    ) -> Result<Option<Commit>, CallError> {
        let reply = self.core().run_reply.take();
        let mut commit = self.seal_changes(label, done, end)?;
        if commit.is_none() && !self.core().ops.borrow().is_empty() {
            commit = reply.as_ref().map(|_| self.expecting());
        }
        Ok(commit.map(|commit| match reply {
            Some(put) => commit.expect(expect_first(&put)).write(Write::Put(put)),
            None => commit,
        }))
    }

    /// Makes a commit of what the turn changed; `None` if it changed nothing.
    fn seal_changes(
        &mut self,
        label: &str,
        done: &Done,
        end: Option<End>,
    ) -> Result<Option<Commit>, CallError> {
        let end = end.filter(|_| !done.again);
        let messages = self.core().out.take();
        self.core().alarms_touched.set(false);
        if SENT_MAX < messages.len() {
            let detail = format!("it sends {} messages, limit is {SENT_MAX}", messages.len());
            return Err(rolled_back(&self.me, &detail));
        }
        if self.core().deleted.take() {
            return self.erase(messages, end).map_err(|error| broken(self.core(), &error));
        }
        if !self.core().database.wrote() && messages.is_empty() {
            return Ok(end.map(|end| self.expecting().write(end.write())));
        }
        let changes = self.core().database.changes();
        if changes.is_none() && messages.is_empty() {
            return Ok(end.map(|end| self.expecting().write(end.write())));
        }
        let (delta, touched) = changes.map_or_else(Default::default, |it| (it.delta, it.touched));
        if self.options.delta_bytes_max < delta.len() {
            let (len, max) = (delta.len(), self.options.delta_bytes_max);
            let detail = format!("it changes {len} bytes, limit is {max}");
            return Err(rolled_back(&self.me, &detail));
        }
        let sent = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        let append = Write::Append { stream: self.me.clone(), messages };
        let size = Commit::of(append.clone()).bytes() + delta.len() + 4_096;
        if limits::COMMIT_BYTES_MAX < size {
            let max = limits::COMMIT_BYTES_MAX;
            let detail = format!("it changes and sends {size} bytes, limit is {max}");
            return Err(rolled_back(&self.me, &detail));
        }
        self.core().database.accept();
        let delta: Arc<[u8]> = delta.into();
        let chk = restore::chain(self.chk, self.seq + 1, &delta);
        self.tail.add(&touched, delta.len());
        let mut commit = self.expecting().write(Write::Turn(TurnRow {
            object: self.me.clone(),
            cause: end.map(|it| it.position),
            sent,
            chk,
            input: label.into(),
            delta,
        }));
        (self.seq, self.chk) = (self.seq + 1, chk);
        if 0 < sent {
            commit = commit.write(append);
        }
        if let Some(end) = end {
            commit = commit.write(end.write());
        }
        Ok(Some(commit))
    }

    /// The end of the object, in a turn of its own.
    fn delete(&mut self, end: Option<End>) -> Step {
        let existed = self.seq != 0;
        match self.erase(Vec::new(), end) {
            Ok(commit) => {
                let ops = self.core().ops.take();
                Step { commit, ops, ..Step::reply(Ok(existed.to_string())) }
            }
            Err(error) => {
                let error = broken(self.core(), &error);
                Step { broken: true, ..Step::reply(Err(error)) }
            }
        }
    }

    fn erase(
        &mut self,
        messages: Vec<store::Message>,
        end: Option<End>,
    ) -> rusqlite::Result<Option<Commit>> {
        let mut commit = self.expecting();
        if self.seq != 0 {
            commit = commit.write(Write::Erase { entity: self.me.id() });
        }
        if !messages.is_empty() {
            let stream = self.me.clone();
            commit = commit.write(Write::Append { stream, messages });
        }
        if let Some(end) = end {
            commit = commit.write(end.write());
        }
        self.core_mut().database = Database::empty(self.options.limits())?;
        self.core().tables.look_again(&self.core().database)?;
        (self.seq, self.chk, self.migrated) = (0, 0, false);
        (self.tail, self.pages) = (Tail::default(), None);
        self.core().ops.borrow_mut().push(Op::CloseAll { closed: Closed::deleted() });
        Ok((!commit.writes.is_empty()).then_some(commit))
    }

    /// Ends a delivery without a turn.
    fn settle(&self, end: Option<End>) -> Step {
        let commit = end.map(|end| self.expecting().write(end.write()));
        Step { commit, ..Step::reply(Ok("null".into())) }
    }

    /// A commit on top of everything that is on its way.
    fn expecting(&self) -> Commit {
        let entity = self.me.id();
        Commit::default().expect(Expect::Head { entity, seq: self.seq, chk: self.chk })
    }

    /// Back to where the last turn that went well left it.
    fn undo(&mut self) -> rusqlite::Result<()> {
        self.core().out.take();
        self.core().run_reply.take();
        self.core().ops.take();
        self.core().fault.take();
        self.core().alarms_touched.set(false);
        self.core().deleted.set(false);
        self.core_mut().database.rollback()?;
        // Migrations that were never committed are undone as well.
        self.migrated = false;
        self.core().tables.look_again(&self.core().database)
    }
}
