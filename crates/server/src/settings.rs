//! Settings: one `clap::Args` struct for the server and one per application, each an argument of
//! the function that declares the program. In order of precedence: flag, environment variable,
//! settings file, default.
//!
//! A setting is one field with `#[arg(long)]`. The name of the field gives the flag, the variable
//! and the key of the file. Its type gives the bounds ([`Number`](steadfast_web::Number)), and that
//! it is a secret ([`Secret`]).

#[cfg(test)]
mod tests;

use std::{
    any::TypeId,
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::ErrorKind,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, ArgMatches, Args, Command, parser::ValueSource};
use steadfast_core::{App, Error, Result};
use steadfast_store::Secret;
use toml::Value;

use crate::{
    failure::Failure,
    location::redacted,
    secret_file::{SecretFile, is_open, secret_variable},
};

/// The default settings file.
const FILE: &str = "steadfast.toml";

/// A function `fn(A, B, …) -> Result<App>` whose arguments are settings.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function `fn(settings, …) -> steadfast::Result<App>`",
    note = "it has at most 6 arguments, and each derives `clap::Args`"
)]
pub trait Program<M> {
    /// The flags of the settings, each with the type that declares it.
    fn flags() -> Vec<Flag>;

    /// Declares the program with these settings.
    fn build(&self, matches: &ArgMatches) -> Result<App>;
}

macro_rules! program {
    ($($S:ident),*) => {
        impl<F: Fn($($S),*) -> Result<App>, $($S: Args),*> Program<($($S,)*)> for F {
            fn flags() -> Vec<Flag> {
                let each: &[Vec<Flag>] = &[$(flags_of::<$S>()),*];
                each.concat()
            }

            fn build(&self, _matches: &ArgMatches) -> Result<App> {
                self($($S::from_arg_matches(_matches).map_err(Error::terminal)?),*)
            }
        }
    };
}

program!();
program!(A);
program!(A, B);
program!(A, B, C);
program!(A, B, C, D);
program!(A, B, C, D, E);
program!(A, B, C, D, E, G);

/// A flag and the type that declares it.
#[derive(Clone, Debug)]
pub struct Flag {
    arg: Arg,
    owner: &'static str,
}

/// Copies the flags but not the group that clap derives from the name of the struct: two structs
/// called `Settings` would collide.
pub(crate) fn flags_of<S: Args>() -> Vec<Flag> {
    let command = S::augment_args(Command::new("settings"));
    let owner = std::any::type_name::<S>();
    command.get_arguments().map(|it| Flag { arg: it.clone(), owner }).collect()
}

impl Flag {
    /// Its name on the command line and in the file.
    fn name(&self) -> &str {
        self.arg.get_long().unwrap_or(self.arg.get_id().as_str())
    }

    /// The application that declares it, by its crate; `None` for the server.
    fn app(&self) -> Option<&str> {
        let (crate_name, _) = self.owner.split_once("::")?;
        let is_own = crate_name == env!("CARGO_CRATE_NAME");
        (!is_own).then(|| crate_name.trim_start_matches("steadfast_"))
    }

    /// The reason why a value of the file is invalid for this flag.
    fn refuse(&self, values: &[String]) -> Option<String> {
        if self.arg.is_hide_env_set() || self.name() == "config" {
            return Some("it can be set on the command line only".into());
        }
        if matches!(self.arg.get_action(), ArgAction::SetTrue) {
            let is_bool = matches!(values, [it] if it == "true" || it == "false");
            return (!is_bool).then(|| "it must be true or false".into());
        }
        let arg = self.arg.clone().required(false).env(None::<&str>);
        let line = values.iter().map(|it| format!("--{}={it}", self.name()));
        let line = std::iter::once("settings".to_owned()).chain(line);
        let read = Command::new("settings").arg(arg).try_get_matches_from(line);
        let error = read.err()?.to_string();
        if is_secret(&self.arg) {
            return Some("it is not one of the possible values".into());
        }
        if values.iter().any(|it| has_secret(it.as_ref())) {
            return Some(
                "it is not one of the possible values; it is a secret and not shown".into(),
            );
        }
        let reason: Vec<&str> =
            error.lines().map(str::trim).take_while(|it| !it.is_empty()).collect();
        Some(reason.join(" ").trim_start_matches("error: ").to_owned())
    }
}

/// The settings of a program, with the values of its file.
#[derive(Clone)]
pub(crate) struct DeclaredSettings {
    flags: Vec<Flag>,
    file: BTreeMap<String, Vec<String>>,
    name: String,
    /// Values of secrets that a variable `…_FILE` names, by flag.
    secrets: BTreeMap<String, SecretFile>,
    /// The reason why the settings are invalid. Client verbs work without them.
    pub(crate) failure: Option<String>,
}

impl DeclaredSettings {
    /// Reads the settings file. Fails if a flag is declared twice: then no command line can be
    /// parsed. Unknown keys and invalid values become a `failure`.
    pub(crate) fn read(flags: Vec<Flag>, argv: &[OsString]) -> Result<Self, Failure> {
        let (path, is_named) = match named_file(argv) {
            Some(path) => (path, true),
            None => (PathBuf::from(FILE), false),
        };
        let (text, failure) = match std::fs::read_to_string(&path) {
            Ok(text) => (text, None),
            Err(error) if !is_named && error.kind() == ErrorKind::NotFound => (String::new(), None),
            Err(error) => {
                let path = path.display();
                let failure = format!("settings file {path} cannot be read: {error}");
                (String::new(), Some(failure))
            }
        };
        let mut declared = Self::new(flags, &text, &path)?;
        declared.failure = failure.or(declared.failure);
        declared.read_secrets(&|name| std::env::var_os(name));
        Ok(declared)
    }

    fn new(flags: Vec<Flag>, text: &str, path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let (mut file, mut problems) = (BTreeMap::new(), Vec::new());
        match text.parse::<toml::Table>() {
            Ok(table) => flatten("", table, &mut file),
            // The text of the error would quote the line, which may contain a secret.
            Err(error) => {
                let before = error.span().and_then(|it| text.get(..it.start));
                let line = before.map_or(1, |it| 1 + it.matches('\n').count());
                problems.push(format!("settings file {name}, line {line}: {}", error.message()));
            }
        }
        check_duplicates(&flags)?;
        let known: BTreeMap<&str, &Flag> = flags.iter().map(|it| (it.name(), it)).collect();
        for (key, values) in &file {
            match known.get(&**key) {
                None => problems.push(format!("unknown setting `{key}` in {name}")),
                Some(flag) => problems.extend(
                    flag.refuse(values).map(|it| format!("setting `{key}` in {name}: {it}")),
                ),
            }
        }
        let failure = (!problems.is_empty()).then(|| problems.join("\nerror: "));
        if failure.is_some() {
            file.clear();
        }
        Ok(Self { flags, file, name, secrets: BTreeMap::new(), failure })
    }

    /// Reads the files that variables name: a secret setting `NAME` has `NAME_FILE`.
    fn read_secrets(&mut self, variable: &dyn Fn(&str) -> Option<OsString>) {
        let mut problems = Vec::new();
        for flag in self.flags.iter().filter(|it| is_secret(&it.arg)) {
            let Some(name) = variable_of(flag) else { continue };
            match secret_variable(&name, variable) {
                Ok(None) => {}
                Ok(Some(secret)) => {
                    let refused = flag.refuse(std::slice::from_ref(&secret.value));
                    problems.extend(refused.map(|it| format!("{}: {it}", secret.variable)));
                    self.secrets.insert(flag.name().to_owned(), secret);
                }
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            self.secrets.clear();
            let all = self.failure.take().into_iter().chain(problems).collect::<Vec<_>>();
            self.failure = Some(all.join("\nerror: "));
        }
    }

    /// Files of secrets that other users may read, also the settings file if it has a secret.
    pub(crate) fn open_secrets(&self) -> Vec<String> {
        let open = self.secrets.values().filter(|it| it.is_open);
        let open = open.map(|it| it.path.display().to_string());
        let has_secret = || self.flags.iter().any(|it| self.is_secret_in_file(it));
        let own = (is_open(Path::new(&self.name)) && has_secret()).then(|| self.name.clone());
        open.chain(own).collect()
    }

    /// Whether the settings file has a secret for this flag. The value of a secret setting may be a
    /// URL without a password, or the default.
    fn is_secret_in_file(&self, flag: &Flag) -> bool {
        let may_be = is_secret(&flag.arg);
        let defaults = flag.arg.get_default_values();
        let is_secret = |it: &String| {
            let is_plain = it.contains("://")
                || defaults.iter().any(|default| default.to_str() == Some(it.as_str()));
            has_secret(it.as_ref()) || (may_be && !is_plain)
        };
        self.file.get(flag.name()).is_some_and(|it| it.iter().any(is_secret))
    }

    /// Gives a flag of a verb the variable and the file value of the setting with its name.
    pub(crate) fn of_verb(&self, command: Command) -> Command {
        command.mut_args(|arg| {
            let is_same =
                |it: &&Flag| Some(it.name()) == arg.get_long() && it.arg.get_id() == arg.get_id();
            match self.flags.iter().find(is_same) {
                Some(flag) => self.filled(flag, arg),
                None => arg,
            }
        })
    }

    fn filled(&self, flag: &Flag, mut arg: Arg) -> Arg {
        if let Some(name) = variable_of(flag) {
            arg = arg.env(name);
        }
        // `--help` prints the value of the variable.
        let variable = arg.get_env().and_then(std::env::var_os);
        if is_secret(&flag.arg) || variable.is_some_and(|it| has_secret(&it)) {
            arg = arg.hide_env_values(true);
        }
        let values = match (self.secrets.get(flag.name()), self.file.get(flag.name())) {
            (Some(secret), _) => vec![secret.value.clone()],
            (None, Some(values)) => values.clone(),
            (None, None) => return arg,
        };
        // In clap a default does not satisfy `required`, and `--help` would print it.
        let is_hidden =
            arg.is_hide_env_values_set() || values.iter().any(|it| has_secret(it.as_ref()));
        let arg = arg.default_values(values).required(false);
        if is_hidden { arg.hide_default_value(true) } else { arg }
    }

    /// Adds the flags to a command, each with its variable and its file value.
    pub(crate) fn add_to(&self, command: Command) -> Command {
        command.args(self.flags.iter().enumerate().map(|(order, flag)| {
            let mut arg = flag.arg.clone().display_order(order);
            if let Some(app) = flag.app() {
                arg = arg.help_heading(format!("Settings of {app}"));
            }
            self.filled(flag, arg)
        }))
    }

    /// The lines of `config show`.
    pub(crate) fn show(&self, matches: &ArgMatches) -> String {
        let line = |flag: &Flag| {
            let id = flag.arg.get_id().as_str();
            let source = matches.value_source(id)?;
            let source = if source == ValueSource::CommandLine {
                "flag".to_owned()
            } else if source == ValueSource::EnvVariable {
                variable_of(flag).unwrap_or_default()
            } else if let Some(secret) = self.secrets.get(flag.name()) {
                secret.variable.clone()
            } else if self.file.contains_key(flag.name()) {
                self.name.clone()
            } else {
                "default".to_owned()
            };
            let value = if is_secret(&flag.arg) && source != "default" {
                "***".to_owned()
            } else {
                let values = matches.get_raw(id).into_iter().flatten();
                values.map(|it| redacted(&it.to_string_lossy())).collect::<Vec<_>>().join(",")
            };
            Some(format!("{} = {value}  ({source})\n", flag.name()))
        };
        self.flags.iter().filter_map(line).collect()
    }
}

/// Whether the values of a flag are secrets: its type says so. A flag of another type that takes
/// some secrets, such as a URL with a password, declares `hide_env_values`.
pub(crate) fn is_secret(arg: &Arg) -> bool {
    arg.is_hide_env_values_set() || arg.get_value_parser().type_id() == TypeId::of::<Secret>()
}

/// Whether a value is a URL with a secret.
fn has_secret(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    redacted(&value) != value
}

/// Fails with the names that two flags share: long and short names, aliases, and ids, which are
/// field names.
fn check_duplicates(flags: &[Flag]) -> Result<(), Failure> {
    let mut taken: BTreeMap<String, &Flag> = BTreeMap::new();
    let mut problems = Vec::new();
    for flag in flags {
        let arg = &flag.arg;
        let long = arg.get_long().into_iter().chain(arg.get_all_aliases().into_iter().flatten());
        let names = long.map(|it| format!("setting `--{it}`"));
        let names = names.chain(arg.get_short().map(|it| format!("setting `-{it}`")));
        for name in names.chain([format!("field `{}` of settings", arg.get_id())]) {
            if let Some(first) = taken.insert(name.clone(), flag) {
                let (first, second) = (first.owner, flag.owner);
                problems.push(format!("{name} is declared by {first} and by {second}"));
            }
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::new(problems.join("\nerror: "))) }
}

/// The variable of a flag: the one that it declares, or one with its name. `--uploads-models` is
/// `STEADFAST_UPLOADS_MODELS`.
fn variable_of(flag: &Flag) -> Option<String> {
    match flag.arg.get_env() {
        Some(declared) => Some(declared.to_string_lossy().into_owned()),
        // A decision about one start belongs on its command line.
        None if flag.arg.is_hide_env_set() => None,
        None => Some(format!("STEADFAST_{}", flag.name().to_uppercase().replace('-', "_"))),
    }
}

/// The file that the command line or the environment names. It is needed before the command line is
/// parsed, because file values are defaults there.
fn named_file(argv: &[OsString]) -> Option<PathBuf> {
    let verb = argv.get(1).and_then(|it| it.to_str()).unwrap_or_default();
    // Another verb may have its own flag of this name.
    let has_settings = verb.starts_with('-') || ["serve", "config"].contains(&verb);
    let mut args = argv.iter().skip(if has_settings { 1 } else { argv.len() });
    while let Some(arg) = args.next() {
        if arg == "--" {
            break;
        }
        if arg == "--config" {
            return args.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|it| it.strip_prefix("--config=")) {
            return Some(PathBuf::from(path));
        }
    }
    std::env::var_os("STEADFAST_CONFIG").filter(|it| !it.is_empty()).map(PathBuf::from)
}

/// `[uploads] model = "x"` is the flag `--uploads-model`; an array is a flag with several values.
fn flatten(prefix: &str, table: toml::Table, into: &mut BTreeMap<String, Vec<String>>) {
    for (key, value) in table {
        let key = format!("{prefix}{}", key.replace('_', "-"));
        match value {
            Value::Table(table) => flatten(&format!("{key}-"), table, into),
            Value::Array(all) => drop(into.insert(key, all.iter().map(text).collect())),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_) => drop(into.insert(key, vec![text(&value)])),
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => is.to_string(),
        Value::Datetime(at) => at.to_string(),
        // No setting is a list of lists, so this is refused.
        Value::Array(_) | Value::Table(_) => "[…]".into(),
    }
}
