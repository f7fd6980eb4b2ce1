//! Results from outside: outcomes of jobs, webhooks, and timeouts.

use std::time::Duration;

use steadfast_core::{Error, Handle, Outcome, Result, Turn};

use super::{
    GenerationManager, UNDER_WAY, control, progress,
    progress::Wait,
    rows,
    rows::{Kept, TaskRow},
    unknown,
};
use crate::{
    AskAgain, AskLate, AtProvider, CountCost, Discard, DiscardAgain, Fetch, FetchAgain, FetchHere,
    Made, Poll, Progress, Submit, SubmitHere, Taken, TaskError, TaskState, TimeOut, Webhook,
    jobs::DISCARD_AGAIN, providers::WAIT_MAX_MS,
};

fn error_of(error: &Error) -> TaskError {
    TaskError { code: error.code().into(), message: error.to_string() }
}

/// A task that was given up for another round was made after all: of all that is said about it,
/// only that counts.
fn made_late(turn: &Turn<GenerationManager>, kept: &Kept, id: &str, made: Made) -> Result<()> {
    let Some(task) = rows::place_of_earlier(turn, id)? else { return Ok(()) };
    progress::made(turn, kept, &task, id, made)
}

/// Its submission is over, and it was not handed over: should it be waited for again, it has to be.
fn unsent(turn: &Turn<GenerationManager>, task: &TaskRow) -> Result<()> {
    turn.sql().execute("UPDATE task SET isUnsent = 1 WHERE idx = ?1", [task.index])?;
    Ok(())
}

impl Handle<Outcome<Submit>> for GenerationManager {
    const NAME: &'static str = "submitted";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<Submit>) -> Result<()> {
        // An answer to an id that is not the task's any more is about an earlier round.
        let (Some(kept), id) = (rows::request(turn)?, &msg.job.task) else { return Ok(()) };
        let Some(task) = rows::task_of(turn, id)? else {
            return match msg.result {
                Ok(Taken::Made(made)) => made_late(turn, &kept, id, made),
                Ok(Taken::MadeEarlier { task, made }) => made_late(turn, &kept, &task, made),
                Ok(Taken::Accepted | Taken::Withdrawn | Taken::Later { .. }) | Err(_) => Ok(()),
            };
        };
        match msg.result {
            Ok(Taken::Later { after_ms, may_be_known, is_held }) => {
                if !is_held {
                    self.hold(turn, &kept, after_ms);
                }
                let earlier = msg.job.earlier;
                let wait = Wait { earlier, after_ms, may_be_known, is_held };
                progress::turned_away(turn, &kept, &task, wait)
            }
            Ok(Taken::Made(made)) => progress::made(turn, &kept, &task, id, made),
            Ok(Taken::Accepted) => progress::submitted(turn, &task, kept.webhooks.is_some()),
            // It was waited for again meanwhile.
            Ok(Taken::Withdrawn) if UNDER_WAY.contains(&task.state) => {
                control::submit(turn, &kept, task.index, Vec::new())
            }
            Ok(Taken::Withdrawn) => unsent(turn, &task),
            Ok(Taken::MadeEarlier { task: earlier, made }) => {
                unsent(turn, &task)?;
                made_late(turn, &kept, &earlier, made)
            }
            // A success that a webhook reported meanwhile counts.
            Err(error) => progress::failed(turn, &kept, &task, &UNDER_WAY, &error_of(&error)),
        }
    }
}

impl Handle<Outcome<SubmitHere>> for GenerationManager {
    const NAME: &'static str = "submitted-here";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<SubmitHere>) -> Result<()> {
        let msg: Outcome<Submit> = Outcome { job: msg.job.0, result: msg.result };
        self.handle(turn, msg)
    }
}

impl Handle<Outcome<Poll>> for GenerationManager {
    const NAME: &'static str = "polled";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<Poll>) -> Result<()> {
        // Tasks that could not be polled are polled at the next alarm.
        for Progress { task, state } in msg.result.unwrap_or_default() {
            self.told(turn, &task, state)?;
        }
        Ok(())
    }
}

impl GenerationManager {
    /// A provider's request to wait holds for all tasks that are not submitted yet.
    fn hold(&self, turn: &Turn<Self>, kept: &Kept, after_ms: u64) {
        let after = after_ms.clamp(progress::WAIT_MIN_MS, WAIT_MAX_MS);
        let until = turn.now().after(Duration::from_millis(after));
        self.providers.hold(&kept.request.provider, until);
    }

    /// A provider has said how a task stands, however it came.
    fn told(&self, turn: &Turn<Self>, id: &str, state: AtProvider) -> Result<()> {
        let Some(kept) = rows::request(turn)? else { return Ok(()) };
        let Some(task) = rows::task_of(turn, id)? else {
            return match state {
                AtProvider::Made(made) => made_late(turn, &kept, id, made),
                AtProvider::Working(_)
                | AtProvider::Failed(_)
                | AtProvider::Unknown
                | AtProvider::Busy(_) => Ok(()),
            };
        };
        match state {
            AtProvider::Made(made) => progress::made(turn, &kept, &task, id, made),
            AtProvider::Working(per_cent) => progress::went_on(turn, &task, per_cent),
            AtProvider::Failed(error) if task.state == TaskState::Cancelled => {
                progress::failed_unwanted(turn, &task, &error)
            }
            AtProvider::Failed(error) => progress::failed(turn, &kept, &task, &UNDER_WAY, &error),
            AtProvider::Unknown => progress::missing(turn, &kept, &task),
            AtProvider::Busy(after_ms) => {
                self.hold(turn, &kept, after_ms);
                progress::ask_not_before(turn, after_ms)
            }
        }
    }
}

impl Handle<AskAgain> for GenerationManager {
    const NAME: &'static str = "ask-again";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: AskAgain) -> Result<()> {
        let Some(kept) = rows::request(turn)? else { return Ok(()) };
        let tasks = rows::tasks(turn)?;
        let waiting = tasks.into_iter().filter(|it| it.state == TaskState::Submitted);
        let tasks: Vec<String> = waiting.map(|it| it.id).collect();
        if tasks.is_empty() || kept.is_deleted {
            return Ok(());
        }
        turn.perform(&Poll { provider: kept.request.provider.clone(), tasks });
        progress::ask_again(turn, msg.asked, kept.webhooks.is_some())
    }
}

impl Handle<AskLate> for GenerationManager {
    const NAME: &'static str = "ask-late";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: AskLate) -> Result<()> {
        let Some(kept) = rows::request(turn)? else { return Ok(()) };
        let given_up = rows::tasks(turn)?.into_iter().filter(TaskRow::may_still_come);
        let tasks: Vec<String> = given_up.map(|it| it.id).collect();
        if tasks.is_empty() {
            return Ok(());
        }
        turn.perform(&Poll { provider: kept.request.provider.clone(), tasks });
        progress::ask_late(turn, msg.asked);
        Ok(())
    }
}

impl Handle<TimeOut> for GenerationManager {
    const NAME: &'static str = "time-out";
    type Reply = ();

    /// Only tasks whose provider was asked so long ago. Outputs on their way into the
    /// bucket come to their own end.
    fn handle(&self, turn: &Turn<Self>, _: TimeOut) -> Result<()> {
        let Some(kept) = rows::request(turn)? else { return Ok(()) };
        let message = format!("the provider took longer than {} s", kept.timeout_ms / 1_000);
        let error = TaskError { code: "timeout".into(), message };
        for task in rows::tasks(turn)? {
            if task.deadline(&kept).is_some_and(|it| it <= turn.now()) {
                progress::failed(turn, &kept, &task, &UNDER_WAY, &error)?;
            }
        }
        progress::watch_time(turn, &kept)
    }
}

/// Removes what a fetch may have put.
fn discard(job: Fetch) -> Discard {
    Discard { workspace: job.workspace, artifacts: vec![job.artifact] }
}

impl Handle<Outcome<CountCost>> for GenerationManager {
    const NAME: &'static str = "cost-counted";
    type Reply = ();

    fn handle(&self, _: &Turn<Self>, msg: Outcome<CountCost>) -> Result<()> {
        if let Err(error) = msg.result {
            let CountCost { workspace, task, micros } = msg.job;
            tracing::error!(%error, workspace, task, micros, "a cost was not counted; given up");
        }
        Ok(())
    }
}

impl Handle<Outcome<Fetch>> for GenerationManager {
    const NAME: &'static str = "fetched";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<Fetch>) -> Result<()> {
        let (Some(kept), Some(task)) = (rows::request(turn)?, rows::task_at(turn, msg.job.index)?)
        else {
            turn.perform(&discard(msg.job));
            return Ok(());
        };
        match msg.result {
            Ok(fetched) => {
                if !progress::ready(turn, &kept, &task, &fetched)? {
                    turn.perform(&discard(msg.job));
                }
                Ok(())
            }
            Err(error) => {
                let is_earlier = !msg.job.task.is_empty() && msg.job.task != task.id;
                if is_earlier && progress::wait_again(turn, &kept, &task)? {
                    return match task.is_unsent {
                        true => control::submit(turn, &kept, task.index, Vec::new()),
                        false => Ok(()),
                    };
                }
                if kept.is_deleted || task.state == TaskState::Cancelled {
                    // An attempt before may have put it.
                    turn.perform(&discard(msg.job));
                    return Ok(());
                }
                let from = [TaskState::Streaming];
                progress::failed(turn, &kept, &task, &from, &error_of(&error))
            }
        }
    }
}

impl Handle<Outcome<FetchHere>> for GenerationManager {
    const NAME: &'static str = "fetched-here";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<FetchHere>) -> Result<()> {
        let job = msg.job.0;
        if let Some(result) = msg.result.transpose() {
            let msg: Outcome<Fetch> = Outcome { job, result };
            return self.handle(turn, msg);
        }
        // Nobody waits for a task that was cancelled: it takes no turn from others.
        let task = rows::task_at(turn, job.index)?;
        if let Some(task) = task.filter(|it| it.state == TaskState::Streaming) {
            let pause = self.providers.pause(&job.workspace, turn.now());
            progress::fetch_later(turn, &task, pause);
        }
        Ok(())
    }
}

impl Handle<FetchAgain> for GenerationManager {
    const NAME: &'static str = "fetch-again";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: FetchAgain) -> Result<()> {
        match (rows::request(turn)?, rows::task_at(turn, msg.index)?) {
            (Some(kept), Some(task)) => progress::fetch_now(turn, &kept, &task),
            (Some(_), None) | (None, _) => Ok(()),
        }
    }
}

impl Handle<Outcome<Discard>> for GenerationManager {
    const NAME: &'static str = "discarded";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Outcome<Discard>) -> Result<()> {
        if let Err(error) = msg.result {
            let Discard { workspace, artifacts } = msg.job;
            tracing::warn!(%error, ?artifacts, "blobs were not removed; it is tried again");
            let again = DiscardAgain { workspace, artifacts };
            turn.send_after(DISCARD_AGAIN, turn.address(), again);
        }
        Ok(())
    }
}

impl Handle<DiscardAgain> for GenerationManager {
    const NAME: &'static str = "discard-again";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: DiscardAgain) -> Result<()> {
        let DiscardAgain { workspace, artifacts } = msg;
        turn.perform(&Discard { workspace, artifacts });
        Ok(())
    }
}

impl Handle<Webhook> for GenerationManager {
    const NAME: &'static str = "webhook";
    type Reply = ();

    /// The body and its effects are one commit; the response comes after it.
    fn handle(&self, turn: &Turn<Self>, msg: Webhook) -> Result<()> {
        let kept = rows::request(turn)?.ok_or_else(|| unknown(turn))?;
        if !self.providers.verify_webhook(turn.name(), &msg.task, &msg.token) {
            return Err(unknown(turn));
        }
        let told = self.providers.parse_webhook(&kept.request.provider, &msg.task, &msg.body)?;
        let insert = "INSERT OR IGNORE INTO webhook (task, body, receivedAt) VALUES (?1, ?2, ?3)";
        turn.sql().execute(insert, (&msg.task, &msg.body, turn.now().0))?;
        for Progress { task, state } in told {
            self.told(turn, &task, state)?;
        }
        Ok(())
    }
}
