//! The claims of documents about tests and files are true.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::tidy::{root, texts};

/// A name of this many words is that of a test: nothing else is named by a sentence.
const WORDS_MIN: usize = 4;

/// Every file of ours, by its path from the root.
fn files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    texts(&root(), &mut found);
    let from_root = |path: &PathBuf| {
        let path = path.strip_prefix(root()).unwrap_or(path);
        path.to_string_lossy().replace('\\', "/")
    };
    found.iter().map(|(path, text)| (from_root(path), text.clone())).collect()
}

/// The identifier that a text begins with.
fn identifier(text: &str) -> &str {
    let end = text.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    &text[..end.unwrap_or(text.len())]
}

fn is_test_attribute(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

/// Macros that make tests of their arguments.
fn test_macros(files: &[(String, String)]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, text) in files {
        for part in text.split("macro_rules! ").skip(1) {
            let body = part.split("\n}").next().unwrap_or_default();
            let makes_tests = body
                .lines()
                .any(|it| is_test_attribute(it.trim_start().trim_start_matches("$(").trim_start()));
            if makes_tests && (body.contains("fn $") || body.contains("mod $")) {
                found.insert(identifier(part).to_owned());
            }
        }
    }
    found
}

/// The names of all tests of a file that are run: written out, or passed to a macro.
fn tests_of(text: &str, macros: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[ignore") {
            is_test = false;
        } else if is_test_attribute(line) {
            is_test = true;
        } else if let Some((_, name)) = line.split_once("fn ").filter(|_| is_test) {
            found.insert(identifier(name).to_owned());
            is_test = false;
        }
    }
    for (at, _) in text.match_indices("!(") {
        let path = text[..at].lines().last().unwrap_or_default().trim_start();
        if !macros.contains(path.rsplit("::").next().unwrap_or_default()) {
            continue;
        }
        let given = text[at..].split(')').next().unwrap_or_default();
        let names = given.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let is_written = |it: &&str| text.contains(&format!("fn {it}("));
        found.extend(names.filter(|it| !it.is_empty()).filter(is_written).map(str::to_owned));
    }
    found
}

fn all_tests(files: &[(String, String)]) -> BTreeSet<String> {
    let macros = test_macros(files);
    let rust = files.iter().filter(|it| it.0.ends_with(".rs"));
    rust.flat_map(|it| tests_of(&it.1, &macros)).collect()
}

/// The texts between backticks, outside of blocks of code, with their line numbers.
fn quoted(text: &str) -> Vec<(usize, &str)> {
    let (mut is_code, mut found) = (false, Vec::new());
    for (at, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        if !is_code {
            found.extend(line.split('`').skip(1).step_by(2).map(|it| (at + 1, it)));
        }
    }
    found
}

fn is_snake(text: &str) -> bool {
    let fits = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_';
    !text.is_empty() && text.bytes().all(fits)
}

/// Metrics are snake case as well; all of them have the prefix of the server.
fn is_test_name(text: &str) -> bool {
    let is_long = text.starts_with("hole_") || WORDS_MIN <= text.split('_').count();
    is_snake(text) && is_long && !text.starts_with("steadfast_")
}

/// The documents that make claims.
fn documents(files: &[(String, String)]) -> impl Iterator<Item = &(String, String)> {
    let is_one = |path: &str| {
        let is_below =
            path.starts_with("docs/") && Path::new(path).extension().is_some_and(|it| it == "md");
        ["README.md", "ARCHITECTURE.md"].contains(&path) || is_below
    };
    files.iter().filter(move |it| is_one(&it.0))
}

#[test]
fn every_test_that_a_document_names_is_there() {
    let files = files();
    let tests = all_tests(&files);
    assert!(500 < tests.len(), "{} tests are found: look at how they are read", tests.len());
    let (mut complaints, mut named) = (Vec::new(), 0);
    for (path, text) in documents(&files) {
        for (line, name) in quoted(text).into_iter().filter(|it| is_test_name(it.1)) {
            named += 1;
            if !tests.contains(name) {
                complaints.push(format!("{path}:{line}: there is no test `{name}`"));
            }
        }
    }
    assert!(50 < named, "{named} tests are named: look at how they are read");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_promise_names_its_test() {
    let files = files();
    let tests = all_tests(&files);
    let page = fs::read_to_string(root().join("docs/promises.md")).expect("docs/promises.md");
    let tables = page.split("| Promise | Exactly | Test |").skip(1);
    let rows = tables.flat_map(|it| it.lines().skip(2).take_while(|it| it.starts_with('|')));
    let mut count = 0;
    for row in rows {
        count += 1;
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = quoted(cell).into_iter().map(|it| it.1).collect();
        assert!(!names.is_empty(), "no test in {row}");
        for name in names {
            assert!(tests.contains(name), "there is no test `{name}` in {row}");
        }
    }
    assert!(40 < count, "{count} promises");
}

#[test]
fn every_file_that_a_document_names_is_there() {
    let files = files();
    let rust: Vec<&str> = files.iter().map(|it| &*it.0).filter(|it| it.ends_with(".rs")).collect();
    let mut complaints = Vec::new();
    for (path, text) in documents(&files) {
        for (line, name) in quoted(text) {
            let is_path =
                ["apps/", "bench/", "crates/", "docs/", "examples/", "steadfast/", "tests/"]
                    .iter()
                    .any(|it| name.starts_with(it) && !name.contains([' ', '{', '*']));
            let is_below = |it: &&str| *it == name || it.ends_with(&format!("/{name}"));
            let is_there = match name.ends_with(".rs") {
                true => rust.iter().any(is_below),
                false => !is_path || root().join(name).exists(),
            };
            if !is_there {
                complaints.push(format!("{path}:{line}: there is no `{name}`"));
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// The notes, the files with the tests of their holes, and the number of holes.
const NOTES: &[(&str, &[&str], u32)] = &[
    ("classifying uploads", &["apps/uploads/tests/it/holes_classify.rs"], 11),
    (
        "deleting uploads",
        &["apps/uploads/tests/it/holes_delete.rs", "apps/uploads/tests/it/events.rs"],
        9,
    ),
    ("generations", &["apps/generations/tests/"], 16),
    ("drift", &["apps/drift/tests/"], 12),
    ("the processed flag", &["crates/store/tests/", "crates/core/tests/"], 15),
];

/// The holes in the name of a test: `hole_5_and_9_an_end_is_final` is of two.
fn holes(name: &str) -> Vec<u32> {
    let Some(rest) = name.strip_prefix("hole_") else { return Vec::new() };
    let words = rest.split('_').take_while(|it| *it == "and" || it.parse::<u32>().is_ok());
    words.filter_map(|it| it.parse().ok()).collect()
}

#[test]
fn every_hole_of_a_note_has_a_test_of_its_name() {
    let files = files();
    let macros = test_macros(&files);
    let mut complaints = Vec::new();
    for (note, places, count) in NOTES {
        let is_here = |path: &str| places.iter().any(|it| path.starts_with(it));
        let tests =
            files.iter().filter(|it| is_here(&it.0)).flat_map(|it| tests_of(&it.1, &macros));
        let found: BTreeSet<u32> = tests.flat_map(|it| holes(&it)).collect();
        let missing = (1..=*count).filter(|it| !found.contains(it));
        complaints.extend(missing.map(|it| format!("{note}: no test of hole {it}")));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u32> {
    let end = text.find(|it: char| !it.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

#[test]
fn every_fault_is_planted_and_has_a_row_with_its_test() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect(path);
    let run = read("tests/faults/run");
    let count = run.lines().find_map(|it| number(it.strip_prefix("count=")?)).expect("a count");
    let all: BTreeSet<u32> = (1..=count).collect();
    let patch = read("tests/faults/faults.patch");
    let added: Vec<&str> = patch.lines().filter_map(|it| it.strip_prefix('+')).collect();
    let added = added.join("\n");
    // In code `fault(12)`, in a statement of SQL `planted(12, …)`.
    let calls = ["fault(", "planted("].into_iter().flat_map(|it| added.split(it).skip(1));
    let planted: BTreeSet<u32> = calls.filter_map(|it| number(it.trim_start())).collect();
    assert_eq!(planted, all, "tests/faults/faults.patch");
    let page = read("docs/internals/testing.md");
    let (_, list) = page.split_once("\n## Faults").expect("the list of faults");
    // As tests/faults/run finds the test of a fault.
    let rows = list.lines().filter_map(|row| {
        let (_, test) = row.strip_suffix("` |")?.rsplit_once(" `")?;
        number(row.strip_prefix("| ")?).filter(|_| is_test_name(test))
    });
    assert_eq!(rows.collect::<BTreeSet<u32>>(), all, "docs/internals/testing.md");
}

#[test]
fn a_test_is_found_however_it_is_written_and_nothing_else_is() {
    let source = concat!(
        "macro_rules! laws {\n    ($($law:ident),*) => {\n",
        "        $(#[test]\n        fn $law() {})*\n    };\n}\n",
        "laws!(on sqlite, postgres:\n    one_of_three,\n    two_of_three,\n    not_written\n);\n",
        "fn one_of_three() {}\nasync fn two_of_three(lab: Lab) {}\n",
        "#[test]\nfn written_out() {}\n",
        "#[tokio::test(flavor = \"x\")]\nasync fn waits() {}\n",
        "#[test]\n#[ignore = \"no\"]\nfn ignored() {}\n",
        "// #[test]\n// fn commented_out() {}\nfn helper() {}\n",
    );
    let files = vec![("a.rs".to_owned(), source.to_owned())];
    let expected = ["one_of_three", "two_of_three", "waits", "written_out"];
    assert_eq!(all_tests(&files).iter().collect::<Vec<_>>(), expected);
    let text =
        "`a_b` and `hole_1_x`\n```\n`not_this_one_here`\n```\n`a_name_of_many_words` `A_B_C_D`";
    let names: Vec<&str> = quoted(text).into_iter().map(|it| it.1).collect();
    let named: Vec<&str> = names.into_iter().filter(|it| is_test_name(it)).collect();
    assert_eq!(named, ["hole_1_x", "a_name_of_many_words"]);
}
