//! Words that must not come back: invented vocabulary, pictures, and comments without a subject.
//!
//! The changelog and the decisions may name old words; a decision explains why one was replaced.

use std::path::Path;

use crate::tidy;

/// Paths that may name old words. This file has the list.
const HISTORY: &[&str] = &["CHANGELOG.md", "docs/decisions/", "tests/it/words.rs"];

/// Phrases in any case, as whole words, and their replacements.
const PHRASES: &[(&str, &str)] = &[
    ("who asks", "callers, clients"),
    ("who begins", "new runs"),
    ("who comes", "new connections, clients that reconnect"),
    ("who goes on", "resumed runs"),
    ("who holds", "holders, consumers"),
    ("who pulls", "consumers that pull"),
    ("who reads", "readers"),
    ("who waits", "waiting callers"),
    ("whoever", "a subject that exists in the code"),
    ("what waits", "pending messages, waiting commits"),
    ("what is due", "due work"),
    ("what was said", "the text or event"),
    ("is told", "gets, is notified"),
    ("are told", "get, are notified"),
    ("was told", "got, was notified"),
    ("were told", "got, were notified"),
    ("told apart", "distinguished"),
    ("hears of", "is notified of"),
    ("hear of", "is notified of"),
    ("heard of", "notified of"),
    ("comes again", "reconnects, is delivered again"),
    ("come again", "reconnect, retry"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("went on", "continued"),
    ("stands still", "is paused, does not advance"),
    ("stand still", "pause"),
    ("begins anew", "restarts"),
    ("begin anew", "restart"),
    ("in hand", "in flight"),
    ("under way", "in flight, in progress"),
    ("lost from sight", "lost"),
    ("goodbye", "clean shutdown"),
    ("sign of life", "heartbeat"),
    ("signs of life", "heartbeats"),
    ("by chance", "randomly"),
    ("is no matter", "is ignored"),
    ("give or take", "plus, at most"),
    ("went away", "was lost"),
    ("for so long", "a bound with a unit"),
];

/// Identifiers, in this case, and their replacements.
const NAMES: &[(&str, &str)] = &[
    ("Arrival", "ConnectParams"),
    ("Beside", "Metadata"),
    ("Courier", "DeliveryWorker"),
    ("Desk", "QueueState"),
    ("Flight", "InFlightCommits"),
    ("Happening", "MessageEvent"),
    ("Hands", "InFlight"),
    ("Mould", "Template"),
    ("Parcel", "Batch"),
    ("Patience", "ConsumerTime"),
    ("Precedence", "PriorityQueue"),
    ("RemoteDoor", "RemoteProgram"),
    ("Shelf", "PendingIndex"),
    ("Sight", "Classifier"),
    ("Studio", "Providers"),
    ("Turnstile", "StartOrder"),
    ("UnderWay", "AttemptInFlight"),
    ("Unopened", "a state of the object"),
];

/// Words that a comment must not begin with: it names a subject of the code instead.
const OPENINGS: &[&str] = &["What", "Who", "So"];

fn is_part(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

/// Whether a line has these words, with nothing that belongs to them on either side.
fn has_words(line: &str, words: &str) -> bool {
    line.match_indices(words).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + words.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// The first word of the comment in a line, if it is one.
fn opening(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let comment = ["///", "//!", "//", "--"].iter().find_map(|it| line.strip_prefix(it))?;
    comment.trim_start().split(|it| !is_part(it)).next()
}

/// Words and their replacements.
type Words = Vec<(&'static str, &'static str)>;

/// The phrases and the names that occur in a text, in words or parts of them. Most files have few.
fn occurring(text: &str) -> (Words, Words) {
    let lower = text.to_lowercase();
    let phrases = PHRASES.iter().filter(|it| lower.contains(it.0));
    let names = NAMES.iter().filter(|it| text.contains(it.0));
    (phrases.copied().collect(), names.copied().collect())
}

/// The complaints about one line: the words, and their replacement.
fn complaints(line: &str, (phrases, names): &(Words, Words)) -> Vec<String> {
    let lower = line.to_lowercase();
    let phrases = phrases.iter().filter(|(words, _)| has_words(&lower, words));
    let names = names.iter().filter(|(name, _)| has_words(line, name));
    let mut found: Vec<String> = phrases
        .chain(names)
        .map(|(words, instead)| format!("`{words}`: write {instead}"))
        .collect();
    if let Some(word) = opening(line).filter(|it| OPENINGS.contains(it)) {
        found.push(format!("a comment begins with `{word}`: name the subject"));
    }
    found
}

/// Whether the comment of a line continues the sentence of the line before.
fn continues(before: Option<&str>, line: &str) -> bool {
    let text = |it: &str| opening(it).is_some() && !it.trim_end().ends_with(['.', ':', '!', '?']);
    before.is_some_and(text) && opening(line).is_some()
}

fn check(path: &Path, text: &str, found: &mut Vec<String>) {
    let (mut before, words) = (None, occurring(text));
    for (index, line) in text.lines().enumerate() {
        let is_inside = continues(before, line);
        let of_line = complaints(line, &words);
        let of_line = of_line.iter().filter(|it| !is_inside || !it.starts_with("a comment begins"));
        found.extend(of_line.map(|it| format!("{}:{}: {it}", path.display(), index + 1)));
        before = Some(line);
    }
}

#[test]
fn invented_words_do_not_come_back() {
    let root = tidy::root();
    let mut texts = Vec::new();
    tidy::texts(&root, &mut texts);
    assert!(500 < texts.len(), "only {} files were checked", texts.len());
    let mut found = Vec::new();
    for (path, text) in &texts {
        let path = path.strip_prefix(&root).unwrap_or(path);
        let is_history = |it: &&str| path.to_string_lossy().starts_with(*it);
        if !HISTORY.iter().any(is_history) {
            check(path, text, &mut found);
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn the_check_of_words_finds_phrases_names_and_openings_and_no_parts_of_words() {
    let one = |line: &str| complaints(line, &occurring(line)).len();
    assert_eq!(one("/// The run Goes On after a pause."), 1);
    assert_eq!(one("let text = \"the client is told\";"), 1);
    assert_eq!(one("struct Courier;"), 1);
    assert_eq!(one("    // What waits is written."), 2);
    assert_eq!(one("-- So the table is small."), 1);
    for fine in [
        "fn so_far() {}",
        "/// A courier of the hotel.",
        "/// Whatever the size.",
        "struct CourierOptions;",
        "//! Commits in flight.",
        "let what = 1; // the result",
        "the algorithm",
    ] {
        assert_eq!(complaints(fine, &occurring(fine)), Vec::<String>::new(), "{fine}");
    }
    let mut found = Vec::new();
    let text = "/// The store keeps the reply.\n/// So a repetition is harmless.\n";
    check(Path::new("a.rs"), text, &mut found);
    assert_eq!(found, ["a.rs:2: a comment begins with `So`: name the subject"]);
    check(Path::new("a.rs"), "// Of the two clocks\n// What counts is the first.\n", &mut found);
    assert_eq!(found.len(), 1, "a line within a sentence is no opening: {found:?}");
}
