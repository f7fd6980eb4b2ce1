//! Tables made from `--help`.

use std::fmt::Write;

use super::{code, codes, prose};
use crate::snapshots::{help, verbs};

/// A line of a help: a flag, an argument or a verb.
#[derive(Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    about: String,
    variable: String,
    default: String,
    values: String,
}

impl Entry {
    fn new(name: &str, about: &str) -> Self {
        let (name, mut about) = (name.to_owned(), about.to_owned());
        let variable = take(&mut about, "env");
        let default = take(&mut about, "default");
        let values = take(&mut about, "possible values");
        // clap prints the present value behind the name.
        let variable = variable.split('=').next().unwrap_or_default().to_owned();
        Self { name, about, variable, default, values }
    }

    fn meaning(&self) -> String {
        let is_named = |it: &str| self.about.contains(&format!("`{it}`"));
        let values = match &*self.values {
            values if values.is_empty() || values.split(", ").all(is_named) => String::new(),
            values => format!("; one of {}", codes(values.split(", "))),
        };
        format!("{}{values}", prose(&self.about))
    }
}

/// Takes `[name: value]` out of a text.
fn take(about: &mut String, name: &str) -> String {
    let start = format!("[{name}: ");
    let Some((before, rest)) = about.split_once(&start) else { return String::new() };
    let (value, after) = rest.split_once(']').expect("it is closed");
    let (value, rest) = (value.to_owned(), format!("{}{after}", before.trim_end()));
    *about = rest;
    value
}

/// The sections of a help with their entries.
fn sections(help: &str) -> Vec<(&str, Vec<Entry>)> {
    let mut found: Vec<(&str, Vec<(&str, String)>)> = Vec::new();
    for line in help.lines() {
        let (indent, text) = (line.len() - line.trim_start().len(), line.trim());
        match (indent, text.strip_suffix(':'), found.last_mut()) {
            (0, Some(title), _) => found.push((title, Vec::new())),
            // Names are indented by 2 or 6, texts below them by 10.
            (1..10, _, Some((_, entries))) => {
                let (name, about) = text.split_once("  ").unwrap_or((text, ""));
                entries.push((name, about.trim().to_owned()));
            }
            (10.., _, Some((_, entries))) => {
                entries.last_mut().expect("a name comes first").1.push_str(text);
            }
            _ => {}
        }
    }
    let read = |(title, entries): (_, Vec<(&str, String)>)| {
        (title, entries.iter().map(|it| Entry::new(it.0, &it.1)).collect())
    };
    found.into_iter().map(read).collect()
}

/// The settings of `serve`, by application.
pub(super) fn settings() -> String {
    let help = help(&["serve".into()]);
    let mut text = String::new();
    for (title, entries) in sections(&help) {
        let app = match title {
            "Options" => None,
            _ => match title.strip_prefix("Settings of ") {
                Some(app) => Some(app),
                None => continue,
            },
        };
        let title = app.map_or("Server".to_owned(), |it| format!("Settings of {it}"));
        let head = "| Flag | Variable | In the file | Default | Meaning |\n|---|---|---|---|---|";
        write!(text, "\n## {title}\n\n{head}\n").expect("it is a text");
        for it in entries.iter().filter(|it| !it.name.starts_with("-h")) {
            let flag = it.name.split(' ').next().unwrap_or_default().trim_start_matches("--");
            let key = match app {
                // A flag without a variable applies to one start.
                None if it.variable.is_empty() || flag == "config" => String::new(),
                None => flag.to_owned(),
                Some(app) => {
                    let key = flag.strip_prefix(app).and_then(|it| it.strip_prefix('-'));
                    format!("[{app}] {}", key.expect("the flag begins with its application"))
                }
            };
            let (name, variable, key) = (code(&it.name), code(&it.variable), code(&key));
            let (default, meaning) = (code(&it.default), it.meaning());
            writeln!(text, "| {name} | {variable} | {key} | {default} | {meaning} |")
                .expect("it is a text");
        }
    }
    text
}

/// Every verb with its usage, its arguments and its examples.
pub(super) fn command_line() -> String {
    let (top, list) = (help(&[]), help(&["queues".into(), "list".into()]));
    let is_common = |it: &Entry| {
        ["--server", "--data", "--json", "-h"].iter().any(|name| it.name.starts_with(name))
    };
    let common = sections(&list).into_iter().flat_map(|it| it.1).filter(is_common);
    let common: Vec<Entry> = common.collect();
    let mut text = String::from("\n## Common options\n");
    add_table(&common, &mut text);
    for noun in verbs(&top) {
        add_verb(&[noun], &common, &mut text);
    }
    text
}

fn add_table(entries: &[Entry], text: &mut String) {
    if entries.is_empty() {
        return;
    }
    text.push_str("\n| Argument | Default | Meaning |\n|---|---|---|\n");
    for it in entries {
        let (name, default, meaning) = (code(&it.name), code(&it.default), it.meaning());
        writeln!(text, "| {name} | {default} | {meaning} |").expect("it is a text");
    }
}

fn add_verb(verb: &[String], common: &[Entry], text: &mut String) {
    let help = help(verb);
    let (level, name) = ("#".repeat(verb.len() + 1), verb.join(" "));
    let about = prose(help.lines().next().unwrap_or_default());
    write!(text, "\n{level} {name}\n\n{about}.\n").expect("it is a text");
    let below = verbs(&help);
    for it in &below {
        add_verb(&[verb, std::slice::from_ref(it)].concat(), common, text);
    }
    if !below.is_empty() {
        return;
    }
    let usage = help.lines().find_map(|it| it.strip_prefix("Usage: ")).expect("a usage");
    write!(text, "\n```text\n{usage}\n```\n").expect("it is a text");
    if ["serve", "config show"].contains(&&*name) {
        text.push_str("\nIts options are the [settings](settings.md).\n");
    } else {
        let is_own = |it: &&str| ["Arguments", "Options"].contains(it);
        let own = sections(&help).into_iter().filter(|it| is_own(&it.0)).flat_map(|it| it.1);
        let own: Vec<Entry> =
            own.filter(|it| !common.contains(it) && it.name != "-h, --help").collect();
        add_table(&own, text);
    }
    // Notes and examples follow the options.
    let below =
        help.rsplit("\n\n").take_while(|it| !it.starts_with("Options:")).collect::<Vec<_>>();
    for part in below.iter().rev().filter(|it| !it.starts_with("Settings of ")) {
        match part.split_once(":\n") {
            Some(("Example" | "Examples", commands)) => {
                let commands: Vec<&str> = commands.lines().map(str::trim_start).collect();
                write!(text, "\n```sh\n{}\n```\n", commands.join("\n")).expect("it is a text");
            }
            _ => write!(text, "\n{}\n", prose(part)).expect("it is a text"),
        }
    }
}

/// The commands of a document, with the numbers of their lines: in blocks of code and in backticks.
pub(super) fn commands(document: &str) -> Vec<(usize, &str)> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (at, line) in document.lines().enumerate() {
        let line = line.trim_start();
        is_code ^= line.starts_with("```");
        let parts: Vec<&str> = match is_code {
            true => vec![line.strip_prefix("$ ").unwrap_or(line)],
            false => line.split('`').skip(1).step_by(2).collect(),
        };
        let is_command = |it: &&str| *it == "steadfast" || it.starts_with("steadfast ");
        found.extend(parts.into_iter().filter(is_command).map(|it| (at + 1, it)));
    }
    found
}

/// Why a command cannot be right: its verb does not exist, or has no such flag.
pub(super) fn mistake(command: &str) -> Option<String> {
    let mut verb: Vec<String> = Vec::new();
    let mut shown = help(&[]);
    let words: Vec<&str> = command.split_whitespace().take_while(|it| *it != "#").collect();
    for word in words.iter().skip(1) {
        let below = verbs(&shown);
        if below.is_empty() || word.starts_with('-') {
            break;
        }
        if !below.iter().any(|it| it == word) {
            return Some(format!("`{}` has no verb `{word}`", verb.join(" ")));
        }
        verb.push((*word).to_owned());
        shown = help(&verb);
    }
    let flags = words.iter().map(|it| it.split('=').next().unwrap_or_default());
    let is_known = |flag: &str| shown.split_whitespace().any(|it| it == flag);
    let unknown = flags.filter(|it| it.starts_with("--")).find(|it| !is_known(it));
    unknown.map(|it| format!("`{}` has no flag `{it}`", verb.join(" ")))
}
