//! The limits that a user can exceed, with their values from the source.

use std::{fmt::Write, fs, path::Path};

use super::root;

/// The subject of a limit, the file or folder of its constant, the name of the constant, and the
/// consequence of exceeding it.
type Limit = (&'static str, &'static str, &'static str, &'static str);

const STORE: &str = "crates/store/src/limits.rs";
const OBJECTS: &str = "crates/core/src/object/options.rs";
const LIVE: &str = "crates/core/src/object/live.rs";
const QUERY: &str = "crates/core/src/object/inspect";
const WORKFLOWS: &str = "crates/core/src/workflow";
const QUEUES: &str = "crates/core/src/queue";
const BLOBS: &str = "crates/bucket/src";
const S3: &str = "crates/s3/src";
const SERVER: &str = "crates/server/src";
const GENERATIONS: &str = "apps/generations/src";

const LIMITS: &[(&str, &[Limit])] = &[
    (
        "Messages and commits",
        &[
            ("Data of a message", STORE, "DATA_BYTES_MAX", "`invalid_input`"),
            ("Metadata of a message", STORE, "METADATA_BYTES_MAX", "`invalid_input`"),
            ("Nesting of JSON, in levels", STORE, "JSON_DEPTH_MAX", "`invalid_input`"),
            ("Type of a message", STORE, "TYPE_BYTES_MAX", "`invalid_input`"),
            ("Name of a class", STORE, "CLASS_BYTES_MAX", "`invalid_name`"),
            (
                "Name of an object, process instance or stream",
                STORE,
                "NAME_BYTES_MAX",
                "`invalid_name`",
            ),
            ("Idempotency key", STORE, "KEY_BYTES_MAX", "`invalid_key`"),
            (
                "Lifetime of an idempotency key",
                "crates/store/src/commit.rs",
                "KEEP",
                "the request counts as a new one",
            ),
            ("Stored text of an error", STORE, "ERROR_BYTES_MAX", "the rest is cut off"),
            ("Writes of one commit", STORE, "WRITES_MAX", "`invalid_input`"),
            ("Bytes of one commit", STORE, "COMMIT_BYTES_MAX", "`invalid_input`"),
            ("Commits that wait for the writer", STORE, "WAITING_COMMITS_MAX", "`busy`"),
            ("Bytes of commits that wait for the writer", STORE, "WAITING_BYTES_MAX", "`busy`"),
        ],
    ),
    (
        "Objects",
        &[
            ("Database of one object", OBJECTS, "database_bytes_max", "`turn_rolled_back`"),
            ("Bytes that one turn changes", OBJECTS, "delta_bytes_max", "`turn_rolled_back`"),
            ("SQL of one turn", OBJECTS, "turn_time", "`turn_rolled_back`"),
            ("Migrations of one object", OBJECTS, "migration_time", "`migration_failed`"),
            (
                "Messages sent by one turn",
                "crates/core/src/object/executor/commit.rs",
                "SENT_MAX",
                "`turn_rolled_back`",
            ),
            (
                "Input of one job",
                "crates/core/src/object/turn.rs",
                "JOB_BYTES_MAX",
                "`invalid_input`",
            ),
            (
                "One attempt of a job, unless it says otherwise",
                "crates/core/src/object/effect.rs",
                "TIMEOUT",
                "the attempt failed",
            ),
            ("Attempts of an alarm", OBJECTS, "attempts_max", "the alarm is given up"),
            ("Calls that wait for one object", OBJECTS, "mailbox_max", "`busy`"),
            ("Objects in memory", OBJECTS, "awake_max", "the least recently used are evicted"),
            (
                "Memory of objects (`--object-memory`)",
                OBJECTS,
                "awake_bytes_max",
                "the least recently used are evicted",
            ),
        ],
    ),
    (
        "Connections of objects",
        &[
            ("Connections of one object", OBJECTS, "connections_max", "`busy`"),
            ("Connections of all objects", OBJECTS, "all_connections_max", "`busy`"),
            (
                "Bytes that one connection has not read",
                OBJECTS,
                "unread_bytes_max",
                "closed with 1013",
            ),
            ("Incoming text", "crates/server/src/live.rs", "TEXT_BYTES_MAX", "closed with 1009"),
            ("Outgoing event", LIVE, "EVENT_BYTES_MAX", "`event_too_large`"),
            (
                "Events of one turn",
                "crates/core/src/object/transaction.rs",
                "OPS_MAX",
                "`too_many_events`",
            ),
            (
                "Bytes of the events of one turn",
                "crates/core/src/object/transaction.rs",
                "OPS_BYTES_MAX",
                "`too_many_events`",
            ),
            ("Tags of a connection", LIVE, "TAGS_MAX", "`invalid_tags`"),
            ("Characters of a tag", LIVE, "TAG_CHARS_MAX", "`invalid_tags`"),
            ("Attachment of a connection", LIVE, "ATTACHMENT_BYTES_MAX", "`attachment_too_large`"),
        ],
    ),
    (
        "SQL that people run on objects",
        &[
            (
                "Time of one statement",
                "crates/core/src/object/inspect/reader.rs",
                "TIME",
                "`sql_failed`",
            ),
            (
                "Rows of one answer",
                "crates/core/src/object/inspect/contents.rs",
                "RESULT_MAX",
                "the rest is left out",
            ),
            ("Columns of one answer", QUERY, "COLUMNS_MAX", "`sql_failed`"),
            (
                "Bytes of one answer, about",
                "crates/core/src/object/inspect/contents.rs",
                "BYTES_MAX",
                "the rest is left out",
            ),
            (
                "Statements at a time; as many exports",
                "crates/core/src/object/objects.rs",
                "INSPECTED_MAX",
                "`busy` after 2 s",
            ),
        ],
    ),
    (
        "Workflows",
        &[
            ("Characters of a run id", WORKFLOWS, "ID_MAX", "`invalid_name`"),
            ("Output of a step or a run", WORKFLOWS, "RESULT_BYTES_MAX", "`result_too_large`"),
            ("Events that a run has not taken", WORKFLOWS, "EVENTS_MAX", "`wrong_status`"),
            (
                "One attempt of a step, unless it says otherwise",
                WORKFLOWS,
                "TIMEOUT",
                "the attempt failed",
            ),
            (
                "Attempts that end with the process",
                WORKFLOWS,
                "CUT_OFFS_MAX",
                "the step fails with `process_ended`",
            ),
            ("Text of `ctx.progress`", WORKFLOWS, "PROGRESS_BYTES_MAX", "the rest is cut off"),
            (
                "Runs of one workflow in memory, by default",
                WORKFLOWS,
                "concurrency",
                "further runs are queued",
            ),
            ("Seconds of `wait`", "crates/api/src/runs.rs", "MAX", "`bad_request`"),
        ],
    ),
    (
        "Queues",
        &[
            ("Messages of one send", QUEUES, "SEND_MAX", "`invalid_input`"),
            ("Messages of one pull", QUEUES, "PULL_MAX", "`invalid_input`"),
            ("Lease of a pull", QUEUES, "LEASE_MAX", "`invalid_input`"),
            ("Delay of a message", "crates/core/src/queue/send.rs", "DELAY_MAX", "`invalid_input`"),
            (
                "Message of a queue, by default",
                "crates/core/src/queue/name.rs",
                "max_message_bytes",
                "`too_large`",
            ),
            (
                "Retries, by default",
                "crates/core/src/queue/name.rs",
                "max_retries",
                "the message becomes a dead letter",
            ),
            (
                "Delay between attempts",
                "crates/core/src/queue/name.rs",
                "DELAY_MAX",
                "it does not grow any more",
            ),
            ("Dead-letter queues in a row", QUEUES, "CHAIN_MAX", "`invalid_input`"),
        ],
    ),
    (
        "Buckets and the S3 API",
        &[
            ("Key of a blob", BLOBS, "KEY_BYTES_MAX", "`invalid_key`"),
            ("Own metadata of a blob", BLOBS, "METADATA_BYTES_MAX", "`too_large`"),
            ("Blob, unless its bucket says less", BLOBS, "BLOB_BYTES_MAX", "`too_large`"),
            ("Parts of a multipart upload", BLOBS, "PARTS_MAX", "`invalid_input`"),
            ("Smallest part but the last", BLOBS, "PART_BYTES_MIN", "`invalid_input`"),
            ("Largest part", BLOBS, "PART_BYTES_MAX", "`too_large`"),
            (
                "Event rules of a bucket; lifecycle rules; CORS rules",
                BLOBS,
                "RULES_MAX",
                "`invalid_input`",
            ),
            ("Lifetime of a presigned URL", S3, "PRESIGN_MAX", "`invalid_input`"),
            (
                "Lifetime of a URL that role member presigns",
                "crates/server/src/nouns/buckets.rs",
                "MEMBER_URL_MAX",
                "`invalid_input`",
            ),
            ("Keys of one `DeleteObjects`", S3, "KEYS_MAX", "`MalformedXML`"),
            ("XML body", S3, "XML_BYTES_MAX", "refused"),
        ],
    ),
    (
        "HTTP",
        &[
            (
                "Body of a request, blobs and images excepted",
                "crates/server/src/pipeline.rs",
                "BODY_BYTES_MAX",
                "`too_large`",
            ),
            ("Body of a login", "crates/server/src/pages.rs", "LOGIN_BYTES_MAX", "`too_large`"),
            ("Memory of all such bodies", "crates/server/src/budget.rs", "BYTES_MAX", "`busy`"),
            (
                "Memory of those without a credential, while access is closed",
                "crates/server/src/budget.rs",
                "ANONYMOUS_BYTES_MAX",
                "`busy`",
            ),
            ("Rows of one page", "crates/api/src/page.rs", "LIMIT_MAX", "`bad_request`"),
            (
                "Connections of one port",
                SERVER,
                "CONNECTIONS_MAX",
                "idle ones are closed, then `server_full`",
            ),
            (
                "Connections of one client address to one port (`--connections-per-peer`)",
                "crates/server/src/transport.rs",
                "CONNECTIONS_PER_PEER",
                "closed",
            ),
            (
                "TLS handshake, head of a request, and idle connections",
                SERVER,
                "HEADER_TIMEOUT",
                "closed",
            ),
            (
                "Time in which a client moves no byte (`--client-timeout`)",
                "crates/server/src/transport.rs",
                "CLIENT_TIMEOUT",
                "`slow_request`, or closed",
            ),
            (
                "Lowest lasting speed of a client, in bytes a second",
                SERVER,
                "BYTES_PER_SECOND",
                "`slow_request`, or closed",
            ),
            ("Time of requests in flight when the server stops", SERVER, "DRAIN_TIMEOUT", "closed"),
            (
                "Queues in `/metrics`",
                "crates/server/src/nouns/server.rs",
                "QUEUES_MAX",
                "`steadfast_queues_truncated` is 1",
            ),
        ],
    ),
    (
        "PostgreSQL",
        &[
            ("Heartbeat of an idle owner", "crates/store/src/postgres/node.rs", "HEARTBEAT", ""),
            (
                "Time before the end of a lease in which its owner answers nothing",
                "crates/store/src/postgres/node.rs",
                "RESERVE",
                "`store_unavailable`",
            ),
            (
                "Lease of an owner",
                "crates/store/src/postgres/node.rs",
                "LEASE",
                "another process may take over",
            ),
        ],
    ),
    (
        "Applications",
        &[
            ("Files of one upload form", "apps/uploads/src", "FILES_MAX", "`too_many_files`"),
            ("Outputs of one generation", GENERATIONS, "COUNT_MAX", "`invalid_count`"),
            ("Tags of a generation or artifact", GENERATIONS, "TAGS_MAX", "`too_many_tags`"),
            ("Characters of a tag", GENERATIONS, "TAG_MAX", "`invalid_tag`"),
            ("Characters of a workspace", GENERATIONS, "WORKSPACE_MAX", "`invalid_workspace`"),
            ("Edge of a scaled image, in pixels", GENERATIONS, "EDGE_MAX", "`bad_request`"),
            ("Length of a URL to compare", "crates/egress/src", "URL_LEN_MAX", "refused"),
        ],
    ),
];

/// A value of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Number(u64),
    Milliseconds(u64),
}

/// All limits, in one table for each area.
pub(super) fn tables() -> String {
    let mut text = String::new();
    for (title, limits) in LIMITS {
        write!(text, "\n## {title}\n\n| Limit | Value | Beyond it |\n|---|---|---|\n")
            .expect("it is a text");
        for (subject, place, name, beyond) in *limits {
            let value = shown(name, value_of(place, name));
            writeln!(text, "| {subject} | {value} | {beyond} |").expect("it is a text");
        }
    }
    text
}

/// The one value that a file, or the files of a folder, give a constant or a field.
fn value_of(place: &str, name: &str) -> Value {
    let mut found = Vec::new();
    let path = root().join(place);
    collect(&path, name, &mut found);
    let first = *found.first().unwrap_or_else(|| panic!("{place} has no limit {name}"));
    assert!(found.iter().all(|it| *it == first), "{place} has several {name}: {found:?}");
    first
}

fn collect(path: &Path, name: &str, found: &mut Vec<Value>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            collect(&entry.expect("an entry").path(), name, found);
        }
    } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
        let source = fs::read_to_string(path).expect("a source file");
        for line in source.lines().map(str::trim).filter(|it| !it.starts_with("//")) {
            let declared = line.split_once(&format!("const {name}: "));
            let constant = declared.and_then(|it| it.1.split_once(" = ")).map(|it| it.1);
            let field = line.strip_prefix(name).and_then(|it| it.strip_prefix(": "));
            let value = constant.or(field).map(|it| it.trim_end_matches([';', ',']));
            found.extend(value.and_then(evaluate));
        }
    }
}

/// The value of an expression as our limits have them.
fn evaluate(text: &str) -> Option<Value> {
    let units = [("millis", 1), ("secs", 1_000), ("mins", 60_000), ("hours", 3_600_000)];
    if let Some(rest) = text.strip_prefix("Duration::from_") {
        let (unit, argument) = rest.strip_suffix(')')?.split_once('(')?;
        let (_, milliseconds) = units.iter().find(|it| it.0 == unit)?;
        return Some(Value::Milliseconds(number(argument)? * milliseconds));
    }
    number(text).map(Value::Number)
}

fn number(text: &str) -> Option<u64> {
    if let Some((left, right)) = text.split_once(" / ") {
        return Some(number(left)? / number(right)?);
    }
    if let Some((left, right)) = text.split_once(" << ") {
        return Some(number(left)? << number(right)?);
    }
    if let Some((left, right)) = text.split_once(" * ") {
        return Some(number(left)? * number(right)?);
    }
    if let Some(name) = text.strip_prefix("limits::") {
        let Value::Number(value) = value_of(STORE, name) else { return None };
        return Some(value);
    }
    text.replace('_', "").parse().ok()
}

/// A value with its unit.
fn shown(name: &str, value: Value) -> String {
    let is_bytes = name.to_lowercase().contains("bytes") && !name.ends_with("_SECOND");
    match value {
        Value::Number(value) if is_bytes => {
            let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
            let fits = |it: &&(u32, &str)| value.is_multiple_of(1_u64 << it.0);
            match units.iter().find(fits) {
                Some((shift, unit)) => format!("{} {unit}", separated(value >> shift)),
                None => format!("{} bytes", separated(value)),
            }
        }
        Value::Number(value) => separated(value),
        Value::Milliseconds(value) => {
            let units = [(86_400_000_u64, "days"), (3_600_000, "hours"), (60_000, "minutes")];
            let units = units.iter().chain(&[(1_000, "seconds"), (1, "ms")]);
            // A single day, hour or minute is shown in the next smaller unit.
            let mut fits = units.filter(|it| value.is_multiple_of(it.0));
            let (unit, name) = fits.find(|it| it.0 < value).expect("it is not 0 or 1 ms");
            format!("{} {name}", separated(value / unit))
        }
    }
}

/// A number with commas between thousands.
fn separated(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn values_of_the_source_are_read_and_shown_with_their_unit() {
    let check = |name: &str, text: &str, expected: &str| {
        let value = evaluate(text).expect("a value");
        assert_eq!(shown(name, value), expected, "{text}");
    };
    check("DATA_BYTES_MAX", "1 << 20", "1 MiB");
    check("RESULT_BYTES_MAX", "1_000_000", "1,000,000 bytes");
    check("JOB_BYTES_MAX", "limits::DATA_BYTES_MAX / 2", "512 KiB");
    check("PRESIGN_MAX", "Duration::from_hours(7 * 24)", "7 days");
    check("KEEP", "Duration::from_hours(24)", "24 hours");
    check("TIMEOUT", "Duration::from_mins(1)", "60 seconds");
    check("WRITES_MAX", "10_000", "10,000");
    assert_eq!(evaluate("usize"), None);
}
