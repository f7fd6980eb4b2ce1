//! The activity of a step over time, for bars in pages and terminals.

use steadfast_core::workflow::{RunView, StepStatus, StepView};
use steadfast_store::Timestamp;

/// The activity of a step during a part of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Waiting for a time, an event, the next attempt, or its branches.
    Waiting,
    /// A successful attempt.
    Succeeded,
    /// A failed attempt.
    Failed,
    /// An attempt in progress.
    Running,
    /// Cancelled.
    Cancelled,
}

/// A part of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) activity: Activity,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// The time range of all bars of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Range {
    /// From the start of the run to its end, or to now.
    pub(crate) fn of(run: &RunView, now: Timestamp) -> Self {
        let from = run.steps.iter().map(|it| it.started_at.0.0).min();
        let from = from.map_or(run.created_at.0.0, |it| it.min(run.created_at.0.0));
        let to = run.ended_at.map_or(now.0, |it| it.0.0).max(run.changed_at.0.0);
        Self { from, to: to.max(from + 1) }
    }

    /// The position of a time in the range, from 0 to 1.
    pub(crate) fn position(self, at: i64) -> f64 {
        let (at, whole) = (at.saturating_sub(self.from), self.to.saturating_sub(self.from));
        (at as f64 / whole as f64).clamp(0.0, 1.0)
    }
}

/// The parts of a step's bar, in order.
pub(crate) fn spans(step: &StepView, range: Range) -> Vec<Span> {
    let (start, end) = (step.started_at.0.0, step.ended_at.map_or(range.to, |it| it.0.0));
    let whole = |activity| vec![Span { activity, from: start, to: end.max(start) }];
    if step.status == StepStatus::Dropped && step.attempts.is_empty() {
        return whole(Activity::Cancelled);
    }
    if step.attempts.is_empty() {
        let waits = matches!(step.kind.as_str(), "sleep" | "event" | "select");
        return whole(match (waits, step.status) {
            (true, _) => Activity::Waiting,
            (false, StepStatus::Running) => Activity::Running,
            (false, StepStatus::Failed) => Activity::Failed,
            (false, StepStatus::Waiting | StepStatus::Retrying) => Activity::Waiting,
            (false, StepStatus::Done | StepStatus::Dropped) => Activity::Succeeded,
        });
    }
    let (mut spans, mut at) = (Vec::new(), start);
    for it in &step.attempts {
        let from = it.started_at.0.0;
        if at < from {
            spans.push(Span { activity: Activity::Waiting, from: at, to: from });
        }
        at = it.ended_at.map_or(end, |it| it.0.0).max(from);
        let activity = match (&it.error, it.ended_at) {
            (Some(_), _) => Activity::Failed,
            (None, Some(_)) => Activity::Succeeded,
            (None, None) => Activity::Running,
        };
        spans.push(Span { activity, from, to: at });
    }
    if at < end && !matches!(step.status, StepStatus::Done | StepStatus::Failed) {
        spans.push(Span { activity: Activity::Waiting, from: at, to: end });
    }
    spans
}

/// The label of a step: its kind and its name.
pub(crate) fn label(step: &StepView) -> String {
    let StepView { kind, name, count, .. } = step;
    let named = if name.is_empty() { kind.clone() } else { format!("{kind} {name}") };
    if *count == 1 { named } else { format!("{named} ({count})") }
}

/// The depth of a step in branches.
pub(crate) fn depth(step: &StepView) -> usize {
    step.branch.split('/').filter(|it| !it.is_empty()).count()
}

/// A duration in milliseconds for people: see [`words`].
pub(crate) fn words_of(millis: u64) -> String {
    words(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// A duration for people, in its two largest units.
pub(crate) fn words(millis: i64) -> String {
    let millis = millis.max(0);
    let (seconds, minutes, hours) = (millis / 1_000, millis / 60_000, millis / 3_600_000);
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{:.1} s", millis as f64 / 1_000.0),
        60_000..3_600_000 => format!("{minutes} min {} s", seconds % 60),
        3_600_000..86_400_000 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn step(attempts: serde_json::Value, status: &str) -> StepView {
        let time = |millis: i64| format!("1970-01-01T00:00:00.{millis:03}Z");
        serde_json::from_value(json!({
            "name": "a", "kind": "step", "branch": "map#1.0/join#1.1", "count": 2,
            "status": status, "startedAt": time(10), "attempts": attempts,
        }))
        .unwrap()
    }

    #[test]
    fn attempts_are_separate_parts_with_waits_between() {
        let attempts = json!([
            { "number": 1, "startedAt": "1970-01-01T00:00:00.010Z",
              "endedAt": "1970-01-01T00:00:00.020Z", "error": { "code": "x", "message": "y" } },
            { "number": 2, "startedAt": "1970-01-01T00:00:00.030Z" },
        ]);
        let range = Range { from: 0, to: 100 };
        let parts = |step| {
            let spans: Vec<Span> = spans(&step, range);
            spans.iter().map(|it| (it.activity, it.from, it.to)).collect::<Vec<_>>()
        };
        let expected =
            [(Activity::Failed, 10, 20), (Activity::Waiting, 20, 30), (Activity::Running, 30, 100)];
        assert_eq!(parts(step(attempts.clone(), "running")), expected);
        let retrying = step(json!([attempts[0]]), "retrying");
        assert_eq!(parts(retrying), [(Activity::Failed, 10, 20), (Activity::Waiting, 20, 100)]);
        assert_eq!(parts(step(json!([]), "dropped")), [(Activity::Cancelled, 10, 100)]);
    }

    #[test]
    fn a_step_is_labelled_by_kind_name_and_count() {
        let step = step(json!([]), "done");
        assert_eq!((label(&step).as_str(), depth(&step)), ("step a (2)", 2));
    }

    #[test]
    fn a_duration_has_its_two_largest_units() {
        for (millis, said) in [
            (-1, "0 ms"),
            (999, "999 ms"),
            (1_500, "1.5 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
            (30 * 86_400_000, "30 d 0 h"),
        ] {
            assert_eq!(words(millis), said);
        }
    }
}
