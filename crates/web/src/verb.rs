//! Verbs that an application adds to the command line.

use std::{
    io::{ErrorKind, Write},
    process::ExitCode,
};

use clap::{ArgMatches, Args, Command};
use steadfast_core::{App, Error, Owner, Result};

/// Sends requests to a server, or to a program in this process.
pub trait Ask {
    /// Sends GET. Returns the body of a successful response; any other is an error, which is also
    /// printed if JSON is requested.
    fn get(&self, path: &str, json: bool) -> Result<String>;

    /// Sends POST with JSON.
    fn post(&self, path: &str, body: &str, json: bool) -> Result<String>;
}

type ConnectServer<'a> = &'a dyn Fn(&str) -> Result<Box<dyn Ask>>;
type RunInProcess<'a> = &'a dyn Fn(App) -> Result<Box<dyn Ask>>;

/// Gives a verb access to servers and programs.
#[derive(Clone, Copy)]
pub struct Cli<'a> {
    server: ConnectServer<'a>,
    here: RunInProcess<'a>,
}

impl<'a> Cli<'a> {
    /// For the command line: connects to servers and programs with these functions.
    pub fn new(server: ConnectServer<'a>, here: RunInProcess<'a>) -> Self {
        Self { server, here }
    }

    /// Connects to a server.
    pub fn server(&self, url: &str) -> Result<Box<dyn Ask>> {
        (self.server)(url)
    }

    /// Runs a program in this process, in memory, until the value is dropped.
    pub fn here(&self, app: App) -> Result<Box<dyn Ask>> {
        (self.here)(app)
    }
}

type Run = Box<dyn Fn(Cli<'_>, &ArgMatches) -> Result<ExitCode> + Send + Sync>;

/// A verb of the command line.
pub struct CliVerb {
    /// Name, flags and help.
    pub command: Command,
    /// The application that declared it.
    pub owner: Owner,
    run: Run,
}

impl CliVerb {
    pub(crate) fn new<A: Args>(
        name: &'static str,
        owner: Owner,
        run: impl Fn(Cli<'_>, A) -> Result<ExitCode> + Send + Sync + 'static,
    ) -> Self {
        let read = move |cli: Cli<'_>, matches: &ArgMatches| {
            let args = A::from_arg_matches(matches).map_err(Error::terminal)?;
            run(cli, args)
        };
        Self { command: A::augment_args(Command::new(name)), owner, run: Box::new(read) }
    }

    /// Conflicts with the verbs and flags of the command line.
    pub fn problems(&self, taken: &[String]) -> Vec<String> {
        let (name, owner) = (self.command.get_name(), &self.owner);
        let is_taken = taken.iter().any(|it| it == name);
        let verb = is_taken.then(|| {
            format!("verb `{name}` of {owner} is a verb of every program: give it another name")
        });
        let flags = self.command.get_arguments().filter_map(|arg| {
            let flag = match (arg.get_long(), arg.get_short()) {
                (Some("help"), _) => "--help",
                (_, Some('h')) => "-h",
                (_, _) => return None,
            };
            Some(format!(
                "verb `{name}` of {owner} has the flag `{flag}`, which prints its help: give the \
                 flag another name"
            ))
        });
        verb.into_iter().chain(flags).collect()
    }

    /// Runs the verb.
    pub fn run(&self, cli: Cli<'_>, matches: &ArgMatches) -> Result<ExitCode> {
        (self.run)(cli, matches)
    }
}

/// Prints to stdout. Returns `false` if the reader has closed the pipe, as `head` does.
pub fn print(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::terminal(format!("stdout cannot be written: {error}"))),
    }
}

/// Replaces control and format characters by spaces: stored text must not control a terminal, end a
/// line or change the text direction.
pub fn printable(text: &str) -> String {
    let steers = |it: char| {
        let is_format = matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(it, '\u{2060}'..='\u{2069}' | '\u{feff}');
        it.is_control() || is_format
    };
    text.chars().map(|it| if steers(it) { ' ' } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_text_cannot_control_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}d"), "a [2Jb c d");
    }
}
