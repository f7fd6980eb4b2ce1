//! The states of a task. Each change names the states that it may come from; from any other it
//! changes nothing.

use std::time::Duration;

use serde::Serialize;
use steadfast_core::{
    Object, Result, Turn,
    store::{Timestamp, backoff},
};

use super::{
    GRACE, GenerationManager, UNDER_WAY,
    rows::{self, Kept, TaskRow},
    shown::{tell, tell_of_the_end},
};
use crate::{
    AskAgain, AskLate, Confirm, CountCost, Fetch, FetchAgain, FetchHere, Forget, GenerationChanged,
    GenerationStatus, Library, Made, SubmitAgain, TaskError, TaskState, TimeOut, artifact_id,
    jobs::is_here, providers::WAIT_MAX_MS,
};

/// How long a provider is left alone at least that does not say how long, in milliseconds.
pub(super) const WAIT_MIN_MS: u64 = 1_000;

/// How long the library may take to confirm a change before it is sent again.
pub(super) const CONFIRM_AFTER: Duration = Duration::from_secs(30);

/// How often a provider may turn a task away until the task fails.
const TURNED_AWAY_MAX: u32 = 100;

/// A provider does not know a task that it acknowledged when so many polls in a row have not found
/// it, and so much time has passed: right after the acknowledgement it may be late.
const MISSING_MAX: u32 = 3;
const MISSING_AFTER: Duration = Duration::from_secs(30);

type ManagerTurn = Turn<GenerationManager>;

/// Changes the state of a task if it is in one of these. `true` if it was.
fn change(turn: &ManagerTurn, task: &TaskRow, from: &[TaskState], to: TaskState) -> Result<bool> {
    if !from.contains(&task.state) {
        return Ok(false);
    }
    let update = "UPDATE task SET state = ?3 WHERE idx = ?1 AND id = ?2 AND state = ?4";
    let changed = (task.index, &task.id, to.name(), task.state.name());
    Ok(0 < turn.sql().execute(update, changed)?)
}

fn set(turn: &ManagerTurn, task: &TaskRow, column: &str, value: &impl Serialize) -> Result<()> {
    let update = format!("UPDATE task SET {column} = ?2 WHERE idx = ?1");
    turn.sql().execute(&update, (task.index, serde_json::to_string(value)?))?;
    Ok(())
}

/// The provider works on it.
pub(super) fn submitted(turn: &ManagerTurn, task: &TaskRow, webhooks: bool) -> Result<()> {
    let update = "UPDATE task SET acknowledgedAt = ?2, missing = 0 WHERE idx = ?1";
    turn.sql().execute(update, (task.index, turn.now().0))?;
    if change(turn, task, &[TaskState::Pending], TaskState::Submitted)? {
        tell(turn, task.index)?;
    }
    ask_again(turn, 0, webhooks)
}

/// Sets the alarm for the next question, if there is none.
pub(super) fn ask_again(turn: &ManagerTurn, asked: u32, webhooks: bool) -> Result<()> {
    if asked == 0 && turn.alarms()?.iter().any(|it| it.name == "ask") {
        return Ok(());
    }
    // As the provider's own client does; with webhooks only in case that none comes.
    let first = if webhooks { 30_000 } else { 1_000 };
    let wait = (0..asked.min(20)).fold(first, |wait, _| (wait * 3 / 2).min(60_000));
    let wait = if webhooks { wait } else { wait.min(10_000) };
    turn.set_alarm("ask", Duration::from_millis(wait), AskAgain { asked: asked + 1 });
    Ok(())
}

/// Sets the alarm for the next question about what was given up or cancelled. The first comes at
/// once, as the last one before may have been a while ago; then they come slowly, until nobody is
/// here any more.
pub(super) fn ask_late(turn: &ManagerTurn, asked: u32) {
    let wait = match asked {
        0 => Duration::from_secs(1),
        _ => backoff(Duration::from_mins(1), asked, Duration::from_hours(1)),
    };
    turn.set_alarm("late", wait, AskLate { asked: asked + 1 });
}

/// The provider has too many questions: the next one comes when it wants to be asked again.
pub(super) fn ask_not_before(turn: &ManagerTurn, after_ms: u64) -> Result<()> {
    let after = Duration::from_millis(after_ms.min(WAIT_MAX_MS));
    let earliest = turn.now().after(after);
    let alarms = turn.alarms()?;
    // Only what is to be asked at all.
    if alarms.iter().any(|it| it.name == "ask" && it.due_at < earliest) {
        turn.set_alarm("ask", after, AskAgain { asked: 1 });
    }
    if alarms.iter().any(|it| it.name == "late" && it.due_at < earliest) {
        turn.set_alarm("late", after, AskLate { asked: 1 });
    }
    Ok(())
}

/// Sets the alarm for the first task whose provider takes too long. A task that waits for a place
/// at the provider has no deadline.
pub(super) fn watch_time(turn: &ManagerTurn, kept: &Kept) -> Result<()> {
    let tasks = rows::tasks(turn)?;
    let under_way = tasks.iter().filter(|it| UNDER_WAY.contains(&it.state));
    if let Some(first) = under_way.filter_map(|it| it.deadline(kept)).min() {
        turn.set_alarm_at("timeout", first, TimeOut);
    }
    Ok(())
}

/// The error of a provider that does not accept a task now.
pub(super) struct Wait {
    /// The ids of earlier rounds.
    pub(super) earlier: Vec<String>,
    pub(super) after_ms: u64,
    /// Whether the provider may have the task from an earlier attempt.
    pub(super) may_be_known: bool,
    /// Whether it was not asked at all.
    pub(super) is_held: bool,
}

/// The provider has too many requests. The task is submitted again when the provider wants to be
/// asked again; until then no job exists that could submit it, and its time does not run.
pub(super) fn turned_away(
    turn: &ManagerTurn,
    kept: &Kept,
    task: &TaskRow,
    wait: Wait,
) -> Result<()> {
    let Wait { earlier, after_ms, may_be_known, is_held } = wait;
    let update = "UPDATE task SET isUnsent = 1, submittedAt = NULL, acknowledgedAt = NULL, \
                  mayBeKnown = ?2, turnedAway = turnedAway + ?3 WHERE idx = ?1";
    turn.sql().execute(update, (task.index, may_be_known, u32::from(!is_held)))?;
    if !change(turn, task, &UNDER_WAY, TaskState::Pending)? {
        return Ok(());
    }
    if task.state != TaskState::Pending {
        tell(turn, task.index)?;
    }
    if TURNED_AWAY_MAX <= task.turned_away {
        let message = format!("the provider asked to wait {TURNED_AWAY_MAX} times");
        let error = TaskError { code: "provider_rate_limited".into(), message };
        let Some(task) = rows::task_at(turn, task.index)? else { return Ok(()) };
        return failed(turn, kept, &task, &[TaskState::Pending], &error);
    }
    let first = Duration::from_millis(WAIT_MIN_MS);
    let delay = backoff(first, task.turned_away + 1, first * 256);
    let least = if is_held { Duration::ZERO } else { delay };
    // Tasks that were turned away together come back one after the other.
    let chance = u16::from_str_radix(task.id.get(..4).unwrap_or_default(), 16).unwrap_or_default();
    let spread = delay.mul_f64(f64::from(chance) / f64::from(u16::MAX));
    let asked_for = Duration::from_millis(after_ms.min(WAIT_MAX_MS));
    let after = asked_for.max(least) + spread;
    let again = SubmitAgain { index: task.index, task: task.id.clone(), earlier };
    turn.set_alarm(&format!("submit-{}", task.index), after, again);
    Ok(())
}

/// A poll did not find the task. A task without an acknowledgement may be on its way there.
pub(super) fn missing(turn: &ManagerTurn, kept: &Kept, task: &TaskRow) -> Result<()> {
    let is_its = task.state == TaskState::Submitted;
    let Some(since) = task.acknowledged_at.filter(|_| is_its) else { return Ok(()) };
    let missing = task.missing + 1;
    if missing < MISSING_MAX || turn.now() < Timestamp(since).after(MISSING_AFTER) {
        let update = "UPDATE task SET missing = ?2 WHERE idx = ?1";
        turn.sql().execute(update, (task.index, missing))?;
        return Ok(());
    }
    let message = format!(
        "the provider acknowledged task `{}` and does not know it any more; what it still tells \
         of the task counts, and a retry has it made again",
        task.id
    );
    let error = TaskError { code: "provider_lost_task".into(), message };
    failed(turn, kept, task, &[TaskState::Submitted], &error)
}

/// Says how far a task is.
pub(super) fn went_on(turn: &ManagerTurn, task: &TaskRow, per_cent: Option<u8>) -> Result<()> {
    if 0 < task.missing {
        turn.sql().execute("UPDATE task SET missing = 0 WHERE idx = ?1", [task.index])?;
    }
    if task.state == TaskState::Submitted && per_cent.is_some() && per_cent != task.progress {
        let update = "UPDATE task SET progress = ?2 WHERE idx = ?1";
        turn.sql().execute(update, (task.index, per_cent))?;
        tell(turn, task.index)?;
    }
    Ok(())
}

/// The provider has made it, as the task of this id. An output that is ready or on its way stays
/// as it is, so that the provider may report it twice. A late success, after the timeout or after a
/// reported failure, counts. A success of an earlier round counts too while the task has no output;
/// the result of the later round is ignored then.
pub(super) fn made(
    turn: &ManagerTurn,
    kept: &Kept,
    task: &TaskRow,
    id: &str,
    made: Made,
) -> Result<()> {
    // It is paid for even if nobody wants it any more.
    if let Some(cost) = CountCost::of(&kept.workspace, id, &made) {
        turn.perform(&cost);
    }
    let from = [TaskState::Pending, TaskState::Submitted, TaskState::Failed];
    if kept.is_deleted || !change(turn, task, &from, TaskState::Streaming)? {
        // Nobody has to ask for its cost again.
        let is_unwanted = kept.is_deleted || task.state == TaskState::Cancelled;
        if is_unwanted && id == task.id && task.made.is_none() {
            set(turn, task, "made", &made)?;
        }
        return Ok(());
    }
    set(turn, task, "made", &made)?;
    fetch(turn, kept, task, id, made)?;
    if task.state == TaskState::Failed {
        publish(turn, kept)?;
    }
    tell(turn, task.index)
}

fn fetch(turn: &ManagerTurn, kept: &Kept, task: &TaskRow, id: &str, made: Made) -> Result<()> {
    let update = "UPDATE task SET madeBy = ?2, \
                  submittedAt = coalesce(submittedAt, ?3) WHERE idx = ?1";
    turn.sql().execute(update, (task.index, id, turn.now().0))?;
    let job = Fetch {
        provider: kept.request.provider.clone(),
        index: task.index,
        artifact: artifact_id(turn.name(), task.index),
        task: id.into(),
        generation: turn.name().into(),
        workspace: kept.workspace.clone(),
        made,
    };
    match is_here(&kept.request.provider) {
        true => turn.perform(&FetchHere(job)),
        false => turn.perform(&job),
    }
    Ok(())
}

/// It is made and paid for, and its bytes could not be had: that is tried again. `false` if they
/// are lost.
pub(super) fn fetch_again(turn: &ManagerTurn, kept: &Kept, task: &TaskRow) -> Result<bool> {
    let Some(made) = task.made.clone().filter(|_| task.may_be_fetched()) else {
        return Ok(false);
    };
    if change(turn, task, &[TaskState::Failed], TaskState::Streaming)? {
        fetch_made(turn, kept, task, made)?;
        tell(turn, task.index)?;
    }
    Ok(true)
}

/// Its workspace had no place to draw it: it is tried again at its next turn.
pub(super) fn fetch_later(turn: &ManagerTurn, task: &TaskRow, pause: Duration) {
    let again = FetchAgain { index: task.index };
    turn.set_alarm(&format!("fetch-{}", task.index), pause, again);
}

/// The turn of a task that waited for a place has come.
pub(super) fn fetch_now(turn: &ManagerTurn, kept: &Kept, task: &TaskRow) -> Result<()> {
    match task.made.clone().filter(|_| task.state == TaskState::Streaming) {
        Some(made) => fetch_made(turn, kept, task, made),
        None => Ok(()),
    }
}

fn fetch_made(turn: &ManagerTurn, kept: &Kept, task: &TaskRow, made: Made) -> Result<()> {
    let id = task.made_by.as_deref().unwrap_or(&task.id);
    fetch(turn, kept, task, id, made)
}

/// The output of an earlier round cannot be fetched: the round that it replaced is waited for
/// again, as long as there is time. `false` if there is none.
pub(super) fn wait_again(turn: &ManagerTurn, kept: &Kept, task: &TaskRow) -> Result<bool> {
    // Its error is still there if it had failed before.
    let is_open = task.error.is_none();
    let has_time = is_open && task.deadline(kept).is_none_or(|it| turn.now() < it);
    let to = if task.is_unsent { TaskState::Pending } else { TaskState::Submitted };
    if !has_time || !change(turn, task, &[TaskState::Streaming], to)? {
        return Ok(false);
    }
    turn.sql().execute("UPDATE task SET made = NULL WHERE idx = ?1", [task.index])?;
    // Its own success may have come meanwhile, so it is asked soon.
    ask_again(turn, 0, false)?;
    watch_time(turn, kept)?;
    tell(turn, task.index)?;
    Ok(true)
}

/// It came to nothing.
pub(super) fn failed(
    turn: &ManagerTurn,
    kept: &Kept,
    task: &TaskRow,
    from: &[TaskState],
    error: &TaskError,
) -> Result<()> {
    if change(turn, task, from, TaskState::Failed)? {
        set(turn, task, "error", error)?;
        tell(turn, task.index)?;
        publish(turn, kept)?;
    }
    Ok(())
}

/// The provider did not make a cancelled task: nobody has to ask for its cost again.
pub(super) fn failed_unwanted(turn: &ManagerTurn, task: &TaskRow, error: &TaskError) -> Result<()> {
    set(turn, task, "error", error)
}

/// Its blob is in the bucket: the artifact goes to the library. `false` if nobody wants it.
pub(super) fn ready(
    turn: &ManagerTurn,
    kept: &Kept,
    task: &TaskRow,
    fetched: &crate::Fetched,
) -> Result<bool> {
    if kept.is_deleted || !change(turn, task, &[TaskState::Streaming], TaskState::Ready)? {
        return Ok(task.state == TaskState::Ready && !kept.is_deleted);
    }
    set(turn, task, "fetched", fetched)?;
    let update = "UPDATE task SET readyAt = ?2, progress = 100, error = NULL WHERE idx = ?1";
    turn.sql().execute(update, (task.index, turn.now().0))?;
    // Subscribers are notified after the library has confirmed it.
    publish(turn, kept)?;
    Ok(true)
}

/// Nobody wants it any more. `false` if it was over before.
pub(super) fn cancelled(turn: &ManagerTurn, task: &TaskRow) -> Result<bool> {
    let from = [TaskState::Pending, TaskState::Submitted, TaskState::Streaming];
    let is_changed = change(turn, task, &from, TaskState::Cancelled)?;
    if is_changed {
        tell(turn, task.index)?;
    }
    Ok(is_changed)
}

/// Tells the library how it stands. Words have numbers, which say which is the last.
pub(super) fn publish(turn: &ManagerTurn, kept: &Kept) -> Result<()> {
    let tasks = rows::tasks(turn)?;
    let status = rows::status(&tasks);
    let completed_at = (status != GenerationStatus::Active).then(|| turn.now().0);
    let next = "UPDATE request SET told = told + 1, completedAt = ?1, completedTold = CASE \
                WHEN ?1 IS NULL THEN NULL WHEN completedAt IS NULL THEN told + 1 \
                ELSE completedTold END RETURNING told";
    let version: i64 = turn.sql().query_row(next, [completed_at], |row| row.get(0))?;
    let first = "UPDATE task SET readyTold = ?1 WHERE state = 'ready' AND readyTold IS NULL";
    turn.sql().execute(first, [version])?;
    let mut generation = rows::generation(turn, kept)?;
    generation.completed_at = completed_at;
    if completed_at.is_some() {
        for alarm in ["ask", "timeout"] {
            turn.cancel_alarm(alarm);
        }
        turn.set_alarm("forget", GRACE, Forget);
        if tasks.iter().any(TaskRow::may_still_come) {
            ask_late(turn, 0);
        }
        if kept.is_over() {
            tell_of_the_end(turn, kept)?;
        }
    } else {
        for alarm in ["forget", "late"] {
            turn.cancel_alarm(alarm);
        }
    }
    // Only the end and new artifacts have to be confirmed, and one alarm is enough for all of them.
    let is_needed = completed_at.is_some() || tasks.iter().any(|it| it.is_unconfirmed(kept));
    if is_needed && !turn.alarms()?.iter().any(|it| it.name == "confirm") {
        turn.set_alarm("confirm", CONFIRM_AFTER, Confirm { tried: 0 });
    }
    let changed = GenerationChanged { generation, version };
    turn.send(Library::at(&kept.workspace), changed);
    Ok(())
}
