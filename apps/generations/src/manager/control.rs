//! Actions of people on a generation.

use std::time::Duration;

use serde_json::{Map, Value};
use steadfast_core::{Error, Handle, Object, Result, Turn};

use super::{
    GenerationManager, progress,
    progress::CONFIRM_AFTER,
    rows,
    rows::{Kept, TaskRow},
    shown, unknown,
};
use crate::{
    Cancel, Confirm, Create, Delete, DeleteGeneration, Discard, Forget, Generation,
    GenerationMessage, Library, Request, Retry, RetryUnpaid, Submit, SubmitAgain, SubmitHere,
    TaskState, artifact_id, jobs::is_here, task_id,
};

/// How long a manager stays at least that the library has not confirmed.
const FORGET_AGAIN: Duration = Duration::from_hours(1);

impl Handle<Create> for GenerationManager {
    const NAME: &'static str = "create";
    type Reply = Generation;

    /// Request, tasks with the ids that the provider will get, and the work itself are one commit.
    fn handle(&self, turn: &Turn<Self>, msg: Create) -> Result<Generation> {
        if let Some(kept) = rows::request(turn)? {
            return rows::generation(turn, &kept);
        }
        let Create { request, workspace, webhooks, timeout_ms } = msg;
        turn.sql().execute(
            "INSERT INTO request (one, request, workspace, webhooks, timeoutMs, createdAt) \
             VALUES (1, ?1, ?2, ?3, ?4, ?5)",
            (serde_json::to_string(&request)?, &workspace, &webhooks, timeout_ms, turn.now().0),
        )?;
        let kept = rows::request(turn)?.ok_or_else(|| unknown(turn))?;
        for index in 0..kept.request.count {
            turn.sql().execute(
                "INSERT INTO task (idx, id, state) VALUES (?1, ?2, 'pending')",
                (index, task_id(turn.name(), index, 0)),
            )?;
        }
        for index in 0..kept.request.count {
            submit(turn, &kept, index, Vec::new())?;
        }
        progress::publish(turn, &kept)?;
        rows::generation(turn, &kept)
    }
}

/// Asks for a task to be submitted: once for each of its ids, however often it is tried.
pub(super) fn submit(
    turn: &Turn<GenerationManager>,
    kept: &Kept,
    index: u32,
    earlier: Vec<String>,
) -> Result<()> {
    let Some(task) = rows::task_at(turn, index)? else { return Ok(()) };
    turn.sql().execute("UPDATE task SET isUnsent = 0 WHERE idx = ?1", [index])?;
    let webhook = kept.webhooks.as_ref().map(|base| {
        let (provider, generation) = (&kept.request.provider, turn.name());
        format!("{base}/webhooks/{provider}/{generation}/{}", task.id)
    });
    let job = Submit {
        provider: kept.request.provider.clone(),
        model: kept.request.model.clone(),
        kind: kept.request.kind,
        input: input_of(&kept.request, index),
        generation: turn.name().into(),
        index,
        task: task.id,
        earlier,
        webhook,
    };
    match is_here(&kept.request.provider) {
        true => turn.perform(&SubmitHere(job)),
        false => turn.perform(&job),
    }
    Ok(())
}

impl Handle<SubmitAgain> for GenerationManager {
    const NAME: &'static str = "submit-again";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: SubmitAgain) -> Result<()> {
        let Some(kept) = rows::request(turn)?.filter(|it| !it.is_deleted) else { return Ok(()) };
        let task = rows::task_at(turn, msg.index)?;
        match task.filter(|it| it.id == msg.task && it.state == TaskState::Pending) {
            Some(task) => submit(turn, &kept, task.index, msg.earlier),
            None => Ok(()),
        }
    }
}

/// The input of a task: each has a seed of its own, so that no two are the same.
fn input_of(request: &Request, index: u32) -> Map<String, Value> {
    let mut input = request.input.clone();
    if let Some(seed) = input.get("seed").and_then(Value::as_u64) {
        input.insert("seed".into(), seed.saturating_add(index.into()).into());
    }
    input
}

impl Handle<Cancel> for GenerationManager {
    const NAME: &'static str = "cancel";
    type Reply = Generation;

    fn handle(&self, turn: &Turn<Self>, _: Cancel) -> Result<Generation> {
        let kept = present(turn)?;
        // A generation that ended before keeps its end.
        if cancel_all(turn)? {
            progress::publish(turn, &kept)?;
        }
        let kept = present(turn)?;
        rows::generation(turn, &kept)
    }
}

fn present(turn: &Turn<GenerationManager>) -> Result<Kept> {
    rows::request(turn)?.filter(|it| !it.is_deleted).ok_or_else(|| unknown(turn))
}

/// `true` if there was something to cancel.
fn cancel_all(turn: &Turn<GenerationManager>) -> Result<bool> {
    let tasks = rows::tasks(turn)?;
    tasks.iter().try_fold(false, |any, it| Ok(progress::cancelled(turn, it)? || any))
}

impl Handle<Retry> for GenerationManager {
    const NAME: &'static str = "retry";
    type Reply = Generation;

    /// Failed tasks only. What is made is fetched again. The others are made again, each under an
    /// id of its own: the old one may still become something, so it is asked for first.
    fn handle(&self, turn: &Turn<Self>, _: Retry) -> Result<Generation> {
        let kept = present(turn)?;
        for task in &failed(turn)? {
            if progress::fetch_again(turn, &kept, task)? {
                continue;
            }
            let (index, round) = (task.index, task.round + 1);
            let earlier = (0..round).map(|it| task_id(turn.name(), index, it));
            // A lost task would only be lost again.
            let is_lost = |it: &String| task.made.is_some() && task.made_by.as_ref() == Some(it);
            let earlier = earlier.filter(|it| !is_lost(it)).collect();
            turn.sql().execute(
                "UPDATE task SET state = 'pending', round = ?2, id = ?3, error = NULL, \
                 made = NULL, progress = NULL, submittedAt = NULL, turnedAway = 0, \
                 mayBeKnown = 0, acknowledgedAt = NULL, missing = 0 WHERE idx = ?1",
                (index, round, task_id(turn.name(), index, round)),
            )?;
            submit(turn, &kept, index, earlier)?;
        }
        progress::publish(turn, &kept)?;
        let kept = present(turn)?;
        shown::shown(turn, &kept)
    }
}

/// The tasks that a retry is about: at least one.
fn failed(turn: &Turn<GenerationManager>) -> Result<Vec<TaskRow>> {
    let mut tasks = rows::tasks(turn)?;
    tasks.retain(|it| it.state == TaskState::Failed);
    if tasks.is_empty() {
        let text = format!("generation `{}` has no failed task", turn.name());
        return Err(Error::terminal(text).with_code("nothing_to_retry"));
    }
    Ok(tasks)
}

impl Handle<RetryUnpaid> for GenerationManager {
    const NAME: &'static str = "retry-unpaid";
    type Reply = Generation;

    fn handle(&self, turn: &Turn<Self>, _: RetryUnpaid) -> Result<Generation> {
        let kept = present(turn)?;
        let mut is_any = false;
        for task in failed(turn)? {
            is_any |= progress::fetch_again(turn, &kept, &task)?;
        }
        if !is_any {
            let text = format!(
                "a retry of generation `{}` would pay again, and its workspace has spent what it \
                 may spend in this month",
                turn.name()
            );
            return Err(Error::terminal(text).with_code("quota_spend"));
        }
        progress::publish(turn, &kept)?;
        let kept = present(turn)?;
        shown::shown(turn, &kept)
    }
}

impl Handle<Delete> for GenerationManager {
    const NAME: &'static str = "delete";
    type Reply = ();

    /// The library removes rows and blobs; what is still on its way finds nobody who wants it.
    fn handle(&self, turn: &Turn<Self>, _: Delete) -> Result<()> {
        let kept = present(turn)?;
        // The library cannot remove artifacts that it never recorded.
        let tasks = rows::tasks(turn)?;
        let unheard = tasks.iter().filter(|it| it.is_unconfirmed(&kept));
        let artifacts: Vec<String> = unheard.map(|it| artifact_id(turn.name(), it.index)).collect();
        if !artifacts.is_empty() {
            turn.perform(&Discard { workspace: kept.workspace.clone(), artifacts });
        }
        cancel_all(turn)?;
        turn.sql().execute("UPDATE request SET isDeleted = 1, told = told + 1", ())?;
        for alarm in ["ask", "timeout"] {
            turn.cancel_alarm(alarm);
        }
        // Costs count although nobody wants the outputs any more.
        if rows::tasks(turn)?.iter().any(TaskRow::may_still_come) {
            progress::ask_late(turn, 0);
        }
        turn.set_alarm("confirm", CONFIRM_AFTER, Confirm { tried: 0 });
        turn.set_alarm("forget", super::GRACE, Forget);
        let id = turn.name().to_owned();
        turn.send(Library::at(&kept.workspace), DeleteGeneration { id: id.clone() });
        turn.broadcast(&GenerationMessage::GenerationDeleted { id });
        Ok(())
    }
}

impl Handle<Forget> for GenerationManager {
    const NAME: &'static str = "forget";
    type Reply = ();

    /// Only when the library has confirmed everything: before that the manager is all there is.
    fn handle(&self, turn: &Turn<Self>, _: Forget) -> Result<()> {
        let Some(kept) = rows::request(turn)? else { return Ok(()) };
        let (is_heard, tasks) = (kept.told <= kept.heard, rows::tasks(turn)?);
        if is_heard && tasks.iter().all(|it| it.state.is_final()) {
            // An attempt to fetch them may have put a blob without reporting it.
            let unwanted = tasks.iter().filter(|it| kept.is_deleted || !it.is_ready());
            let artifacts: Vec<_> = unwanted.map(|it| artifact_id(turn.name(), it.index)).collect();
            if !artifacts.is_empty() {
                turn.perform(&Discard { workspace: kept.workspace.clone(), artifacts });
            }
            turn.delete();
        } else {
            turn.set_alarm("forget", FORGET_AGAIN, Forget);
            if !turn.alarms()?.iter().any(|it| it.name == "confirm") {
                turn.set_alarm("confirm", Duration::ZERO, Confirm { tried: 0 });
            }
        }
        Ok(())
    }
}
