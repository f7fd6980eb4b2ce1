//! The steps of a run in a view: the status and times of each.

use steadfast_store::Timestamp;

use super::{AttemptInFlight, AttemptView, FailureView, LiveState, StepView, Time, order};
use crate::workflow::{
    StepStatus, branch,
    fold::{AttemptRecord, RunFold, StepRecord, StepResult},
    record::Key,
};

/// All of them; the steps of a branch are together.
pub(super) fn steps(fold: &RunFold, live: &LiveState) -> Vec<StepView> {
    let in_flight = || live.in_flight.iter().flatten().filter(|it| !has_ended(fold, it));
    let recorded = fold.steps.iter().map(|it| {
        let now = in_flight().find(|now| now.key == it.key);
        let view = view(fold, &it.key, it.began_at, live, now.is_some());
        with_attempts(view, &it.attempts, now)
    });
    let mut steps: Vec<StepView> = recorded.collect();
    for it in in_flight().filter(|it| fold.step(&it.key).is_none()) {
        let view = view(fold, &it.key, it.began_at, live, true);
        steps.push(with_attempts(view, &[], Some(it)));
    }
    let mut steps = order::arrange(steps);
    steps.iter_mut().for_each(|it| it.branch.truncate(it.branch.trim_end_matches('/').len()));
    steps
}

/// Whether an attempt that was in flight a moment ago is recorded by now.
fn has_ended(fold: &RunFold, now: &AttemptInFlight) -> bool {
    let is_it = |it: &AttemptRecord| {
        (it.attempt.number, it.attempt.began_at) == (now.attempt, now.began_at.0)
    };
    fold.step(&now.key).is_some_and(|it| it.attempts.iter().any(is_it))
}

/// One step without its attempts.
fn view(
    fold: &RunFold,
    key: &Key,
    began_at: Timestamp,
    live: &LiveState,
    is_under_way: bool,
) -> StepView {
    let (status, until, ended_at) = status_of(fold, key, live, is_under_way);
    let (output, error) = match fold.result(key) {
        Some(StepResult::Value(value)) => (Some(value.clone()), None),
        Some(StepResult::Failed(error)) => (None, Some(FailureView::of(error))),
        Some(StepResult::Timer(_)) | None => (None, None),
    };
    StepView {
        name: key.name.clone(),
        kind: key.kind.clone(),
        branch: key.scope.clone(),
        count: key.count,
        status,
        started_at: Time(began(fold, key, began_at)),
        ended_at: ended_at.map(Time),
        until: until.map(Time),
        input: fold.input_of(key).cloned(),
        output,
        error,
        attempts: Vec::new(),
    }
}

fn with_attempts(
    mut view: StepView,
    recorded: &[AttemptRecord],
    now: Option<&AttemptInFlight>,
) -> StepView {
    let error = |it: &AttemptRecord| it.error.as_ref().map(FailureView::of);
    view.error = view.error.or_else(|| error(recorded.last()?));
    let ended = recorded.iter().map(|it| AttemptView {
        number: it.attempt.number,
        started_at: Time(Timestamp(it.attempt.began_at)),
        ended_at: Some(Time(it.ended_at)),
        error: error(it),
    });
    let now = now.map(|it| AttemptView {
        number: it.attempt,
        started_at: Time(it.began_at),
        ended_at: None,
        error: None,
    });
    view.attempts = ended.chain(now).collect();
    view
}

/// The status of a step, the end of its wait, and its end.
fn status_of(
    fold: &RunFold,
    key: &Key,
    live: &LiveState,
    is_under_way: bool,
) -> (StepStatus, Option<Timestamp>, Option<Timestamp>) {
    let closed = closed(fold, key);
    let step = fold.step(key);
    let ended_at = step.and_then(|it| it.ended_at);
    match fold.result(key) {
        Some(StepResult::Value(_)) => return (StepStatus::Done, None, ended_at),
        Some(StepResult::Failed(_)) => return (StepStatus::Failed, None, ended_at),
        Some(StepResult::Timer(due)) => {
            // While the run is paused its timers do not advance.
            let now = closed.or(fold.head.paused_at).unwrap_or(live.now);
            // The branch continues when the timer is over.
            let later = fold.branch(&key.scope).skip_while(|it| it.key != *key).nth(1);
            if *due <= now || later.is_some() {
                let ended = later.map_or(*due, |it| it.began_at.min(*due));
                return (StepStatus::Done, Some(*due), Some(ended));
            }
            let status = closed.map_or(StepStatus::Waiting, |_| StepStatus::Dropped);
            return (status, Some(*due), closed);
        }
        None => {}
    }
    match (is_under_way, closed, step.and_then(|it| it.retry_at)) {
        (true, _, _) => (StepStatus::Running, None, None),
        (false, Some(at), _) => (StepStatus::Dropped, None, Some(at)),
        (false, None, Some(at)) => (StepStatus::Retrying, Some(at), None),
        (false, None, None) => (StepStatus::Waiting, None, None),
    }
}

/// When the run ended, or the combination around a branch was decided.
fn closed(fold: &RunFold, key: &Key) -> Option<Timestamp> {
    let decides = |it: &&StepRecord| {
        it.key.kind == "select"
            && it.ended_at.is_some()
            && key.scope.starts_with(&branch::within(&it.key))
    };
    let decided = match key.scope.is_empty() {
        true => None,
        false => fold.steps.iter().filter(decides).filter_map(|it| it.ended_at).min(),
    };
    decided.or(fold.ended_at)
}

/// When it began: a combination with the first step of its branches.
fn began(fold: &RunFold, key: &Key, began_at: Timestamp) -> Timestamp {
    if key.kind != "select" {
        return began_at;
    }
    let scope = branch::within(key);
    let inner = fold.steps.iter().filter(|it| it.key.scope.starts_with(&scope));
    inner.map(|it| it.began_at).fold(began_at, Timestamp::min)
}
