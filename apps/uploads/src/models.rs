//! The verb `models pull`.

use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use steadfast_core::{Error, Result};
use steadfast_resnet::{Progress, Stage, pull};

use crate::{
    classifier::models_folder,
    settings::{ModelsArgs, ModelsVerb},
};

/// Fetches a model into the folder of its flag, or else of the settings, and says how far it is.
pub(crate) fn run(args: ModelsArgs, settings: Option<&PathBuf>) -> Result<ExitCode> {
    let ModelsVerb::Pull(args) = args.verb;
    let nowhere = "there is no home folder for models; name one with --uploads-models DIR";
    let models = models_folder(args.models.as_ref().or(settings));
    let models = models.ok_or_else(|| Error::terminal(nowhere))?;
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

#[cfg(test)]
mod tests {
    use clap::{Arg, Args, Command, FromArgMatches};
    use steadfast_core::App;
    use steadfast_web::{Ask, Cli, Web};

    use super::*;
    use crate::Settings;

    /// Runs `models pull` with these flags, for a package that is missing.
    fn pull(settings: &[&str], flags: &[&str]) -> String {
        let line = [&["uploads"], settings].concat();
        let data = Arg::new("data").long("data").default_value("./data");
        let data = data.value_parser(clap::value_parser!(PathBuf));
        let command = Settings::augment_args(Command::new("uploads")).arg(data);
        let matches = command.get_matches_from(line);
        let app = crate::app(Settings::from_arg_matches(&matches).unwrap()).unwrap();
        let verb = &app.extension::<Web>().unwrap().verbs[0];
        let line = [&["models", "pull", "resnet-50", "--from", "/missing.tgz"], flags].concat();
        let matches = verb.command.clone().get_matches_from(line);
        let no_server = |_: &str| -> Result<Box<dyn Ask>> { Err(Error::terminal("no server")) };
        let no_program = |_: App| -> Result<Box<dyn Ask>> { Err(Error::terminal("no program")) };
        verb.run(Cli::new(&no_server, &no_program), &matches).unwrap_err().to_string()
    }

    #[test]
    fn a_model_goes_into_the_folder_of_the_settings_unless_the_verb_names_one() {
        let root = tempfile::tempdir().unwrap();
        let [settings, flag] = ["a", "b"].map(|it| root.path().join(it));
        let text = |it: &PathBuf| it.to_str().unwrap().to_owned();
        let of_settings = ["--uploads-models", &text(&settings)];
        assert!(pull(&of_settings, &[]).contains("/missing.tgz"));
        assert!(settings.exists());
        let error = pull(&of_settings, &["--uploads-models", &text(&flag)]);
        assert!(error.contains("/missing.tgz"));
        assert!(flag.exists());
    }
}
