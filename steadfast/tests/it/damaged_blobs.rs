//! Blobs whose files were damaged or removed behind the back of the server.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::harness::{Server, run, stdout};

/// The files of blobs below a folder, each with its size.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|it| it.expect("an entry")) {
        let (path, about) = (entry.path(), entry.metadata().expect("it exists"));
        match about.is_dir() {
            true => found.extend(files(&path)),
            false => found.push((path, about.len())),
        }
    }
    found
}

/// The file with this size.
fn file(server: &Server, size: u64) -> PathBuf {
    let found = files(&server.folder().join("blobs")).into_iter().find(|it| it.1 == size);
    found.expect("the file of a blob").0
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    bytes[0] ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

#[test]
fn a_damaged_or_missing_blob_is_never_served_as_if_it_were_whole() {
    let server = Server::empty();
    assert!(server.put_json("/v1/buckets/files", &json!({})).status < 300);
    let path = |key: &str| format!("/v1/buckets/files/objects/{key}");
    for (key, size) in [("small", 1_001), ("large", 3_000_001), ("gone", 1_002), ("good", 1_003)] {
        assert!(server.put_bytes(&path(key), &vec![7; size], &[]).status < 300);
    }
    flip(&file(&server, 1_001));
    flip(&file(&server, 3_000_001));
    fs::remove_file(file(&server, 1_002)).expect("it is there");
    // A blob that fits into one read is refused as a whole.
    server.get(&path("small")).assert_problem(500, "blob_damaged");
    let gone = server.get(&path("gone"));
    gone.assert_problem(500, "blob_missing");
    assert!(gone.body.contains("`gone`"), "{}", gone.body);
    // A larger one ends early: its length is known, so every client notices.
    let mut stream = server.connect();
    let ask = format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path("large"));
    stream.write_all(ask.as_bytes()).expect("it takes the request");
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    let head = String::from_utf8_lossy(&received[..1_000.min(received.len())]).into_owned();
    assert!(head.contains("content-length: 3000001"), "{head}");
    assert!(received.len() < 3_000_001, "the last bytes do not leave");
    assert_eq!(server.get(&path("good")).body.len(), 1_003);

    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("steadfast_blobs_unreadable_total 3"), "{metrics}");
    let found = run(&["doctor", "--deep", "--server", &server.url]);
    let said = stdout(&found);
    assert_eq!(found.status.code(), Some(1), "{said}");
    for words in ["files/small (blob_damaged)", "files/large (blob_damaged)", "files/gone (blob_"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("files/good"), "{said}");
    for key in ["small", "large", "gone"] {
        assert!(server.put_bytes(&path(key), b"again", &[]).status < 300);
    }
    let found = run(&["doctor", "--deep", "--server", &server.url]);
    assert!(stdout(&found).contains("4 blobs have the bytes that were written"));
}
