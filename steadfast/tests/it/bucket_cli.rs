//! Buckets from the command line.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    buckets::{put, with_bucket},
    harness::{Server, assert_fails_with, get_url, run, stderr, stdout},
};

/// Runs a verb and returns its output.
#[track_caller]
fn output_of(server: &Server, args: &[&str]) -> String {
    let output = server.ask(&[&["buckets"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn every_verb_prints_plain_text() {
    let server = Server::empty();
    let output_of = |args: &[&str]| output_of(&server, args);
    for ours in ["uploads", "generations"] {
        output_of(&["delete", ours, "--yes"]);
    }
    let none = "no buckets; create one with `steadfast buckets create`\n";
    assert_eq!(output_of(&["list"]), none);
    assert_eq!(output_of(&["create", "photos"]), "created bucket photos\n");
    let set = output_of(&["create", "photos", "--max-blob-bytes", "20"]);
    assert_eq!(set, "updated bucket photos; at most 20 bytes per blob\n");
    let list = output_of(&["list"]);
    assert!(list.lines().nth(1).unwrap().starts_with("photos  "), "{list}");
    assert_eq!(output_of(&["rules", "list", "photos"]), "bucket photos has no rules\n");
    let rule = ["rules", "put", "photos", "all", "--queue", "q", "--prefix", "in/"];
    assert_eq!(output_of(&rule), "set rule all of bucket photos; it sends events to queue q\n");
    let both = ["--event", "object-create", "--event", "object-delete"];
    output_of(&[&rule[..], &both].concat());
    let rules = output_of(&["rules", "list", "photos"]);
    assert!(rules.contains("all   object-create object-delete  in/             q\n"), "{rules}");
    assert_eq!(
        output_of(&["lifecycle", "list", "photos"]),
        "bucket photos has no lifecycle rules\n"
    );
    let old = ["lifecycle", "put", "photos", "old", "--delete-after", "30d"];
    assert_eq!(output_of(&old), "set lifecycle rule old of bucket photos\n");
    let rules = output_of(&["lifecycle", "list", "photos"]);
    assert!(rules.contains("old           30 d 0 h"), "{rules}");
    put(&server, "photos/in/a.txt", b"12345");
    put(&server, "photos/top", b"1");
    let ls = output_of(&["ls", "photos"]);
    assert!(ls.contains("\nin/  ") && ls.contains("\ntop  1  "), "{ls}");
    let ls = output_of(&["ls", "photos/in/"]);
    assert!(ls.contains("\nin/a.txt  5  ") && ls.contains("text/plain"), "{ls}");
    let none = "bucket photos has no keys that begin with `none/`\n";
    assert_eq!(output_of(&["ls", "photos/none/"]), none);
    let gone = output_of(&["rm", "photos/in/a.txt", "--yes"]);
    assert_eq!(gone, "deleted photos/in/a.txt; sequence 2\n");
    let link = output_of(&["presign", "photos/top", "--expires", "10m"]);
    assert_eq!(get_url(link.trim_end()).body, "1");
    output_of(&["rm", "photos/top", "--yes"]);
    assert_eq!(output_of(&["ls", "photos"]), "bucket photos is empty\n");
    let gone = output_of(&["rules", "delete", "photos", "all", "--yes"]);
    assert_eq!(gone, "deleted rule all of bucket photos\n");
    let gone = output_of(&["lifecycle", "delete", "photos", "old", "--yes"]);
    assert_eq!(gone, "deleted lifecycle rule old of bucket photos\n");
    assert_eq!(output_of(&["delete", "photos", "--yes"]), "deleted bucket photos\n");
}

#[test]
fn cors_rules_are_set_listed_and_deleted() {
    let server = with_bucket("photos");
    let output_of = |args: &[&str]| output_of(&server, &[&["cors"], args].concat());
    assert_eq!(output_of(&["list", "photos"]), "bucket photos has no CORS rules\n");
    let app = ["put", "photos", "app", "--origin", "https://a.example,https://b.example"];
    let more = ["--method", "GET,PUT", "--expose", "etag", "--max-age", "1h"];
    let set = output_of(&[&app[..], &more].concat());
    assert_eq!(set, "set CORS rule app of bucket photos\n");
    let rules = output_of(&["list", "photos"]);
    let row = "app   https://a.example https://b.example  GET PUT  -        etag     1 h 0 min\n";
    assert!(rules.contains(row), "{rules}");
    let gone = output_of(&["delete", "photos", "app", "--yes"]);
    assert_eq!(gone, "deleted CORS rule app of bucket photos\n");
    let wrong = ["buckets", "cors", "put", "photos", "app", "--origin", "*", "--method", "get"];
    assert_fails_with(&server.ask(&wrong), &["must list GET, HEAD, PUT", "invalid_input"]);
}

#[test]
fn failures_are_reported_in_one_line() {
    let server = with_bucket("photos");
    let ask = |args: &[&str]| server.ask(&[&["buckets"], args].concat());
    assert_fails_with(&ask(&["ls", "none"]), &["bucket `none` does not exist", "bucket_not_found"]);
    assert_fails_with(&ask(&["create", "No"]), &["`No` is not the name", "invalid_name"]);
    let no_blob = ask(&["rm", "photos", "--yes"]);
    assert_eq!(no_blob.status.code(), Some(2));
    assert!(stderr(&no_blob).contains("`photos` names no blob"), "{}", stderr(&no_blob));
    assert_fails_with(&ask(&["rm", "photos/x"]), &["Delete blob photos/x?", "--yes"]);
    assert_fails_with(
        &ask(&["rm", "photos/x", "--yes"]),
        &["blob `x` does not exist", "blob_not_found"],
    );
    assert_fails_with(&ask(&["cp", "a", "b"]), &["`a` and `b` are both files"]);
    assert_fails_with(&ask(&["cp", "./none", "photos/x"]), &["./none cannot be read"]);
    assert_fails_with(&ask(&["cp", "/", "photos/x"]), &["/ is not a file"]);
    let overlap = ["rules", "put", "photos", "r", "--queue", "q"];
    assert!(ask(&overlap).status.success());
    let overlap = ["rules", "put", "photos", "s", "--queue", "q"];
    assert_fails_with(&ask(&overlap), &["overlaps with rule `r`", "conflict"]);
    let empty = ask(&["lifecycle", "put", "photos", "l"]);
    assert_fails_with(&empty, &["deleteAfterMs", "invalid_input"]);
    let bad = ask(&["lifecycle", "put", "photos", "l", "--delete-after", "5"]);
    assert_eq!(bad.status.code(), Some(2));
    assert_eq!(ask(&["rules", "put", "photos", "r"]).status.code(), Some(2));
    put(&server, "photos/x", b"x");
    assert_fails_with(&ask(&["delete", "photos", "--yes"]), &["is not empty", "conflict"]);
}

#[test]
fn files_are_copied_unchanged_and_failures_leave_nothing() {
    let server = with_bucket("photos");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // Larger than other bodies may be, and than one piece.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 253) as u8).collect();
    fs::write(file("cat.png"), &bytes).unwrap();
    let told = output_of(&server, &["cp", text(&file("cat.png")), "photos/2026/"]);
    assert_eq!(told, "copied 3.0 MB to photos/2026/cat.png; sequence 1\n");
    let blob = server.json("/v1/buckets/photos/objects")["items"][0].clone();
    assert_eq!((&blob["size"], &blob["contentType"]), (&json!(3_000_000), &json!("image/png")));
    let copy = file("copy.png");
    let told = output_of(&server, &["cp", "photos/2026/cat.png", text(&copy)]);
    assert_eq!(told, format!("copied 3.0 MB to {}\n", copy.display()));
    assert!(fs::read(&copy).unwrap() == bytes);
    let json = output_of(&server, &["cp", "photos/2026/cat.png", text(folder.path()), "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["file"], text(&file("cat.png")));
    fs::write(file("empty"), "").unwrap();
    output_of(&server, &["cp", text(&file("empty")), "photos/empty"]);
    output_of(&server, &["cp", "photos/empty", text(&copy)]);
    assert_eq!(fs::read(&copy).unwrap(), b"", "what was there is replaced");
    let set = ["create", "photos", "--max-blob-bytes", "1000"];
    output_of(&server, &set);
    let ask = |args: &[&str]| server.ask(&[&["buckets"], args].concat());
    let large = ask(&["cp", text(&file("cat.png")), "photos/large"]);
    assert_fails_with(&large, &["may have at most 1000 bytes", "too_large"]);
    let none = ask(&["cp", "photos/none", text(&copy)]);
    assert_fails_with(&none, &["blob `none` does not exist", "blob_not_found"]);
    assert_eq!(fs::read(&copy).unwrap(), b"", "what fails changes nothing");
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["cat.png", "copy.png", "empty"]);
}

#[test]
fn a_folder_without_a_server_gives_the_same_output() {
    let server = with_bucket("photos");
    output_of(&server, &["rules", "put", "photos", "all", "--queue", "q"]);
    put(&server, "photos/in/a", b"12345");
    let questions: [&[&str]; 3] = [
        &["buckets", "list", "--json"],
        &["buckets", "ls", "photos", "--json"],
        &["buckets", "rules", "list", "photos"],
    ];
    let online: Vec<String> = questions.iter().map(|it| stdout(&server.ask(it))).collect();
    let folder = server.stop();
    let data = ["--data", text(&folder)];
    for (question, online) in questions.iter().zip(online) {
        let output = run(&[question, &data[..]].concat());
        assert_eq!(stdout(&output), online, "{question:?} {}", stderr(&output));
    }
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 249) as u8).collect();
    let (file, copy) = (folder.join("file.txt"), folder.join("copy.txt"));
    fs::write(&file, &bytes).unwrap();
    let cp = |from: &str, to: &str| run(&[&["buckets", "cp", from, to], &data[..]].concat());
    let put = cp(text(&file), "photos/in/");
    let copied = "copied 3.0 MB to photos/in/file.txt; sequence 1\n";
    assert_eq!(stdout(&put), copied, "{}", stderr(&put));
    let got = cp("photos/in/file.txt", text(&copy));
    assert!(got.status.success(), "{}", stderr(&got));
    assert!(fs::read(&copy).unwrap() == bytes);
    let events = run(&[&["queues", "peek", "q", "--json"], &data[..]].concat());
    let events: Value = serde_json::from_str(&stdout(&events)).unwrap();
    assert_eq!(events["items"].as_array().unwrap().len(), 2, "{events}");
    let none = run(&[&["buckets", "presign", "photos/in/a"], &data[..]].concat());
    assert_fails_with(&none, &["conflict"]);
    fs::remove_dir_all(folder).unwrap();
}
