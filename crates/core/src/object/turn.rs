//! One turn, as a handler sees it.

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;
use serde_json::json;
use steadfast_store::{self as store, Due, InvalidInput, Json, Message, Timestamp, limits};

use super::{
    Address, CallError, Destination, Handle, Job, KeyValue, Lists, Object, Outcome, Sql,
    calls::Sending, database::Database, effect, live::Op, objects::Registry, tables::Tables,
};
use crate::{Body, Error, Result, RunAddress, RunEnded, RunError, Workflow, workflow::OnEnd};

/// Bytes of one job.
const JOB_BYTES_MAX: usize = limits::DATA_BYTES_MAX / 2;

/// One turn. Everything recorded here commits with the SQL, or not at all.
///
/// It stays on its thread and ends with the handler.
pub struct Turn<C> {
    pub(super) core: Rc<Core>,
    class: PhantomData<fn() -> C>,
}

/// What a turn works on, without its class.
pub(super) struct Core {
    pub(super) database: Database,
    pub(super) tables: Tables,
    pub(super) me: store::Address,
    pub(super) now: Timestamp,
    pub(super) seq: i64,
    pub(super) caller: Cell<Caller>,
    pub(super) ringing: RefCell<Option<Ringing>>,
    /// Messages to send.
    pub(super) out: RefCell<Vec<Message>>,
    /// Stores the reply if a run made the call.
    pub(super) run_reply: RefCell<Option<store::Put>>,
    /// What happens to connections when it is durable.
    pub(super) ops: RefCell<Vec<Op>>,
    /// Something was recorded that cannot be kept: the turn fails.
    pub(super) fault: RefCell<Option<Error>>,
    pub(super) alarms_touched: Cell<bool>,
    pub(super) deleted: Cell<bool>,
    /// What the program serves; `None`: that is not known.
    pub(super) served: Option<Arc<Registry>>,
}

/// The caller of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caller {
    /// The program itself: another turn, a run, a consumer, an alarm, a route of an application.
    #[default]
    Internal,
    /// Somebody outside, by the HTTP API or a live connection. There is no access control yet that
    /// would know more.
    Anonymous,
}

/// The alarm that a turn was woken by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ringing {
    /// Its name.
    pub name: String,
    /// When it was due; later than that is now.
    pub due_at: Timestamp,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

impl<C: Object> Turn<C> {
    pub(super) fn new(core: Rc<Core>) -> Self {
        Self { core, class: PhantomData }
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        self.core.me.name()
    }

    /// The address of the object.
    pub fn address(&self) -> Address<C> {
        C::at(self.name())
    }

    /// The time of the turn. It stands still during the turn, in SQL as well.
    pub fn now(&self) -> Timestamp {
        self.core.now
    }

    /// The number of this turn in the life of the object, if it changes something.
    pub fn seq(&self) -> i64 {
        self.core.seq
    }

    /// The caller of this turn.
    pub fn caller(&self) -> Caller {
        self.core.caller.get()
    }

    /// The alarm that this turn was woken by, if it was one.
    pub fn alarm(&self) -> Option<Ringing> {
        self.core.ringing.borrow().clone()
    }

    /// The object's own database, inside of the turn's transaction.
    pub fn sql(&self) -> &Sql {
        &self.core.database.connection
    }

    /// Keys and values in the same database.
    pub fn kv(&self) -> KeyValue<'_> {
        KeyValue::new(&self.core)
    }

    /// Runs `body`; if it fails, its SQL and everything that it recorded are undone, and the turn
    /// goes on.
    pub fn attempt<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.core.attempt(body)
    }

    /// Sends a message to another object or to a queue.
    pub fn send<M: Body, I>(&self, to: impl Destination<M, I>, msg: M) {
        self.send_after(Duration::ZERO, to, msg);
    }

    /// Sends a message that is not delivered before so long.
    pub fn send_after<M: Body, I>(&self, after: Duration, to: impl Destination<M, I>, msg: M) {
        self.core.send(to.sending(msg), Due::After(after));
    }

    /// Starts a run of a workflow, or finds it there: one run for each id. The turn fails if the
    /// program does not serve the workflow, or if no run can have such an id.
    pub fn start<W: Workflow>(&self, run: RunAddress<W>, input: W::Input) -> StartedRun<'_, W> {
        let run = self.core.send_to_run(&run, "start", &input);
        StartedRun { core: &self.core, run, workflow: PhantomData }
    }

    /// Ends a run of a workflow, if it is there and has not ended.
    pub fn terminate<W: Workflow>(&self, run: RunAddress<W>) {
        let _ = self.core.send_to_run(&run, "terminate", &());
    }

    /// Asks for work outside of the turn; the outcome comes back as a turn of its own.
    pub fn perform<J: Job, I>(&self, job: &J)
    where
        C: Handle<Outcome<J>>,
        C::Calls: Lists<Outcome<J>, I>,
    {
        let sending = || {
            let me = &self.core.me;
            let target = effect::target(J::NAME)?;
            let beside = json!({ "to": me.to_string(), "outcome": C::NAME });
            let (action, message_type) = ("perform", J::NAME);
            let (data, metadata) = (Json::of(job)?, Json::of(&beside)?);
            // The outcome holds the job as well.
            let len = data.as_str().len();
            if JOB_BYTES_MAX < len {
                return Err(InvalidInput::DataSize { len: 2 * len });
            }
            let (delay, ordered) = (Duration::ZERO, false);
            Ok(Sending { target, action, message_type, data, metadata, delay, ordered })
        };
        self.core.send(sending(), Due::After(Duration::ZERO));
    }

    /// Deletes the object with this turn: its database, its alarms and its keys. What is sent in
    /// the same turn goes out. A later call finds a new, empty object.
    pub fn delete(&self) {
        self.core.deleted.set(true);
    }
}

/// A run that a turn has started.
pub struct StartedRun<'a, W> {
    core: &'a Core,
    /// Which run, and which of the messages starts it; `None` if it could not be sent.
    run: Option<(store::Address, usize)>,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> StartedRun<'_, W> {
    /// Sends [`RunEnded`] to this object when the run ends, in the commit of the end. It counts for
    /// the start that made the run: who finds it there changes nothing. A run that is restarted
    /// tells of each end, and a later one may arrive first.
    pub fn on_end<C: Handle<RunEnded<W>>, I>(self, to: Address<C>)
    where
        C::Calls: Lists<RunEnded<W>, I>,
    {
        // A start that failed fails the turn.
        let Some((run, index)) = self.run else { return };
        let class_not_served = !self.core.served.as_ref().is_none_or(|it| it.has_class(C::CLASS));
        if class_not_served {
            let class = C::CLASS.into();
            let text = CallError::UnknownClass { class }.to_string();
            return self.core.fail(Error::terminal(text).with_code("class_not_found"));
        }
        let mut out = self.core.out.borrow_mut();
        // It is undone if the attempt that started the run has failed.
        let Some(message) = out.get_mut(index).filter(|it| it.is_for(&run, "start")) else {
            return;
        };
        let metadata = || {
            let on_end = OnEnd { to: to.resolve()?.to_string(), message: C::NAME.into() };
            Json::of(&json!({ "to": run.to_string(), "onEnd": on_end }))
        };
        match metadata().and_then(|it| message.clone().metadata(it)) {
            Ok(with_end) => *message = with_end,
            Err(error) => self.core.fail(Error::terminal(error).with_code("invalid_input")),
        }
    }
}

impl Core {
    pub(super) fn attempt<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        let (sent, told) = (self.out.borrow().len(), self.ops.borrow().len());
        let (fault, deleted) = (self.fault.borrow().clone(), self.deleted.get());
        self.database.execute("SAVEPOINT attempt /* ours */")?;
        // A handler may catch a panic itself: what it gave up must not stay.
        let result = catch_unwind(AssertUnwindSafe(body));
        if let Ok(Ok(_)) = result {
            self.database.execute("RELEASE attempt /* ours */")?;
        } else {
            self.database.execute("ROLLBACK TO attempt /* ours */")?;
            self.database.execute("RELEASE attempt /* ours */")?;
            self.tables.look_again(&self.database)?;
            self.out.borrow_mut().truncate(sent);
            self.ops.borrow_mut().truncate(told);
            *self.fault.borrow_mut() = fault;
            self.deleted.set(deleted);
        }
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    pub(super) fn send(&self, sending: Result<Sending, InvalidInput>, due: Due) {
        match sending.and_then(|it| it.message(due)) {
            Ok(message) => self.out.borrow_mut().push(message),
            Err(error) => self.fail(Error::terminal(error).with_code("invalid_input")),
        }
    }

    fn send_to_run<W: Workflow>(
        &self,
        run: &RunAddress<W>,
        action: &'static str,
        data: &impl Serialize,
    ) -> Option<(store::Address, usize)> {
        // One that is not served any more can still be ended.
        let served = self.served.as_ref().is_none_or(|it| it.has_workflow(W::NAME));
        let target = match served || action != "start" {
            true => run.resolve(),
            false => Err(RunError::UnknownWorkflow { workflow: W::NAME.into() }),
        };
        let target = match target {
            Ok(target) => target,
            Err(error) => {
                let code = error.code().to_owned();
                self.fail(Error::terminal(error).with_code(&code));
                return None;
            }
        };
        let sending = || {
            let metadata = Json::of(&json!({ "to": target.to_string() }))?;
            let (message_type, data, delay) = (W::NAME, Json::of(data)?, Duration::ZERO);
            let target = target.clone();
            // A run is started before it is ended.
            let ordered = true;
            Ok(Sending { target, action, message_type, data, metadata, delay, ordered })
        };
        let sent = self.out.borrow().len();
        self.send(sending(), Due::After(Duration::ZERO));
        (sent < self.out.borrow().len()).then_some((target, sent))
    }

    /// Lets the turn fail when the handler has ended.
    pub(super) fn fail(&self, error: Error) {
        self.fault.borrow_mut().get_or_insert(error);
    }
}
