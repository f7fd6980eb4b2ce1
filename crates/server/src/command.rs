//! `main`: the command line of every program.

use std::{ffi::OsString, io::Write, process::ExitCode};

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use steadfast_core::{App, Result, tune_sqlite};
use steadfast_web::{Ask, Cli, Verb, Web, print};

use crate::{
    args::{self, CommandLine, ConfigVerb, ServeArgs, Source, VerbArgs},
    cli,
    failure::Failure,
    serve,
    settings::{Declared, Program, flags_of},
};

/// Runs the command line of this process: serves the program, or asks one.
///
/// ```no_run
/// use std::process::ExitCode;
/// use steadfast_core::{App, Result};
///
/// fn main() -> ExitCode {
///     steadfast_server::main(app)
/// }
///
/// fn app() -> Result<App> {
///     Ok(App::new("auctions"))
/// }
/// ```
pub fn main<M, P: Program<M>>(program: P) -> ExitCode {
    tune_sqlite();
    let argv: Vec<OsString> = std::env::args_os().collect();
    match run(&program, &argv) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Quiet) => ExitCode::FAILURE,
        Err(Failure::Exit(code)) => code,
        Err(Failure::Told(text)) => {
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(std::io::stderr(), "error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run<M, P: Program<M>>(program: &P, argv: &[OsString]) -> Result<(), Failure> {
    let flags = [flags_of::<ServeArgs>(), P::flags()].concat();
    let declared = Declared::read(flags, argv)?;
    let app = build(program, &declared, argv);
    let verbs = app.as_ref().ok().and_then(|it| it.extension::<Web>()).map(|it| &it.verbs[..]);
    let verbs = verbs.unwrap_or_default();
    let name = app.as_ref().map_or("steadfast", App::name).to_owned();
    let mut command = full(&declared, verbs, &name);
    let matches = command.try_get_matches_from_mut(argv).unwrap_or_else(|error| error.exit());
    if let Some((verb, matches)) = matches.subcommand()
        && let Some(verb) = verbs.iter().find(|it| it.command.get_name() == verb)
    {
        return run_verb(verb, matches);
    }
    let line = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let source = Source::of(&matches).unwrap_or_else(|text| {
        command.error(clap::error::ErrorKind::ArgumentConflict, text).exit()
    });
    let settings = settings_of(&matches);
    match line.verb {
        None | Some(VerbArgs::Serve) => {
            let args = ServeArgs::from_arg_matches(settings).unwrap_or_else(|it| it.exit());
            serve::run(args, app?)
        }
        Some(VerbArgs::Inspect(args)) => serve::inspect(&args, name),
        Some(VerbArgs::Config(ConfigVerb::Show)) => {
            print(&declared.show(settings))?;
            Ok(())
        }
        Some(VerbArgs::Ask(ask)) => cli::run(ask, source, app),
    }
}

fn run_verb(verb: &Verb, matches: &ArgMatches) -> Result<(), Failure> {
    let server = |url: &str| {
        let client = cli::Client::open(Source::Server(url.into()), None).map_err(cli::told)?;
        Ok(Box::new(client) as Box<dyn Ask>)
    };
    let here = |app: App| {
        let client = cli::Client::here(app).map_err(cli::told)?;
        Ok(Box::new(client) as Box<dyn Ask>)
    };
    let code = verb.run(Cli::new(&server, &here), matches)?;
    if code == ExitCode::SUCCESS { Ok(()) } else { Err(Failure::Exit(code)) }
}

/// Declares the program. Its verbs are part of the command line, and its settings are needed for
/// it, so that the line is first read leniently. A program whose settings are wrong still has
/// `--help`, `config show` and verbs that ask servers.
fn build<M, P: Program<M>>(program: &P, declared: &Declared, argv: &[OsString]) -> Result<App> {
    let lenient = with_settings(CommandLine::command(), declared)
        .ignore_errors(true)
        .allow_external_subcommands(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true);
    let matches = lenient.try_get_matches_from(argv).map_err(steadfast_core::Error::terminal)?;
    program.build(settings_of(&matches))
}

fn full(declared: &Declared, verbs: &[Verb], name: &str) -> Command {
    let command = with_settings(CommandLine::command(), declared).name(name.to_owned());
    let command = command.subcommands(verbs.iter().map(|it| it.command.clone()));
    if name == "steadfast" { command } else { args::renamed(command, name) }
}

/// Settings are flags of `serve`, of `config show` and of the bare command.
fn with_settings(command: Command, declared: &Declared) -> Command {
    let command = declared.add_to(command);
    let command = command.mut_subcommand("serve", |it| declared.add_to(it));
    command.mut_subcommand("config", |it| {
        it.mut_subcommand("show", |it| declared.add_to(it).mut_args(|it| it.required(false)))
    })
}

fn settings_of(matches: &ArgMatches) -> &ArgMatches {
    match matches.subcommand() {
        Some(("serve", inner)) => inner,
        Some(("config", inner)) => inner.subcommand_matches("show").unwrap_or(matches),
        _ => matches,
    }
}
