//! Texts that people and programs depend on, as files: `--help` of every verb, the OpenAPI
//! document, and a problem for each error code. `./test bless` writes the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
    sync::Mutex,
};

use serde_json::{Value, json};
use steadfast_api::Code;

use crate::{
    harness::{Server, output, stderr, stdout, steadfast},
    runs::{run_until, start},
    seed,
};

/// Compares a text with the file of this name.
#[track_caller]
fn assert_kept(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    assert_same(&folder.join(name), text);
}

/// Compares a text with a file, or writes it there.
#[track_caller]
pub(crate) fn assert_same(path: &Path, text: &str) {
    if std::env::var_os("STEADFAST_TEST_BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
        return;
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    if kept == text {
        return;
    }
    let at = kept.lines().zip(text.lines()).take_while(|(kept, now)| kept == now).count();
    let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
    panic!(
        "{} differs from line {} on:\n  kept: {}\n  now:  {}\nIf that is meant, run \
         `./test bless`, and look at the difference.",
        path.display(),
        at + 1,
        line(&kept),
        line(text)
    );
}

/// The help of a verb. Each is asked for once: pages name the same verbs again and again.
pub(crate) fn help(verb: &[String]) -> String {
    static SHOWN: Mutex<BTreeMap<Vec<String>, String>> = Mutex::new(BTreeMap::new());
    let mut all = SHOWN.lock().expect("no help has failed");
    if let Some(help) = all.get(verb) {
        return help.clone();
    }
    let mut command = steadfast();
    command.env_remove("STEADFAST_S3_LISTEN").args(verb).arg("--help");
    let shown = output(&mut command);
    assert!(shown.status.success(), "{verb:?}: {}", stderr(&shown));
    all.insert(verb.to_vec(), stdout(&shown));
    stdout(&shown)
}

/// The verbs that a help lists.
pub(crate) fn verbs(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|it| *it != "Commands:").skip(1);
    let lines = lines.take_while(|it| it.starts_with("  "));
    let verbs =
        lines.filter(|it| !it.starts_with("   ")).filter_map(|it| it.split_whitespace().next());
    verbs.filter(|it| *it != "help").map(str::to_owned).collect()
}

/// Adds the help of a verb, and of those below it.
fn add_help(verb: &[String], text: &mut String) {
    let help = help(verb);
    let line = verb.join(" ");
    writeln!(text, "$ steadfast {line} --help\n{}\n", help.trim_end()).expect("it is a text");
    for below in verbs(&help) {
        add_help(&[verb, &[below]].concat(), text);
    }
}

#[test]
fn the_help_of_every_verb_matches_its_snapshot() {
    let top = help(&[]);
    let nouns = verbs(&top);
    assert!(nouns.len() > 10, "{nouns:?}");
    assert_kept("help/steadfast.txt", &format!("$ steadfast --help\n{top}"));
    for noun in nouns {
        let mut text = String::new();
        add_help(std::slice::from_ref(&noun), &mut text);
        assert_kept(&format!("help/{noun}.txt"), &text);
    }
}

#[test]
fn the_openapi_document_matches_its_snapshot() {
    let mut document = Server::empty().json("/openapi.json");
    document["info"]["version"] = json!("VERSION");
    let text = serde_json::to_string_pretty(&document).expect("JSON");
    assert_kept("openapi.json", &format!("{text}\n"));
}

/// A request whose response is a problem.
#[derive(Default)]
struct Provocation {
    line: String,
    headers: Vec<&'static str>,
    body: String,
}

fn ask(line: &str) -> Provocation {
    Provocation { line: line.into(), ..Provocation::default() }
}

impl Provocation {
    fn header(mut self, header: &'static str) -> Self {
        self.headers.push(header);
        self
    }

    fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    /// Whether the document declares this code for its operation.
    fn declares(&self, document: &Value, code: Code) -> bool {
        let (method, path) = self.line.split_once(' ').expect("a method and a path");
        let path = path.split('?').next().unwrap_or_default();
        let fits = |template: &str| {
            let (mut parts, mut names) = (path.split('/'), template.split('/').peekable());
            while let Some(name) = names.next() {
                let takes_rest = names.peek().is_none() && ["{id}", "{key}"].contains(&name);
                match parts.next() {
                    Some(part) if part == name || name.starts_with('{') => {}
                    Some(_) | None => return false,
                }
                if takes_rest && template.starts_with("/v1/streams/") {
                    return true;
                }
            }
            parts.next().is_none()
        };
        let paths = document["paths"].as_object().expect("paths");
        let (_, item) = paths.iter().find(|it| fits(it.0)).expect("an operation");
        let codes = item[method.to_lowercase()]["x-error-codes"].as_array().expect("codes");
        codes.contains(&json!(code.tag()))
    }

    /// Sends the request, and returns the response.
    fn problem(&self, server: &Server, code: Code) -> String {
        let Self { line, headers, body } = self;
        let is_host = |it: &&str| it.starts_with("host:");
        let host = format!("host: {}", server.host());
        let host = headers.iter().find(|it| is_host(it)).map_or(&*host, |it| it);
        let mut request = format!("{line} HTTP/1.1\r\n{host}\r\nconnection: close\r\n");
        for header in headers.iter().filter(|it| !is_host(it)) {
            write!(request, "{header}\r\n").expect("it is a text");
        }
        write!(request, "content-length: {}\r\n\r\n{body}", body.len()).expect("it is a text");
        let answer = server.raw(&request);
        let (head, json) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let mut problem: Value = serde_json::from_str(json)
            .unwrap_or_else(|error| panic!("{line}: {error} in {answer}"));
        assert_eq!(problem["code"], code.tag(), "{line}: {answer}");
        assert!(head.contains("application/problem+json"), "{head}");
        problem["requestId"] = json!("ID");
        let problem = serde_json::to_string_pretty(&problem).expect("JSON");
        let problem = problem.replace(server.host(), "HOST");
        let shown: String = match body.len() {
            0 => String::new(),
            1..200 => format!("{body}\n"),
            len => format!("({len} bytes)\n"),
        };
        let headers: String = headers.iter().map(|it| format!("{it}\n")).collect();
        format!("{line}\n{headers}{shown}\n{problem}\n\n")
    }
}

/// A store with one item of everything that the requests need.
fn furnished() -> Server {
    let server = Server::seeded();
    let ok = |status: u16| assert!(status < 300, "{status}");
    ok(server.post_json("/v1/objects/counter/a/calls/increment", "{\"by\":1}", &[]).status);
    ok(start(&server, "", "o-1").status);
    run_until(&server, "o-1", "waiting");
    ok(start(&server, "", "o-2").status);
    ok(server.post("/v1/workflows/order/runs/o-2/terminate", &[]).status);
    ok(server.put_json("/v1/queues/small", &json!({ "maxMessages": 1 })).status);
    ok(server.post_json("/v1/queues/small/messages", "{\"body\":1}", &[]).status);
    let key = [("idempotency-key", "k")];
    ok(server.post_json("/v1/queues/keyed/messages", "{\"body\":1}", &key).status);
    ok(server.put_json("/v1/buckets/photos", &json!({ "maxBlobBytes": 10 })).status);
    ok(server.put_bytes("/v1/buckets/photos/objects/a", b"abc", &[]).status);
    server
}

/// One request for each code that a request can provoke.
fn provocations() -> Vec<(Code, Provocation)> {
    let early =
        r#"{"type":"TrafficFineSystemNumberGenerated","data":{"policeReportId":"r","number":"n"}}"#;
    let photos = "/v1/buckets/photos";
    vec![
        (Code::BadRequest, ask("GET /v1/streams?limit=x")),
        (Code::InvalidInput, ask("POST /v1/queues/q/messages").body(r#"{"messages":[]}"#)),
        (Code::InvalidName, ask("PUT /v1/buckets/Photos").body("{}")),
        (
            Code::InvalidKey,
            ask("POST /v1/queues/q/messages").header("idempotency-key: ").body(r#"{"body":1}"#),
        ),
        (
            Code::MalformedMessage,
            ask("POST /v1/objects/counter/a/calls/increment").body(r#"{"by":"x"}"#),
        ),
        (Code::ForwardedInOpenMode, ask("GET /v1/queues").header("x-forwarded-for: 203.0.113.9")),
        (Code::ForeignHost, ask("GET /v1/queues").header("host: example.org")),
        (Code::ForeignOrigin, ask("POST /v1/queues").header("origin: http://example.org")),
        (Code::RouteNotFound, ask("GET /v1/nothing")),
        (Code::ClassNotFound, ask("POST /v1/objects/nothing/a/calls/read")),
        (Code::ObjectNotFound, ask("GET /v1/objects/counter/nobody")),
        (Code::TurnNotFound, ask("GET /v1/objects/counter/a/turns/99")),
        (Code::MessageNotFound, ask("POST /v1/objects/counter/a/calls/nothing")),
        (Code::WorkflowNotFound, ask("GET /v1/workflows/nothing/runs/o-1")),
        (Code::RunNotFound, ask("GET /v1/workflows/order/runs/nothing")),
        (
            Code::StepNotFound,
            ask("POST /v1/workflows/order/runs/o-2/restart").body(r#"{"from":"nothing"}"#),
        ),
        (Code::ProcessNotFound, ask("GET /v1/processes/nothing")),
        (Code::InstanceNotFound, ask("GET /v1/processes/group-checkout/nothing")),
        (Code::QueueNotFound, ask("GET /v1/queues/nothing")),
        (Code::BucketNotFound, ask("GET /v1/buckets/nothing")),
        (Code::BlobNotFound, ask(&format!("GET {photos}/objects/nothing"))),
        (Code::RuleNotFound, ask(&format!("DELETE {photos}/rules/nothing"))),
        (Code::StreamNotFound, ask("GET /v1/streams/stream/a/nothing")),
        (Code::KeyNotFound, ask("DELETE /v1/keys/nothing")),
        (Code::TokenNotFound, ask("DELETE /v1/tokens/nothing")),
        (Code::SessionNotFound, ask("DELETE /v1/sessions/nothing")),
        (Code::WrongMethod, ask("PATCH /v1/queues")),
        (Code::Conflict, ask(&format!("DELETE {photos}"))),
        (Code::WrongStatus, ask("POST /v1/workflows/order/runs/o-1/restart")),
        (
            Code::KeyReused,
            ask("POST /v1/queues/keyed/messages").header("idempotency-key: k").body("{\"body\":2}"),
        ),
        (
            Code::PreconditionFailed,
            ask(&format!("PUT {photos}/objects/a")).header("if-match: \"x\"").body("abc"),
        ),
        (Code::TooLarge, ask(&format!("PUT {photos}/objects/a")).body("more than 10 bytes")),
        (
            Code::RangeNotSatisfiable,
            ask(&format!("GET {photos}/objects/a")).header("range: bytes=9-"),
        ),
        (Code::UpgradeRequired, ask("GET /v1/objects/chat/a/connect")),
        (Code::Refused, ask("POST /v1/processes/traffic-fine/r/inputs").body(early)),
        (
            Code::SqlFailed,
            ask("POST /v1/objects/counter/a/sql").body(r#"{"sql":"SELECT nothing"}"#),
        ),
        (Code::QueueFull, ask("POST /v1/queues/small/messages").body("{\"body\":1}")),
    ]
}

/// Codes that none of these requests provokes, and why.
const UNPROVOKED: &[(Code, &str)] = &[
    (Code::ReadOnly, "needs `inspect`: the next test asks one"),
    (Code::Corrupt, "needs a damaged store: the next test asks one"),
    (Code::NotModified, "its answer has no body: bucket_bytes.rs looks at it"),
    (Code::ChecksumMismatch, "only the S3 API takes checksums, and answers in XML"),
    (Code::UploadNotFound, "only the S3 API has uploads in parts, and answers in XML"),
    (Code::TlsNeeded, "needs a port with TLS: transport.rs"),
    (Code::TokenNeeded, "needs closed access: access.rs and the matrix of all routes"),
    (Code::TokenUnknown, "needs closed access: access.rs and the matrix of all routes"),
    (Code::TokenExpired, "needs closed access: access.rs and the matrix of all routes"),
    (Code::TokenRevoked, "needs closed access: access.rs and the matrix of all routes"),
    (Code::RoleNeeded, "needs closed access: access.rs and the matrix of all routes"),
    (Code::ScopeNeeded, "needs closed access: access.rs and the matrix of all routes"),
    (Code::RateLimited, "takes a thousand requests in a second: the unit test of rates"),
    (Code::SlowRequest, "takes as long as a slow client has: bad_clients.rs"),
    (Code::Busy, "takes hundreds of connections: run_live.rs"),
    (Code::ServerFull, "takes a thousand requests at a time: bad_clients.rs"),
    (Code::BlobDamaged, "needs a damaged file: damaged_blobs.rs"),
    (Code::BlobMissing, "needs a missing file: damaged_blobs.rs"),
    (Code::Contended, "takes two requests in one moment"),
    (Code::TurnRolledBack, "no shipped class exceeds a limit: core's tests of turns"),
    (Code::HandlerPanicked, "no shipped class panics: core's tests of objects"),
    (Code::MigrationFailed, "no shipped class has a migration that fails: core's tests"),
    (Code::Internal, "is a defect of the server"),
    (Code::DiskFull, "needs a full disk: small_disk.rs"),
    (Code::QuotaNotFound, "quotas.rs removes a quota and asks for it"),
    (Code::QuotaTooLarge, "needs a quota: quotas.rs"),
    (Code::QuotaSpend, "needs a quota: quotas.rs"),
    (Code::QuotaBytes, "needs a quota: quotas.rs"),
    (Code::QuotaObjects, "needs a quota: quotas.rs"),
    (Code::StoreUnavailable, "needs a database that is away: outage.rs"),
    (Code::SealKeyMissing, "needs a server without its seal key: secrets.rs"),
    (Code::TurnLost, "needs a store that refuses a turn: core's tests of objects"),
    (Code::OutcomeUnknown, "needs a database that is lost during a commit: the store's tests"),
    (Code::Fenced, "needs a second owner: cluster.rs"),
    (Code::CommitsLost, "needs a database that lost commits: failover.rs"),
    (Code::StorageFailed, "needs a disk that fails: the store's tests"),
    (Code::Closed, "needs a server that is stopping: live_ends.rs"),
];

#[test]
fn each_problem_matches_its_snapshot_and_every_code_is_covered() {
    let provocations = provocations();
    let asked = provocations.iter().map(|it| it.0).chain(UNPROVOKED.iter().map(|it| it.0));
    let asked: Vec<Code> = asked.collect();
    let once: BTreeSet<Code> = asked.iter().copied().collect();
    assert_eq!(asked.len(), once.len(), "a code is named twice");
    let missing: Vec<&Code> = Code::ALL.iter().filter(|it| !once.contains(it)).collect();
    assert!(missing.is_empty(), "neither provoked nor explained: {missing:?}");
    let server = furnished();
    let text: String = provocations.iter().map(|(code, it)| it.problem(&server, *code)).collect();
    assert_kept("problems.txt", &text);
    let document = server.json("/openapi.json");
    for (code, it) in &provocations {
        // These two belong to no operation.
        let is_general =
            [Code::RouteNotFound, Code::WrongMethod].contains(code) || Code::GENERAL.contains(code);
        assert!(is_general || it.declares(&document, *code), "{}: {code:?}", it.line);
    }
}

#[test]
fn problems_of_a_failing_store_match_their_snapshot() {
    let server = Server::empty();
    let counted = server.post_json("/v1/objects/counter/a/calls/increment", "{\"by\":1}", &[]);
    assert_eq!(counted.status, 200, "{}", counted.body);
    let sent = server.post_json("/v1/queues/q/messages", "{\"body\":1}", &[]);
    assert_eq!(sent.status, 201, "{}", sent.body);
    let folder = server.kill();
    seed::damage_turn(folder.path());
    let mut command = steadfast();
    command.args(["inspect", "--listen", "127.0.0.1:0"]);
    let Ok(server) = Server::begin(command, folder) else { panic!("it greets") };
    let read_only = ask("POST /v1/queues/q/messages").body("{\"body\":1}");
    let damaged = ask("GET /v1/objects/counter/a/export");
    let text =
        read_only.problem(&server, Code::ReadOnly) + &damaged.problem(&server, Code::Corrupt);
    // A purge takes many commits, and the first is refused.
    let purge = ask("POST /v1/queues/q/purge");
    let text = text + &purge.problem(&server, Code::ReadOnly);
    assert_kept("problems_of_trouble.txt", &text);
}
