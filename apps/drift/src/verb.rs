//! The verb `drift`: one comparison, begun, watched and told, with an exit code for CI.

mod report;

use std::{io::Write, process::ExitCode, time::Duration};

use serde::Deserialize;
use serde_json::json;
use steadfast_core::{
    Error, Result,
    store::{Clock, SystemClock},
};
use steadfast_web::{Ask, Cli, escaped, print, printable};
use tokio::runtime::Runtime;

use crate::{Shown, Status, diff::EnvDiff, envelope::SignalEnvelope, settings::CompareArgs};

/// How often it is looked at.
const PERIOD: Duration = Duration::from_millis(100);

/// A comparison could not be made: not the same as one that found something.
const NOT_COMPARED: u8 = 2;

/// The caller of this verb is the operator, who can change these settings.
const ALLOW: &str =
    "; allow it with --drift-hosts HOST, or with --drift-networks NETWORK for standard ports";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Begun {
    comparison_id: String,
}

/// Compares, tells, and says by the exit code how bad it is.
pub(crate) fn compare(cli: Cli<'_>, args: CompareArgs) -> Result<ExitCode> {
    let program = match &args.server {
        Some(url) => cli.server(url),
        None => crate::app(args.drift.clone()).and_then(|app| cli.here(app)),
    };
    let compared = program.and_then(|program| compare_with(&*program, &args));
    Ok(match compared {
        Ok(diff) if args.fail_on.is_some_and(|it| it.is_reached(diff.max_severity)) => {
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            let text = error.to_string();
            let is_blocked = args.server.is_none() && text.ends_with("(ssrf_blocked)");
            let advice = if is_blocked { ALLOW } else { "" };
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(std::io::stderr(), "error: {}{advice}", printable(&text));
            ExitCode::from(NOT_COMPARED)
        }
    })
}

fn compare_with(program: &dyn Ask, args: &CompareArgs) -> Result<EnvDiff> {
    let CompareArgs { left, right, left_label, right_label, json, .. } = args;
    let body = json!({
        "leftUrl": left, "rightUrl": right, "leftLabel": left_label, "rightLabel": right_label,
    });
    let begun = program.post("/api/compare", &body.to_string(), *json)?;
    let Begun { comparison_id } = serde_json::from_str(&begun)?;
    let (body, shown) = ended(program, &comparison_id, *json)?;
    if *json {
        print(&format!("{}\n", body.trim_end()))?;
    }
    let result = match (shown.status, shown.result) {
        (Status::Completed, Some(result)) => result,
        _ => {
            let error = shown.error.map(|it| format!("{} ({})", it.message, it.code));
            let text = error.unwrap_or_else(|| "no detail".into());
            return Err(Error::terminal(format!("the comparison failed: {text}")));
        }
    };
    if !json {
        print(&report::write(&result))?;
    }
    let answers =
        |it: &Option<SignalEnvelope>| it.as_ref().is_some_and(|it| it.result.response().is_some());
    if !answers(&result.left) && !answers(&result.right) {
        return Err(Error::terminal("neither side answered; nothing was compared"));
    }
    result.diff.ok_or_else(|| Error::terminal("the comparison has no result"))
}

/// Waits until a comparison has ended, and says what it does meanwhile.
fn ended(program: &dyn Ask, id: &str, json: bool) -> Result<(String, Shown)> {
    let waiting: Runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut told = None;
    loop {
        let body = program.get(&format!("/api/compare/{}", escaped(id)), json)?;
        let shown: Shown = serde_json::from_str(&body)?;
        if shown.status != Status::Running {
            return Ok((body, shown));
        }
        if shown.step != told
            && let Some(step) = &shown.step
        {
            // A closed stderr changes nothing.
            let _ = writeln!(std::io::stderr(), "{} …", printable(step));
        }
        told = shown.step;
        waiting.block_on(SystemClock.sleep(PERIOD));
    }
}
