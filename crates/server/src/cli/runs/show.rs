//! `steadfast runs show`: the steps of a run over time, in text.

use steadfast_core::workflow::{RunView, StepStatus, StepView};
use steadfast_store::{Clock, SystemClock};

use crate::{
    cli::table::Table,
    waterfall::{Activity, Range, depth, label, spans, words},
};

/// Columns of a bar.
const BAR: usize = 40;

/// Maximum characters of a value in a line.
const VALUE_MAX: usize = 200;

/// One run.
pub(super) fn show(run: &RunView) -> String {
    let range = Range::of(run, SystemClock.now());
    let mut text = facts(run, range);
    if !run.steps.is_empty() {
        text.push_str(&format!("\n{}", steps(run, range)));
    }
    if !run.waiting.is_empty() {
        let mut table = Table::new(&["BLOCKED ON"]);
        run.waiting.iter().for_each(|it| table.row([it.why.clone()]));
        text.push_str(&format!("\n{}", table.write()));
    }
    if !run.events.is_empty() {
        let mut table = Table::new(&["UNREAD EVENT", "RECEIVED", "PAYLOAD"]);
        for it in &run.events {
            table.row([it.name.clone(), it.at.to_string(), short(&it.payload.to_string())]);
        }
        text.push_str(&format!("\n{}", table.write()));
    }
    text
}

fn facts(run: &RunView, range: Range) -> String {
    let address = format!("{}/{}", run.workflow, run.id);
    let mut table = Table::new(&["run", &address]);
    let mut fact = |name: &str, text: String| table.row([name.into(), text]);
    fact("status", run.status.word().into());
    if let Some(message) = &run.progress.message {
        let percent = run.progress.percent.map_or(String::new(), |it| format!(" ({it} %)"));
        fact("progress", format!("{message}{percent}"));
    }
    let end = run.ended_at.map_or("not yet".to_owned(), |it| it.to_string());
    fact("started", run.created_at.to_string());
    fact("ended", end);
    let took = if run.ended_at.is_some() { "took" } else { "so far" };
    fact(took, words(range.to - run.created_at.0.0));
    if 0 < run.restarts {
        fact("restarts", run.restarts.to_string());
    }
    fact("input", short(&run.input.to_string()));
    if let Some(output) = &run.output {
        fact("output", short(&output.to_string()));
    }
    if let Some(error) = &run.error {
        fact("error", format!("{} ({})", error.message, error.code));
    }
    table.write()
}

/// One line per step: `=` worked, `x` failed, `>` running, `.` waiting, `-` cancelled.
fn steps(run: &RunView, range: Range) -> String {
    let branched = run.steps.iter().any(|it| !it.branch.is_empty());
    let mut headings = vec!["STEP", "STATUS", "TIME", "TOOK", "ATTEMPTS", "NOTE"];
    if branched {
        headings.insert(1, "BRANCH");
    }
    let mut table = Table::new(&headings);
    for it in &run.steps {
        let took = it.ended_at.map_or(range.to, |it| it.0.0) - it.started_at.0.0;
        let tried = it.attempts.last().map_or("-".to_owned(), |it| it.number.to_string());
        let name = format!("{}{}", "  ".repeat(depth(it)), label(it));
        let mut cells = vec![
            name,
            it.status.word().into(),
            format!("|{}|", bar(it, range)),
            words(took),
            tried,
            note(it),
        ];
        if branched {
            let branch = if it.branch.is_empty() { "-" } else { &it.branch };
            cells.insert(1, branch.into());
        }
        table.row(cells);
    }
    table.write()
}

fn bar(step: &StepView, range: Range) -> String {
    let mut cells = [' '; BAR];
    for span in spans(step, range) {
        let sign = match span.activity {
            Activity::Waiting => '.',
            Activity::Succeeded => '=',
            Activity::Failed => 'x',
            Activity::Running => '>',
            Activity::Cancelled => '-',
        };
        let cell = |at: i64| ((range.position(at) * BAR as f64) as usize).min(BAR - 1);
        let (from, to) = (cell(span.from), cell(span.to));
        cells[from..=to].fill(sign);
    }
    cells.iter().collect()
}

fn note(step: &StepView) -> String {
    let until = step.until.map(|it| it.to_string()).unwrap_or_default();
    let error = step.error.as_ref().map(|it| format!("{}: {}", it.code, it.message));
    let error = error.map(|it| short(&it)).unwrap_or_default();
    let input = step.input.as_ref().map(|it| {
        let message = it.message.as_ref().map(|it| format!(" {}", short(&it.to_string())));
        format!("{}{}", it.to, message.unwrap_or_default())
    });
    match step.status {
        StepStatus::Retrying => format!("{error}; next attempt at {until}"),
        StepStatus::Failed => error,
        StepStatus::Waiting if !until.is_empty() => format!("until {until}"),
        // Most values are short; `--json` prints long ones.
        StepStatus::Done => {
            let output = step.output.as_ref().filter(|it| !it.is_null());
            let output = output.map(|it| short(&it.to_string()));
            input.into_iter().chain(output).collect::<Vec<_>>().join(" → ")
        }
        StepStatus::Waiting | StepStatus::Running | StepStatus::Dropped => String::new(),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}… (--json shows all)", &text[..end]),
        None => text.to_owned(),
    }
}
