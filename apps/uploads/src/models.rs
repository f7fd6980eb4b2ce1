//! The verb `models pull`.

use std::{
    io::{IsTerminal, Write},
    process::ExitCode,
};

use steadfast_core::{Error, Result};
use steadfast_resnet::{Progress, Stage, pull};

use crate::{
    classifier::models_folder,
    settings::{ModelsArgs, ModelsVerb},
};

/// Fetches a model, and says how far it is.
pub(crate) fn run(args: ModelsArgs) -> Result<ExitCode> {
    let ModelsVerb::Pull(args) = args.verb;
    let nowhere = "there is no home folder for models; name one with --models DIR";
    let models = models_folder(args.models.as_ref()).ok_or_else(|| Error::terminal(nowhere))?;
    let is_terminal = std::io::stderr().is_terminal();
    let last = std::cell::Cell::new((None, 0));
    let told = |progress: Progress| {
        let now = (Some(progress.stage), progress.percent);
        if last.replace(now) != now {
            tell(progress, is_terminal);
        }
    };
    pull(&models, args.from.as_deref(), told).map_err(Error::terminal)?;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{} is in {}", args.model, models.display());
    Ok(ExitCode::SUCCESS)
}

/// A bar on a terminal, and a line for each stage elsewhere.
fn tell(progress: Progress, is_terminal: bool) {
    let what = match progress.stage {
        Stage::Fetching => "fetching",
        Stage::Verifying => "verifying",
        Stage::Unpacking => "unpacking",
        Stage::Converting => "converting",
        Stage::Writing => "writing",
    };
    let mut out = std::io::stderr().lock();
    if is_terminal {
        let full = usize::from(progress.percent.min(100)) * 30 / 100;
        let bar = format!("{}{}", "#".repeat(full), " ".repeat(30 - full));
        let end = if progress.percent == 100 { "\n" } else { "" };
        let _ = write!(out, "\r{what:<11}[{bar}] {:>3} %{end}", progress.percent);
    } else {
        let _ = writeln!(out, "{what} {} %", progress.percent);
    }
    let _ = out.flush();
}
