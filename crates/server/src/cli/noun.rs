//! Nouns and verbs of the command line, built from operations.

use std::io::{IsTerminal, Write};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, de::IgnoredAny};
use steadfast_api::{Operation, OperationInfo};
use steadfast_web::printable;

use super::{
    client::Client,
    output::{print, print_json},
};
use crate::{args::AskArgs, failure::Failure};

/// Formats a response for people.
type Show<O> = fn(&O, &<O as Operation>::Response) -> String;

type Run = Box<dyn Fn(&Client, &ArgMatches) -> Result<(), Failure>>;

/// A noun: `steadfast queues …`.
pub(crate) struct Noun {
    command: Command,
    verbs: Vec<(String, Run)>,
}

impl Noun {
    pub(crate) fn new(name: &'static str, about: &'static str) -> Self {
        let command = Command::new(name).about(about).subcommand_required(true);
        Self { command: command.arg_required_else_help(true), verbs: Vec::new() }
    }

    /// Adds a verb that sends an operation and prints its response.
    pub(crate) fn verb<O: Operation + Args>(
        self,
        name: &'static str,
        examples: &[&str],
        show: Show<O>,
    ) -> Self {
        let run = move |client: &Client, matches: &ArgMatches| {
            let (operation, ask) = read::<O>(matches)?;
            answer(client, &operation, ask.json, &show)
        };
        let command = O::augment_args(Command::new(name)).about(about(&O::INFO));
        self.add(command, examples, Box::new(run))
    }

    /// Adds the verb `delete`, which asks for confirmation. `name` describes the deleted item.
    pub(crate) fn deletes<O: Operation + Args>(
        self,
        examples: &[&str],
        name: fn(&O) -> String,
    ) -> Self {
        let question = move |it: &O| format!("Delete {}?", name(it));
        let show = move |it: &O, _: &O::Response| format!("deleted {}\n", name(it));
        self.destroys("delete", examples, (question, show))
    }

    /// Adds a verb that destroys data: it asks for confirmation, unless `--yes` is given.
    pub(crate) fn destroys<O: Operation + Args>(
        self,
        name: &'static str,
        examples: &[&str],
        (question, show): (
            impl Fn(&O) -> String + 'static,
            impl Fn(&O, &O::Response) -> String + 'static,
        ),
    ) -> Self {
        let run = move |client: &Client, matches: &ArgMatches| {
            let (operation, ask) = read::<O>(matches)?;
            confirm(&question(&operation), matches.get_flag("yes"))?;
            answer(client, &operation, ask.json, &show)
        };
        let yes = Arg::new("yes").long("yes").short('y').action(ArgAction::SetTrue);
        let yes = yes.env("STEADFAST_YES").help("Do not ask for confirmation");
        let yes = yes.value_parser(clap::builder::FalseyValueParser::new());
        let command = O::augment_args(Command::new(name)).about(about(&O::INFO)).arg(yes);
        self.add(command, examples, Box::new(run))
    }

    /// Adds a verb with its own implementation.
    pub(crate) fn custom<A: Args + 'static>(
        self,
        name: &'static str,
        (about, examples): (&'static str, &[&str]),
        run: fn(&Client, A, &AskArgs) -> Result<(), Failure>,
    ) -> Self {
        let run = move |client: &Client, matches: &ArgMatches| {
            let (args, ask) = read::<A>(matches)?;
            run(client, args, &ask)
        };
        self.add(A::augment_args(Command::new(name)).about(about), examples, Box::new(run))
    }

    /// Adds a noun below this one: `steadfast buckets rules …`.
    pub(crate) fn noun(mut self, inner: Noun) -> Self {
        self.command = self.command.subcommand(inner.command());
        let name = inner.name().to_owned();
        self.verbs.push((name, Box::new(move |client, matches| inner.run(client, matches))));
        self
    }

    fn add(mut self, command: Command, examples: &[&str], run: Run) -> Self {
        let title = if examples.len() == 1 { "Example:" } else { "Examples:" };
        let lines = examples.iter().map(|it| format!("\n  steadfast {it}"));
        let help: String = std::iter::once(title.to_owned()).chain(lines).collect();
        // The description of shared arguments must not become that of the verb.
        let about = command.get_about().cloned().unwrap_or_default();
        let command = AskArgs::augment_args(command).about(about).after_help(help);
        let name = command.get_name().to_owned();
        self.command = self.command.subcommand(command);
        self.verbs.push((name, run));
        self
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.command.get_name()
    }

    /// Its clap command.
    pub(crate) fn command(&self) -> Command {
        self.command.clone()
    }

    /// Runs the chosen verb.
    pub(crate) fn run(&self, client: &Client, matches: &ArgMatches) -> Result<(), Failure> {
        let chosen = matches.subcommand();
        let found = chosen
            .and_then(|(name, inner)| Some((self.verbs.iter().find(|it| it.0 == name)?, inner)));
        let Some(((_, run), inner)) = found else {
            return Err(Failure::new("no such verb; see --help"));
        };
        run(client, inner)
    }
}

fn read<A: FromArgMatches>(matches: &ArgMatches) -> Result<(A, AskArgs), Failure> {
    let wrong = |error: clap::Error| Failure::new(error.to_string());
    let args = A::from_arg_matches(matches).map_err(wrong)?;
    Ok((args, AskArgs::from_arg_matches(matches).map_err(wrong)?))
}

/// The description of a request is the help of its verb, without the full stop.
fn about(info: &OperationInfo) -> String {
    let request = (info.request)();
    request.about().unwrap_or_default().trim_end_matches('.').replace('\n', " ")
}

/// Sends an operation and prints its response.
pub(crate) fn answer<O: Operation>(
    client: &Client,
    operation: &O,
    json: bool,
    show: &dyn Fn(&O, &O::Response) -> String,
) -> Result<(), Failure> {
    let body = client.request(operation, json)?;
    print_answer(&body, json, &|body| Ok(show(operation, &client.parse::<O>(body)?)))
}

fn print_answer(
    body: &str,
    json: bool,
    show: &dyn Fn(&str) -> Result<String, Failure>,
) -> Result<(), Failure> {
    if json {
        return if body.is_empty() { Ok(()) } else { print_json(body) };
    }
    let body = if body.is_empty() { "null" } else { body };
    print(&show(body)?)?;
    if let Ok(ListPage { next: Some(next), .. }) = serde_json::from_str(body) {
        // This is advice: ignore output errors.
        let next = printable(&next);
        let _ = writeln!(std::io::stderr(), "more rows exist; continue with --cursor {next}");
    }
    Ok(())
}

/// Detects a page of a list.
#[derive(Deserialize)]
struct ListPage {
    #[serde(rename = "items")]
    _items: Vec<IgnoredAny>,
    next: Option<String>,
}

/// Asks for confirmation; scripts must pass `--yes`.
fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(format!("{question} Add --yes to confirm")));
    }
    // Not to stdout, which may be a file.
    write!(std::io::stderr(), "{} [y/N] ", printable(question))?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new("not confirmed; nothing was changed")),
    }
}
