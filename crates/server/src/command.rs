//! `main`: the command line of every program.

use std::{ffi::OsString, io::Write, path::PathBuf, process::ExitCode};

use clap::{
    Arg, ArgMatches, Command, CommandFactory, FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
};
use steadfast_core::{App, Result, store::SealFile, tune_sqlite};
use steadfast_web::{Ask, Cli, CliVerb, Web, print, printable};

use crate::{
    args::{self, CommandLine, ConfigVerb, ServeArgs, Source, VerbArgs},
    cli::{self, Client, Noun},
    failure::Failure,
    location::redacted,
    nouns::{
        self,
        server::print_doctor,
        tokens::{print_login_link, print_whoami},
    },
    secret_file::is_open,
    serve,
    settings::{self, DeclaredSettings, Program, flags_of},
};

/// Runs the command line of this process: serves the program, or sends requests to one.
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
        Err(Failure::Message(text)) => {
            // The text may quote a name, or the answer of a server.
            let lines: Vec<String> = text.lines().map(printable).collect();
            // Ignore output errors: stderr may be closed.
            let _ = writeln!(std::io::stderr(), "error: {}", lines.join("\n"));
            ExitCode::FAILURE
        }
    }
}

fn run<M, P: Program<M>>(program: &P, argv: &[OsString]) -> Result<(), Failure> {
    let flags = [flags_of::<ServeArgs>(), P::flags()].concat();
    let declared = DeclaredSettings::read(flags, argv)?;
    let nouns = nouns::verbs();
    let app = build(program, &declared, argv).map(|app| without_taken_verbs(app, &nouns));
    check_verbs(&app)?;
    let verbs = app.as_ref().ok().and_then(|it| it.extension::<Web>()).map(|it| &it.verbs[..]);
    let verbs = verbs.unwrap_or_default();
    let name = app.as_ref().map_or("steadfast", App::name).to_owned();
    let mut command = full(&declared, &nouns, verbs, &name);
    let matches = match command.try_get_matches_from_mut(argv) {
        Ok(matches) => matches,
        // A program that could not be declared has no verbs of its own.
        Err(error) => match app {
            Err(app) if error.kind() == ErrorKind::InvalidSubcommand => return Err(app.into()),
            Err(_) | Ok(_) => without_secrets(error, &command).exit(),
        },
    };
    if let Some((verb, matches)) = matches.subcommand()
        && let Some(verb) = verbs.iter().find(|it| it.command.get_name() == verb)
    {
        return run_verb(verb, matches);
    }
    let source = Source::of(&matches)
        .unwrap_or_else(|text| command.error(ErrorKind::ArgumentConflict, text).exit());
    if let Some((noun, inner)) = matches.subcommand()
        && let Some(noun) = nouns.iter().find(|it| it.name() == noun)
    {
        let is_folder = matches!(source, Source::Folder(_));
        if let Some(failure) = declared.failure.as_ref().filter(|_| is_folder) {
            return Err(Failure::new(failure));
        }
        return noun.run(&Client::open(source, Some(app))?, inner);
    }
    let line = CommandLine::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let settings = settings_of(&matches);
    let needs_settings = match &line.verb {
        None | Some(VerbArgs::Serve | VerbArgs::Config(_)) => true,
        Some(VerbArgs::Doctor(_)) => matches!(source, Source::Folder(_)),
        Some(
            VerbArgs::Inspect(_)
            | VerbArgs::Completions { .. }
            | VerbArgs::Login(_)
            | VerbArgs::Whoami(_),
        ) => false,
    };
    if let Some(failure) = declared.failure.as_ref().filter(|_| needs_settings) {
        return Err(Failure::new(failure));
    }
    match line.verb {
        None | Some(VerbArgs::Serve) => {
            let args = ServeArgs::from_arg_matches(settings).unwrap_or_else(|it| it.exit());
            let args = ServeArgs { open_secrets: open_secrets(&declared, &args), ..args };
            serve::run(args, app?)
        }
        Some(VerbArgs::Inspect(args)) => serve::inspect(&args, name),
        Some(VerbArgs::Config(ConfigVerb::Show)) => {
            print(&declared.show(settings))?;
            Ok(())
        }
        Some(VerbArgs::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, name, &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(())
        }
        Some(VerbArgs::Doctor(args)) => print_doctor(&Client::open(source, Some(app))?, &args),
        Some(VerbArgs::Login(args)) => print_login_link(&Client::open(source, None)?, &args),
        Some(VerbArgs::Whoami(args)) => print_whoami(&Client::open(source, None)?, &args),
    }
}

/// Files of secrets that other users may read.
fn open_secrets(declared: &DeclaredSettings, args: &ServeArgs) -> Vec<String> {
    let key = args.transport.tls_key.iter().filter(|it| is_open(it));
    declared.open_secrets().into_iter().chain(key.map(|it| it.display().to_string())).collect()
}

/// Rejects an application with a verb of every program.
fn without_taken_verbs(mut app: App, nouns: &[Noun]) -> App {
    let own = CommandLine::command();
    let own = own.get_subcommands().map(Command::get_name).chain(nouns.iter().map(Noun::name));
    // clap adds `help` to every command line.
    let taken: Vec<String> = own.chain(["help"]).map(str::to_owned).collect();
    let web = app.extension::<Web>();
    let problems: Vec<String> =
        web.iter().flat_map(|it| &it.verbs).flat_map(|it| it.problems(&taken)).collect();
    problems.into_iter().for_each(|it| app.reject(it));
    app
}

/// The error quotes what was written, which may be a URL with a password, or the value of a secret
/// setting.
fn without_secrets(mut error: clap::Error, command: &Command) -> clap::Error {
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(_) | None => None,
    };
    let flag = text(&error, ContextKind::InvalidArg);
    let is_secret = flag.is_some_and(|it| {
        let long = it.split([' ', '=']).next().and_then(|it| it.strip_prefix("--"));
        long.is_some_and(|it| is_secret(command, it))
    });
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue, ContextKind::InvalidSubcommand]
    {
        let Some(text) = text(&error, kind) else { continue };
        let is_hidden = is_secret && kind == ContextKind::InvalidValue;
        let shown = if is_hidden { "***".to_owned() } else { redacted(&text) };
        error.insert(kind, ContextValue::String(shown));
    }
    error
}

/// Whether a flag of a command, or of one of its verbs, is a secret.
fn is_secret(command: &Command, long: &str) -> bool {
    let is_it = |it: &Arg| it.get_long() == Some(long) && settings::is_secret(it);
    command.get_arguments().any(is_it) || command.get_subcommands().any(|it| is_secret(it, long))
}

/// Duplicate verbs and flags would make clap panic.
fn check_verbs(app: &Result<App>) -> Result<(), Failure> {
    let Ok(app) = app else { return Ok(()) };
    let problems: Vec<String> =
        app.problems().into_iter().filter(|it| it.starts_with("verb `")).collect();
    if problems.is_empty() { Ok(()) } else { Err(Failure::new(problems.join("\nerror: "))) }
}

fn run_verb(verb: &CliVerb, matches: &ArgMatches) -> Result<(), Failure> {
    let server = |url: &str| {
        let source = Source::server(url, matches).map_err(steadfast_core::Error::terminal)?;
        let client = Client::open(source, None).map_err(cli::to_error)?;
        Ok(Box::new(client) as Box<dyn Ask>)
    };
    let here = |app: App| {
        let client = Client::here(app).map_err(cli::to_error)?;
        Ok(Box::new(client) as Box<dyn Ask>)
    };
    let code = verb.run(Cli::new(&server, &here), matches)?;
    if code == ExitCode::SUCCESS { Ok(()) } else { Err(Failure::Exit(code)) }
}

/// Declares the program. Its verbs are part of the command line, and declaring it needs its
/// settings, so the line is first parsed leniently. A program with invalid settings still has
/// `--help`, `config show` and client verbs.
fn build<M, P: Program<M>>(
    program: &P,
    declared: &DeclaredSettings,
    argv: &[OsString],
) -> Result<App> {
    let lenient = with_settings(CommandLine::command(), declared)
        .ignore_errors(true)
        .allow_external_subcommands(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true);
    let matches = lenient.try_get_matches_from(argv).map_err(steadfast_core::Error::terminal)?;
    let settings = settings_of(&matches);
    let app = program.build(settings)?;
    // Verbs that open a folder need it as `serve` does.
    Ok(match settings.try_get_one::<PathBuf>("seal_key_file") {
        Ok(Some(path)) => app.seal_key_file(SealFile::named(path)),
        Ok(None) | Err(_) => app,
    })
}

fn full(declared: &DeclaredSettings, nouns: &[Noun], verbs: &[CliVerb], name: &str) -> Command {
    let command = with_settings(CommandLine::command(), declared).name(name.to_owned());
    let command = command.subcommands(nouns.iter().map(Noun::command));
    let of_apps = verbs.iter().map(|it| args::with_server(declared.of_verb(it.command.clone())));
    let command = command.subcommands(of_apps);
    if name == "steadfast" { command } else { args::renamed(command, name) }
}

/// Settings are flags of `serve`, of `config show` and of the bare command.
fn with_settings(command: Command, declared: &DeclaredSettings) -> Command {
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

#[cfg(test)]
mod tests {
    use clap::Args;
    use steadfast_web::Serve;

    use super::*;

    #[derive(Args)]
    struct NoArgs {}

    fn failure_of(app: impl Fn() -> Result<App>, line: &[&str]) -> String {
        let argv: Vec<OsString> = line.iter().map(OsString::from).collect();
        match run(&app, &argv) {
            Err(Failure::Message(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn duplicate_verbs_are_reported_with_both_owners() {
        let verb = |name, app: &str| App::new(app).verb(name, |_, _: NoArgs| Ok(ExitCode::SUCCESS));
        for taken in ["serve", "queues", "help"] {
            let text = failure_of(|| Ok(verb(taken, "shop")), &["shop", "doctor"]);
            assert!(text.starts_with(&format!("verb `{taken}` of shop (")), "{text}");
            assert!(text.ends_with("is a verb of every program: give it another name"), "{text}");
        }
        let twice = || Ok(App::new("sum").merge(verb("buy", "one")).merge(verb("buy", "two")));
        let text = failure_of(twice, &["sum", "buy"]);
        assert!(text.contains("declared by one") && text.contains("and by two"), "{text}");
    }

    #[test]
    fn a_verb_flag_that_clap_reserves_is_reported_with_its_owner() {
        #[derive(Args)]
        struct HostArgs {
            /// The host to buy from
            #[arg(short = 'h')]
            _host: Option<String>,
        }
        let app = || Ok(App::new("shop").verb("buy", |_, _: HostArgs| Ok(ExitCode::SUCCESS)));
        let text = failure_of(app, &["shop", "buy"]);
        assert!(text.starts_with("verb `buy` of shop ("), "{text}");
        assert!(text.contains("has the flag `-h`"), "{text}");
    }

    #[test]
    fn a_failed_declaration_is_reported_for_its_own_verbs() {
        let broken = || Err(steadfast_core::Error::terminal("the key is missing"));
        assert_eq!(failure_of(broken, &["shop", "buy"]), "the key is missing");
        let shown = run(&broken, &["shop", "config", "show"].map(OsString::from));
        assert!(shown.is_ok());
    }
}
