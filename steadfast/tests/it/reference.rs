//! The tables of `docs/reference` are made from the program: its help, its OpenAPI document, its
//! metrics and its limits. `./test bless` writes them into the pages; the text around them is
//! written by hand.

mod help;
mod limits;

use std::{collections::BTreeMap, fmt::Write, fs, path::PathBuf};

use serde_json::Value;
use steadfast_api::{Code, Operation, objects::QueryObject};

use crate::{harness::Server, snapshots::assert_same};

const BEGIN: &str = "<!-- generated: begin -->";
const END: &str = "<!-- generated: end -->";

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Compares the generated part of a page with a text.
#[track_caller]
fn assert_generated(page: &str, text: &str) {
    let path = root().join("docs/reference").join(page);
    let kept = fs::read_to_string(&path).expect("the page exists");
    let (before, rest) = kept.split_once(BEGIN).expect("the generated part begins");
    let (_, after) = rest.split_once(END).expect("the generated part ends");
    assert_same(&path, &format!("{before}{BEGIN}\n{}\n\n{END}{after}", text.trim_end()));
}

/// A text as code, or nothing.
fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) }
}

/// Texts as code, in a row.
fn codes<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(code).collect::<Vec<_>>().join(", ")
}

/// A text for a cell of a table: on one line, with neither bars nor tags in it.
fn prose(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let parts = text.split('`').enumerate();
    // The odd parts are code.
    let parts =
        parts.map(|(at, it)| if at.is_multiple_of(2) { it.replace('<', "\\<") } else { it.into() });
    parts.collect::<Vec<String>>().join("`")
}

#[test]
fn the_page_of_settings_lists_every_flag_with_variable_key_and_default() {
    assert_generated("settings.md", &help::settings());
}

#[test]
fn the_page_of_the_command_line_lists_every_verb_with_its_arguments() {
    assert_generated("command-line.md", &help::command_line());
}

#[test]
fn the_page_of_limits_has_the_values_of_the_code() {
    assert_generated("limits.md", &limits::tables());
}

#[test]
fn pages_about_access_say_what_the_server_does() {
    let page = |name: &str| fs::read_to_string(root().join("docs").join(name)).expect("a page");
    let server = Server::with(tempfile::tempdir().expect("a folder"), &["--access", "closed"]);
    let operations = page("operations.md");
    for file in fs::read_dir(server.folder()).expect("the data folder") {
        let file = file.expect("an entry");
        let slash = if file.path().is_dir() { "/" } else { "" };
        let name = format!("`{}{slash}`", file.file_name().display());
        assert!(operations.contains(&name), "operations.md does not name the file {name}");
    }
    let role = format!("role `{}`", QueryObject::NEEDS.name());
    assert!(page("guides/sql.md").contains(&role), "the page names another role");
    // Roles are enforced: see the matrix of all routes and credentials.
    for (name, untrue) in [
        ("reference/http.md", "does not enforce"),
        ("programs.md", "not here yet"),
        ("programs.md", "control in the routes yet"),
    ] {
        assert!(!page(name).contains(untrue), "{name}: {untrue}");
    }
}

#[test]
fn every_command_of_operations_and_guides_has_its_verb_and_flags() {
    let docs = root().join("docs");
    let mut pages = vec![docs.join("operations.md")];
    let guides = fs::read_dir(docs.join("guides")).expect("the guides");
    pages.extend(guides.map(|it| it.expect("an entry").path()));
    let (mut count, mut complaints) = (0, Vec::new());
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        for (line, command) in help::commands(&text) {
            count += 1;
            let mistake = help::mistake(command);
            complaints.extend(mistake.map(|it| format!("{}:{line}: {it}", page.display())));
        }
    }
    assert!(30 < count, "{count} commands are found: look at how they are read");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    assert!(help::mistake("steadfast queues sned mail").is_some());
    assert!(help::mistake("steadfast queues send mail --bdy 1").is_some());
}

#[test]
fn the_page_of_http_lists_every_operation_with_role_and_errors() {
    let document = Server::empty().json("/openapi.json");
    let mut tables = BTreeMap::<&str, String>::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let noun = operation["tags"][0].as_str().expect("a noun");
            let table = tables.entry(noun).or_insert_with(|| {
                format!("\n## {noun}\n\n| Operation | Role | Body | Errors |\n|---|---|---|---|\n")
            });
            table.push_str(&operation_row(&document, method, path, operation));
        }
    }
    let general = codes(Code::GENERAL.iter().map(|it| it.tag()));
    let of_changes = codes(Code::OF_CHANGES.iter().map(|it| it.tag()));
    let text = format!(
        "\nErrors of every operation: {general}.\nErrors of every operation under `/v1` that \
         changes something: {of_changes}.\n{}",
        tables.into_values().collect::<String>()
    );
    assert_generated("http.md", &text);
}

#[test]
fn the_page_of_error_codes_has_a_row_for_each() {
    let general = codes(Code::GENERAL.iter().map(|it| it.tag()));
    let mut text = format!(
        "\nEvery operation may answer {general}.\nThe other codes that an operation may answer are \
         listed for it at `/docs`, and in `/openapi.json` as `x-error-codes` and by status.\n\n\
         | Code | Status | Retry | Nothing changed | Meaning |\n|---|---|---|---|---|\n"
    );
    let yes = |it: bool| if it { "yes" } else { "no" };
    for code in Code::ALL {
        let (retry, nothing) = (yes(code.is_retryable()), yes(code.surely_unapplied()));
        let (tag, status, meaning) = (code.tag(), code.status(), code.meaning());
        writeln!(text, "| `{tag}` | {status} | {retry} | {nothing} | {meaning} |")
            .expect("it is a text");
    }
    assert_generated("errors.md", &text);
}

fn operation_row(document: &Value, method: &str, path: &str, operation: &Value) -> String {
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let named = |place: &'static str| {
        let found = parameters.iter().filter(move |it| it["in"] == place);
        found.filter_map(|it| it["name"].as_str())
    };
    let query: Vec<&str> = named("query").collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let takes_key = named("header").any(|it| it == "Idempotency-Key");
    let key = if takes_key { " Takes a key." } else { "" };
    let summary = operation["summary"].as_str().unwrap_or_default().trim_end_matches('.');
    let (method, summary) = (method.to_uppercase(), prose(summary));
    let role = operation["x-needs-role"].as_str().expect("a role");
    let body = body_fields(document, operation);
    let errors = operation["x-error-codes"].as_array().map_or("its own".to_owned(), |all| {
        let of_changes = Code::OF_CHANGES.map(Code::tag);
        let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
        let is_change = of_changes.iter().all(|it| all.contains(it));
        codes(all.into_iter().filter(|it| !is_change || !of_changes.contains(it)))
    });
    format!("| `{method} {path}{query}`<br>{summary}.{key} | {role} | {body} | {errors} |\n")
}

/// The fields of the body of an operation, or its media type.
fn body_fields(document: &Value, operation: &Value) -> String {
    let Some(content) = operation["requestBody"]["content"].as_object() else {
        return String::new();
    };
    let (media_type, content) = content.iter().next().expect("a media type");
    let schema = &content["schema"];
    let name = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next());
    let schema = name.map_or(schema, |it| &document["components"]["schemas"][it]);
    let mut fields = Vec::new();
    let parts = ["oneOf", "allOf"].iter().filter_map(|it| schema[it].as_array()).flatten();
    for part in parts.chain([schema]) {
        fields.extend(part["properties"].as_object().into_iter().flat_map(|it| it.keys()));
    }
    if fields.is_empty() {
        return code(media_type);
    }
    codes(fields.into_iter().map(String::as_str))
}

#[test]
fn the_page_of_metrics_lists_every_name_of_a_scrape() {
    let server = Server::empty();
    let sent = server.post_json("/v1/queues/q/messages", "{\"body\":1}", &[]);
    assert_eq!(sent.status, 201, "{}", sent.body);
    let scrape = server.get("/metrics").body;
    let comments = |kind: &str| {
        let prefix = format!("# {kind} ");
        let found = scrape.lines().filter_map(|it| it.strip_prefix(&prefix)?.split_once(' '));
        found.map(|(name, text)| (name.to_owned(), text.to_owned())).collect::<Vec<_>>()
    };
    let kinds: BTreeMap<String, String> = comments("TYPE").into_iter().collect();
    let mut text = String::from("\n| Name | Type | Labels | Meaning |\n|---|---|---|---|\n");
    let mut names = Vec::new();
    for (name, about) in comments("HELP") {
        let kind = &kinds[&name];
        let name = if kind == "counter" { format!("{name}_total") } else { name };
        // The patterns of routes have braces, too.
        let labels = scrape.lines().find_map(|it| it.strip_prefix(&format!("{name}{{")));
        let labels = labels.and_then(|it| it.rsplit_once('}')).map_or("", |it| it.0);
        let labels = labels.split(',').filter_map(|it| Some(it.split_once('=')?.0));
        let (labels, about) = (codes(labels), prose(about.trim_end_matches('.')));
        writeln!(text, "| `{name}` | {kind} | {labels} | {about} |").expect("it is a text");
        names.push(name);
    }
    for line in scrape.lines().filter(|it| !it.starts_with('#')) {
        let name = line.split([' ', '{']).next().unwrap_or_default();
        assert!(names.iter().any(|it| it == name), "{name} has no description");
    }
    assert_generated("metrics.md", &text);
}
