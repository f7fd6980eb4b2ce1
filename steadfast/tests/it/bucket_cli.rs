//! Buckets from the command line.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    buckets::{put, with_bucket},
    harness::{Server, assert_fails_with, get_url, run, stderr, stdout},
};

/// Asks, and says what was printed.
#[track_caller]
fn said(server: &Server, args: &[&str]) -> String {
    let output = server.ask(&[&["buckets"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn every_verb_prints_what_people_read() {
    let server = Server::empty();
    let said = |args: &[&str]| said(&server, args);
    for ours in ["uploads", "generations"] {
        said(&["delete", ours]);
    }
    let none = "no buckets here: make one with `steadfast buckets create`\n";
    assert_eq!(said(&["list"]), none);
    assert_eq!(said(&["create", "photos"]), "photos is there\n");
    let set = said(&["create", "photos", "--max-blob-bytes", "20"]);
    assert_eq!(set, "photos is there; 20 bytes at most\n");
    let list = said(&["list"]);
    assert!(list.lines().nth(1).unwrap().starts_with("photos  "), "{list}");
    assert_eq!(said(&["rules", "list", "photos"]), "photos tells nobody\n");
    let rule = ["rules", "put", "photos", "all", "--queue", "q", "--prefix", "in/"];
    assert_eq!(said(&rule), "rule all of photos tells q\n");
    let both = ["--event", "object-create", "--event", "object-delete"];
    said(&[&rule[..], &both].concat());
    let rules = said(&["rules", "list", "photos"]);
    assert!(rules.contains("all   object-create object-delete  in/             q\n"), "{rules}");
    assert_eq!(said(&["lifecycle", "list", "photos"]), "photos keeps everything\n");
    let old = ["lifecycle", "put", "photos", "old", "--delete-after", "30d"];
    assert_eq!(said(&old), "lifecycle rule old of photos is in force\n");
    let rules = said(&["lifecycle", "list", "photos"]);
    assert!(rules.contains("old           30 d 0 h"), "{rules}");
    put(&server, "photos/in/a.txt", b"12345");
    put(&server, "photos/top", b"1");
    let ls = said(&["ls", "photos"]);
    assert!(ls.contains("\nin/  ") && ls.contains("\ntop  1  "), "{ls}");
    let ls = said(&["ls", "photos/in/"]);
    assert!(ls.contains("\nin/a.txt  5  ") && ls.contains("text/plain"), "{ls}");
    assert_eq!(said(&["ls", "photos/none/"]), "nothing in photos begins with `none/`\n");
    assert_eq!(said(&["rm", "photos/in/a.txt"]), "photos/in/a.txt is deleted; number 2\n");
    let link = said(&["presign", "photos/top", "--expires", "10m"]);
    assert_eq!(get_url(link.trim_end()).body, "1");
    said(&["rm", "photos/top"]);
    let gone = said(&["rules", "delete", "photos", "all"]);
    assert_eq!(gone, "rule all of photos is deleted\n");
    let gone = said(&["lifecycle", "delete", "photos", "old"]);
    assert_eq!(gone, "lifecycle rule old of photos is deleted\n");
    assert_eq!(said(&["delete", "photos"]), "photos is deleted\n");
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let server = with_bucket("photos");
    let ask = |args: &[&str]| server.ask(&[&["buckets"], args].concat());
    assert_fails_with(&ask(&["ls", "none"]), &["bucket `none` does not exist", "unknown_bucket"]);
    assert_fails_with(&ask(&["create", "No"]), &["`No` is not the name", "invalid_bucket_name"]);
    assert_fails_with(&ask(&["rm", "photos"]), &["`photos` names no blob"]);
    assert_fails_with(&ask(&["rm", "photos/x"]), &["there is no `x`", "unknown_blob"]);
    assert_fails_with(&ask(&["cp", "a", "b"]), &["`a` and `b` are both files"]);
    assert_fails_with(&ask(&["cp", "./none", "photos/x"]), &["./none cannot be read"]);
    assert_fails_with(&ask(&["cp", "/", "photos/x"]), &["/ is not a file"]);
    let overlap = ["rules", "put", "photos", "r", "--queue", "q"];
    assert!(ask(&overlap).status.success());
    let overlap = ["rules", "put", "photos", "s", "--queue", "q"];
    assert_fails_with(&ask(&overlap), &["overlaps with rule `r`", "rule_overlap"]);
    let empty = ask(&["lifecycle", "put", "photos", "l"]);
    assert_fails_with(&empty, &["deleteAfterMs", "invalid_argument"]);
    let bad = ask(&["lifecycle", "put", "photos", "l", "--delete-after", "5"]);
    assert_eq!(bad.status.code(), Some(2));
    assert_eq!(ask(&["rules", "put", "photos", "r"]).status.code(), Some(2));
    put(&server, "photos/x", b"x");
    assert_fails_with(&ask(&["delete", "photos"]), &["is not empty", "bucket_not_empty"]);
}

#[test]
fn files_go_in_and_out_as_they_are_and_what_fails_leaves_nothing() {
    let server = with_bucket("photos");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // Larger than other bodies may be, and than one piece.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|it| (it % 253) as u8).collect();
    fs::write(file("cat.png"), &bytes).unwrap();
    let told = said(&server, &["cp", text(&file("cat.png")), "photos/2026/"]);
    assert_eq!(told, "photos/2026/cat.png: 3.0 MB, number 1\n");
    let blob = server.json("/v1/buckets/photos/objects")["items"][0].clone();
    assert_eq!((&blob["size"], &blob["contentType"]), (&json!(3_000_000), &json!("image/png")));
    let copy = file("copy.png");
    let told = said(&server, &["cp", "photos/2026/cat.png", text(&copy)]);
    assert_eq!(told, format!("{}: 3.0 MB\n", copy.display()));
    assert!(fs::read(&copy).unwrap() == bytes);
    let json = said(&server, &["cp", "photos/2026/cat.png", text(folder.path()), "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["file"], text(&file("cat.png")));
    fs::write(file("empty"), "").unwrap();
    said(&server, &["cp", text(&file("empty")), "photos/empty"]);
    said(&server, &["cp", "photos/empty", text(&copy)]);
    assert_eq!(fs::read(&copy).unwrap(), b"", "what was there is replaced");
    let set = ["create", "photos", "--max-blob-bytes", "1000"];
    said(&server, &set);
    let ask = |args: &[&str]| server.ask(&[&["buckets"], args].concat());
    let large = ask(&["cp", text(&file("cat.png")), "photos/large"]);
    assert_fails_with(&large, &["may have 1000 bytes at most", "blob_too_large"]);
    let none = ask(&["cp", "photos/none", text(&copy)]);
    assert_fails_with(&none, &["there is no `none`", "unknown_blob"]);
    assert_eq!(fs::read(&copy).unwrap(), b"", "what fails changes nothing");
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["cat.png", "copy.png", "empty"]);
}

#[test]
fn a_folder_that_no_server_holds_is_asked_alike() {
    let server = with_bucket("photos");
    said(&server, &["rules", "put", "photos", "all", "--queue", "q"]);
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
    assert_eq!(stdout(&put), "photos/in/file.txt: 3.0 MB, number 1\n", "{}", stderr(&put));
    let got = cp("photos/in/file.txt", text(&copy));
    assert!(got.status.success(), "{}", stderr(&got));
    assert!(fs::read(&copy).unwrap() == bytes);
    let events = run(&[&["queues", "peek", "q", "--json"], &data[..]].concat());
    let events: Value = serde_json::from_str(&stdout(&events)).unwrap();
    assert_eq!(events["items"].as_array().unwrap().len(), 2, "{events}");
    let none = run(&[&["buckets", "presign", "photos/in/a"], &data[..]].concat());
    assert_fails_with(&none, &["no_s3_port"]);
    fs::remove_dir_all(folder).unwrap();
}
