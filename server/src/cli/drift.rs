//! `steadfast drift`: one comparison, begun, watched and told, with an exit code for CI.

mod report;

use std::{io::Write, process::ExitCode, time::Duration};

use serde::Deserialize;
use serde_json::json;
use steadfast_drift::{Shown, Status, diff::EnvDiff, envelope::SignalEnvelope};
use steadfast_store::{Clock, SystemClock};
use tokio::runtime::Runtime;

use super::{client::Client, output};
use crate::{
    args::{CompareArgs, Source},
    escape::escaped,
    failure::Failure,
};

/// How often it is looked at.
const PERIOD: Duration = Duration::from_millis(100);

/// A comparison could not be made: not the same as one that found something.
const NOT_COMPARED: u8 = 2;

/// Here, whoever asks is the operator.
const ALLOW: &str =
    "; that is you: --drift-hosts HOST, or --drift-networks NETWORK for usual ports";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Begun {
    comparison_id: String,
}

/// Compares, tells, and says by the exit code how bad it is.
pub(crate) fn compare(args: &CompareArgs, source: Source) -> ExitCode {
    let is_here = source == Source::Here;
    let client = match source {
        Source::Here => Client::here(&args.drift),
        Source::Server(_) | Source::Folder(_) => Client::open(source),
    };
    let compared = client.and_then(|client| {
        let compared = compare_with(&client, args);
        client.close();
        compared
    });
    match compared {
        Ok(diff) if args.fail_on.is_some_and(|it| it.is_reached(diff.max_severity)) => {
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Failure::Told(text) = failure {
                let is_blocked = is_here && text.ends_with("(ssrf_blocked)");
                let advice = if is_blocked { ALLOW } else { "" };
                // Nobody is left to tell if stderr is closed.
                let _ = writeln!(std::io::stderr(), "error: {text}{advice}");
            }
            ExitCode::from(NOT_COMPARED)
        }
    }
}

fn compare_with(client: &Client, args: &CompareArgs) -> Result<EnvDiff, Failure> {
    let CompareArgs { left, right, left_label, right_label, json, .. } = args;
    let body = json!({
        "leftUrl": left, "rightUrl": right, "leftLabel": left_label, "rightLabel": right_label,
    });
    let begun = client.post("/api/compare", Some(&body.to_string()), None, *json)?;
    let Begun { comparison_id } = client.read(&begun)?;
    let (body, shown) = ended(client, &comparison_id, *json)?;
    if *json {
        output::print_json(&body)?;
    }
    let result = match (shown.status, shown.result) {
        (Status::Completed, Some(result)) => result,
        _ => {
            let error = shown.error.map(|it| format!("{} ({})", it.message, it.code));
            let text = error.unwrap_or_else(|| "it says no more".into());
            return Err(Failure::new(format!("the comparison failed: {text}")));
        }
    };
    if !json {
        output::print(&report::write(&result))?;
    }
    let answers =
        |it: &Option<SignalEnvelope>| it.as_ref().is_some_and(|it| it.result.response().is_some());
    if !answers(&result.left) && !answers(&result.right) {
        return Err(Failure::new("neither side answered, so nothing was compared"));
    }
    result.diff.ok_or_else(|| Failure::new("the comparison has no result"))
}

/// Waits until a comparison has ended, and says what it does meanwhile.
fn ended(client: &Client, id: &str, json: bool) -> Result<(String, Shown), Failure> {
    let waiting: Runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let mut told = None;
    loop {
        let body = client.get(&format!("/api/compare/{}", escaped(id)), json)?;
        let shown: Shown = client.read(&body)?;
        if shown.status != Status::Running {
            return Ok((body, shown));
        }
        if shown.step != told
            && let Some(step) = &shown.step
        {
            // Whoever does not listen is none the worse.
            let _ = writeln!(std::io::stderr(), "{step} …");
        }
        told = shown.step;
        waiting.block_on(SystemClock.sleep(PERIOD));
    }
}
