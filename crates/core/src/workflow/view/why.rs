//! Why a run is blocked, as sentences with a next step.

use steadfast_store::{Address, Timestamp};

use super::{LiveState, Time, WaitView};
use crate::workflow::{
    Status,
    fold::RunFold,
    record::{Key, Report, Wait},
};

/// Characters of an error in a sentence.
const ERROR_MAX: usize = 300;

/// The reasons. There is at least one unless the run is active or has ended.
pub(super) fn waiting(fold: &RunFold, run: &Address, live: &LiveState) -> Vec<WaitView> {
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
            Some(view(&it.key, it.retry_at, failed))
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
    view(key, until, format!("{why}{due}"))
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

fn view(key: &Key, until: Option<Timestamp>, why: String) -> WaitView {
    WaitView { kind: key.kind.clone(), name: key.name.clone(), until: until.map(Time), why }
}

fn plain(kind: &str, why: String) -> WaitView {
    WaitView { kind: kind.into(), name: String::new(), until: None, why }
}
