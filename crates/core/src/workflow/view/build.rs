//! Builds views from the fold of the record; only attempts in flight come from memory. Steps are
//! shown by time, with the steps of a branch together; a blocked run says why, and what to do.

use std::collections::BTreeMap;

use steadfast_store::{Address, Timestamp, Version, sort::sort_by_key};

use super::{
    AttemptView, EventView, FailureView, LiveState, ProgressView, RunView, StepView, WaitView,
};
use crate::{
    body::Time,
    workflow::{
        ctx,
        fold::{AttemptRecord, RunFold, StepRecord, StepResult},
        record::{Key, Report, Wait},
        state::AttemptInFlight,
        status::{Phase, Status, StepStatus},
    },
};

impl RunView {
    pub(in crate::workflow) fn of(fold: &RunFold, run: &Address, live: &LiveState) -> Self {
        let can_continue = matches!(fold.head.status, Status::Queued | Status::Waiting);
        let status = match can_continue && live.in_flight.is_some() {
            true => Phase::Running,
            false => Phase::of(&fold.head.status),
        };
        let waiting = waiting_for(fold, run, live);
        let (output, error, report) = match &fold.head.status {
            Status::Complete(output) => (Some(output.clone()), None, None),
            Status::Errored(error) => (None, Some(FailureView::of(error)), None),
            Status::Paused(report) => (None, None, report.clone()),
            Status::Queued | Status::Running | Status::Waiting | Status::Terminated => {
                (None, None, None)
            }
        };
        RunView {
            id: run.name().into(),
            workflow: run.class().into(),
            status,
            input: fold.input.clone(),
            output,
            error,
            report,
            created_at: Time(fold.created_at),
            changed_at: Time(fold.changed_at),
            ended_at: fold.ended_at.map(Time),
            progress: ProgressView::of(fold, live, status, &waiting),
            steps: steps(fold, live),
            waiting,
            events: events(fold),
            restarts: fold.generation,
            version: fold.head.version,
        }
    }
}

impl ProgressView {
    fn of(fold: &RunFold, live: &LiveState, status: Phase, waiting: &[WaitView]) -> Self {
        // In short form.
        let label = |key: &Key| if key.name.is_empty() { &key.kind } else { &key.name }.clone();
        let in_flight = live.in_flight.iter().flatten().map(|it| label(&it.key)).next();
        let waited = || waiting.iter().map(|it| &it.name).find(|it| !it.is_empty()).cloned();
        let last = || fold.steps.last().map(|it| label(&it.key));
        let own = live.progress.as_ref().or(fold.progress.as_ref());
        Self {
            status,
            step: in_flight.or_else(waited).or_else(last),
            message: own.map(|it| it.message.clone()),
            percent: own.and_then(|it| it.percent),
        }
    }
}

/// Events that the run has not taken, in the order in which they came.
fn events(fold: &RunFold) -> Vec<EventView> {
    let untaken = fold.events.iter();
    let mut all: Vec<(Version, EventView)> = untaken
        .flat_map(|(name, queue)| queue.iter().map(move |it| (name, it)))
        .map(|(name, it)| {
            let (name, payload) = (name.clone(), it.payload.clone());
            (it.version, EventView { name, at: Time(it.at), payload })
        })
        .collect();
    sort_by_key(&mut all, |it| it.0);
    all.into_iter().map(|it| it.1).collect()
}

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
    let mut steps = arrange(steps);
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
            && key.scope.starts_with(&ctx::within(&it.key))
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
    let scope = ctx::within(key);
    let inner = fold.steps.iter().filter(|it| it.key.scope.starts_with(&scope));
    inner.map(|it| it.began_at).fold(began_at, Timestamp::min)
}

/// A step outside of branches, or a combination with its branches.
struct Group {
    at: i64,
    steps: Vec<StepView>,
}

/// Puts steps in order.
pub(super) fn arrange(steps: Vec<StepView>) -> Vec<StepView> {
    arrange_branch("", steps)
}

/// Those of one branch and of all that begin in it.
fn arrange_branch(scope: &str, steps: Vec<StepView>) -> Vec<StepView> {
    let mut groups = Vec::new();
    let mut combined: BTreeMap<String, Vec<StepView>> = BTreeMap::new();
    for step in steps {
        match combination(scope, &step) {
            Some(key) => combined.entry(key).or_default().push(step),
            None => groups.push(Group { at: step.started_at.0.0, steps: vec![step] }),
        }
    }
    groups.extend(combined.into_values().map(|steps| branches(scope, steps)));
    // Stable: what began in the same millisecond stays as it was recorded.
    sort_by_key(&mut groups, |it| it.at);
    groups.into_iter().flat_map(|it| it.steps).collect()
}

/// One combination: itself, if it is recorded, then its branches by their number.
fn branches(scope: &str, steps: Vec<StepView>) -> Group {
    let at = steps.iter().map(|it| it.started_at.0.0).min().unwrap_or(0);
    let mut own = Vec::new();
    let mut branches: BTreeMap<(usize, String), Vec<StepView>> = BTreeMap::new();
    for step in steps {
        match step.branch.get(scope.len()..).filter(|it| !it.is_empty()) {
            None => own.push(step),
            Some(rest) => {
                let branch = rest.split('/').next().unwrap_or(rest);
                let number = branch.rsplit('.').next().and_then(|it| it.parse().ok());
                let key = (number.unwrap_or(0), format!("{scope}{branch}/"));
                branches.entry(key).or_default().push(step);
            }
        }
    }
    own.extend(branches.into_iter().flat_map(|((_, scope), steps)| arrange_branch(&scope, steps)));
    Group { at, steps: own }
}

/// The combination that a step belongs to, seen from a branch; `None` for one of the branch itself.
fn combination(scope: &str, step: &StepView) -> Option<String> {
    let rest = step.branch.get(scope.len()..).unwrap_or_default();
    if !rest.is_empty() {
        let branch = rest.split('/').next().unwrap_or(rest);
        return Some(branch.rsplit_once('.').map_or(branch, |it| it.0).to_owned());
    }
    let StepView { kind, name, count, .. } = step;
    (kind == "select").then(|| format!("{kind}{name}#{count}"))
}

/// Characters of an error in a sentence.
const ERROR_MAX: usize = 300;

/// The reasons. There is at least one unless the run is active or has ended.
pub(super) fn waiting_for(fold: &RunFold, run: &Address, live: &LiveState) -> Vec<WaitView> {
    match &fold.head.status {
        Status::Complete(_) | Status::Errored(_) | Status::Terminated => Vec::new(),
        Status::Paused(Some(report)) => vec![plain("report", stuck(report))],
        Status::Paused(None) => {
            let since = fold.head.paused_at.map(Time).map(|it| format!(" since {it}"));
            let since = since.unwrap_or_default();
            vec![plain("pause", format!("paused by an operator{since}; resume it"))]
        }
        Status::Queued | Status::Running | Status::Waiting => match &live.in_flight {
            Some(_) => retries(fold, live),
            None => blocked(fold, run, live),
        },
    }
}

/// Why a run that could continue is not active.
fn blocked(fold: &RunFold, run: &Address, live: &LiveState) -> Vec<WaitView> {
    let workflow = run.class();
    if !live.served {
        let why = format!(
            "no program that has the workflow `{workflow}` is running on this store; start one"
        );
        return vec![plain("program", why)];
    }
    // Its waits from before the wake-up do not block it.
    let waits: &[Wait] = match fold.head.status == Status::Waiting {
        true => &fold.waits,
        false => &[],
    };
    if waits.is_empty() {
        let (running, of) = (live.running, if live.running == 1 { "run" } else { "runs" });
        let why = format!("queued: waits for capacity; {running} {of} of `{workflow}` are active");
        return vec![plain("queue", why)];
    }
    waits.iter().map(|it| reason(fold, run, it, live.now)).collect()
}

/// Attempts that are due later, while other branches continue.
fn retries(fold: &RunFold, live: &LiveState) -> Vec<WaitView> {
    let is_under_way = |key: &Key| live.in_flight.iter().flatten().any(|it| it.key == *key);
    let steps = fold.steps.iter().filter(|it| !is_under_way(&it.key));
    steps
        .filter_map(|it| {
            let failed = failed(fold, &it.key, it.retry_at?)?;
            Some(wait_view(&it.key, it.retry_at, failed))
        })
        .collect()
}

fn reason(fold: &RunFold, run: &Address, wait: &Wait, now: Timestamp) -> WaitView {
    let Wait { key, until } = wait;
    let until = until.map(Timestamp);
    let why = match (key.kind.as_str(), until) {
        ("event", _) => {
            let (workflow, id, name) = (run.class(), run.name(), &key.name);
            let most = until.map(|it| format!(", until {} at most", Time(it)));
            format!(
                "waits for the event `{name}`{}; send it with POST \
                 /v1/workflows/{workflow}/runs/{id}/events/{name}",
                most.unwrap_or_default()
            )
        }
        ("sleep", Some(due)) => format!("sleeps `{}` until {}", key.name, Time(due)),
        (_, Some(due)) => {
            failed(fold, key, due).unwrap_or_else(|| format!("waits for {key} until {}", Time(due)))
        }
        (_, None) => format!("waits for {key}"),
    };
    let is_due = until.is_some_and(|it| it <= now);
    let due = if is_due { ", which is over: it waits for capacity" } else { "" };
    wait_view(key, until, format!("{why}{due}"))
}

/// The failures of a step, the last error, and the next attempt.
fn failed(fold: &RunFold, key: &Key, due: Timestamp) -> Option<String> {
    let last = fold.step(key)?.attempts.last()?;
    let (error, number) = (last.error.as_ref()?, last.attempt.number);
    let times = if number == 1 { "once".into() } else { format!("{number} times") };
    let message: String = error.to_string().chars().take(ERROR_MAX).collect();
    let text = format!("{}: {message}", error.code());
    Some(format!("{key} failed {times} ({text}); the next attempt is at {}", Time(due)))
}

fn stuck(report: &Report) -> String {
    let Report { reason, position, expected, found, line } = report;
    let mut text = reason.clone();
    if let (Some(expected), Some(found)) = (expected, found) {
        text = format!("{text}: the record has {expected}, the code has {found}");
    }
    if let Some(position) = position {
        text = format!("{text}, at position {position}");
    }
    line.as_ref().map_or(text.clone(), |it| format!("{text} ({it})"))
}

fn wait_view(key: &Key, until: Option<Timestamp>, why: String) -> WaitView {
    WaitView { kind: key.kind.clone(), name: key.name.clone(), until: until.map(Time), why }
}

fn plain(kind: &str, why: String) -> WaitView {
    WaitView { kind: kind.into(), name: String::new(), until: None, why }
}
