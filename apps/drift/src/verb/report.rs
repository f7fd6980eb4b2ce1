//! A comparison for people: what differs, the worst first, why that may be, and what to do.

use std::fmt::Write;

use steadfast_web::printable;

use crate::{CompareResult, diff::EnvDiff, explain::Explanation, trend::Trend};

/// Values longer than this are cut.
const VALUE_MAX: usize = 100;

/// The whole report.
pub(super) fn write(result: &CompareResult) -> String {
    let mut out = String::new();
    if let Some(diff) = &result.diff {
        findings(&mut out, diff, result.trend.as_ref());
    }
    match (&result.explanation, &result.explanation_error) {
        (Some(it), _) => explanation(&mut out, it),
        (None, Some(error)) => {
            let _ =
                writeln!(out, "\nNot explained: {} ({})", printable(&error.message), error.code);
        }
        (None, None) => {}
    }
    out
}

fn findings(out: &mut String, diff: &EnvDiff, trend: Option<&Trend>) {
    let count = diff.findings.len();
    let text = match count {
        0 => "No differences.".to_owned(),
        1 => format!("1 difference, {}.", diff.max_severity.as_str()),
        _ => format!("{count} differences, the worst is {}.", diff.max_severity.as_str()),
    };
    // A string takes whatever is written to it.
    let _ = writeln!(out, "{text}");
    for finding in &diff.findings {
        let is_new = trend.is_some_and(|it| it.new.contains(&finding.id));
        let mark = if is_new { "  (new)" } else { "" };
        let (severity, message) = (finding.severity.as_str(), printable(&finding.message));
        let _ = writeln!(out, "\n{severity:<8}  {message}{mark}");
        for (side, value) in [("left", &finding.left_value), ("right", &finding.right_value)] {
            if let Some(value) = value {
                let _ = writeln!(out, "          {side:<5}  {}", short(value));
            }
        }
        for advice in &finding.recommendations {
            let _ = writeln!(out, "          fix    {}", printable(advice));
        }
    }
    for gone in trend.map(|it| it.resolved.as_slice()).unwrap_or_default() {
        let _ = writeln!(out, "\nresolved  {}", printable(&gone.message));
    }
}

fn explanation(out: &mut String, explanation: &Explanation) {
    let _ = writeln!(out, "\n{}", printable(&explanation.summary));
    for cause in &explanation.ranked_causes {
        let percent = 100.0 * cause.confidence;
        let _ = writeln!(out, "  {percent:>3.0} %  {}", printable(&cause.cause));
        for evidence in &cause.evidence {
            let _ = writeln!(out, "         {}", printable(evidence));
        }
    }
    for action in &explanation.actions {
        let _ = writeln!(out, "  next   {}", printable(&action.action));
    }
    for note in &explanation.notes {
        let _ = writeln!(out, "  note   {}", printable(note));
    }
}

fn short(value: &str) -> String {
    let value = printable(value);
    match value.char_indices().nth(VALUE_MAX) {
        None => value,
        Some((at, _)) => format!("{}…", &value[..at]),
    }
}
