//! Blobs over HTTP: writes, reads and failures between.

use std::io::Write;

use serde_json::{Value, json};

use crate::{
    buckets::{ok, put, with_bucket},
    harness::{Server, get_url, put_url},
};

fn items(server: &Server) -> Vec<Value> {
    server.json("/v1/buckets/files/objects")["items"].as_array().expect("items").clone()
}

#[test]
fn a_blob_round_trips_and_survives_a_kill() {
    let server = with_bucket("files");
    // More than one piece of every buffer, and more than other bodies may have.
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|it| (it % 251) as u8).collect();
    let headers =
        [("content-type", "image/png"), ("x-blob-meta-author", "Ada"), ("content-language", "en")];
    let path = "/v1/buckets/files/objects/in/a%20photo.png";
    let blob = ok(&server.put_bytes(path, &bytes, &headers));
    assert_eq!((&blob["key"], &blob["size"]), (&json!("in/a photo.png"), &json!(5_000_000)));
    assert_eq!(blob["metadata"], json!({ "author": "Ada" }));
    let server = Server::on(server.kill());
    let (found, headers) = server.bytes(path);
    assert!(found == bytes, "{} bytes", found.len());
    let tag = format!("\"{}\"", blob["etag"].as_str().unwrap());
    for (name, value) in [
        ("content-type", "image/png"),
        ("content-length", "5000000"),
        ("etag", tag.as_str()),
        ("accept-ranges", "bytes"),
        ("x-blob-sequence", "1"),
        ("x-blob-version", blob["version"].as_str().unwrap()),
        ("x-blob-meta-author", "Ada"),
        ("content-language", "en"),
        ("x-content-type-options", "nosniff"),
        (
            "content-disposition",
            "attachment; filename=\"a_photo.png\"; filename*=UTF-8''a%20photo.png",
        ),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(headers["last-modified"].to_str().unwrap().ends_with(" GMT"));
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("; sandbox;"), "{policy}");
    let (_, shown) = server.bytes(&format!("{path}?inline"));
    assert!(!shown.contains_key("content-disposition") && shown["content-type"] == "image/png");
    assert_eq!(shown["content-security-policy"], policy);
    server.get(&format!("{path}?download")).assert_problem(400, "bad_request");
    let head = server.raw(&format!(
        "HEAD {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.host()
    ));
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains("content-length: 5000000\r\n") && head.contains(&tag), "{head}");
}

#[test]
fn a_range_is_partial_content_and_one_after_the_end_is_refused() {
    let server = with_bucket("files");
    put(&server, "files/x", b"0123456789");
    let get = |range: &str| server.get_with("/v1/buckets/files/objects/x", &[("range", range)]);
    for (range, body, told) in [
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-2", "89", "bytes 8-9/10"),
        ("bytes=0-999", "0123456789", "bytes 0-9/10"),
    ] {
        let part = get(range);
        assert_eq!((part.status, part.body.as_str()), (206, body), "{range}");
        assert_eq!(part.header("content-range"), told, "{range}");
    }
    for whole in ["bytes=4-2", "bytes=0-1,4-5", "lines=1-2"] {
        let answer = get(whole);
        assert_eq!((answer.status, answer.body.as_str()), (200, "0123456789"), "{whole}");
    }
    let behind = get("bytes=10-");
    behind.assert_problem(416, "range_not_satisfiable");
    assert_eq!(behind.header("content-range"), "bytes */10");
}

#[test]
fn an_unmet_condition_prevents_reads_writes_and_deletes() {
    let server = with_bucket("files");
    let path = "/v1/buckets/files/objects/x";
    let absent = [("if-none-match", "*")];
    let first = ok(&server.put_bytes(path, b"one", &absent));
    server.put_bytes(path, b"two", &absent).assert_problem(412, "precondition_failed");
    let tag = format!("\"{}\"", first["etag"].as_str().unwrap());
    let known = server.get_with(path, &[("if-none-match", &tag)]);
    assert_eq!((known.status, known.body.as_str(), known.header("etag")), (304, "", tag.as_str()));
    server.get_with(path, &[("if-match", "\"other\"")]).assert_problem(412, "precondition_failed");
    let second = ok(&server.put_bytes(path, b"two", &[("if-match", &tag)]));
    assert_eq!(second["sequence"], 2);
    server
        .put_bytes(path, b"three", &[("if-match", &tag)])
        .assert_problem(412, "precondition_failed");
    let future = [("if-modified-since", "Fri, 31 Dec 2100 00:00:00 GMT")];
    assert_eq!(server.get_with(path, &future).status, 304);
    assert_eq!(server.get(path).body, "two");
    ok(&server.delete(path));
    server.delete(path).assert_problem(404, "blob_not_found");
    server.get(path).assert_problem(404, "blob_not_found");
    let third = ok(&server.put_bytes(path, b"three", &absent));
    assert_eq!(third["sequence"], 4, "the deletion has a number, too");
}

#[test]
fn a_key_is_any_text_and_never_a_path() {
    let server = with_bucket("files");
    let long = "k".repeat(1_024);
    let keys = [
        ("..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"),
        ("%2Fabsolute", "/absolute"),
        ("a%2F%2Fb%2F", "a//b/"),
        ("%00", "\0"),
        ("%C3%BC%F0%9F%98%80%20%25%3F%23", "ü😀 %?#"),
        ("C:%5Cwindows", "C:\\windows"),
        (long.as_str(), long.as_str()),
    ];
    for (written, key) in keys {
        let blob = put(&server, &format!("files/{written}"), key.as_bytes());
        assert_eq!(blob["key"], key);
        assert_eq!(server.get(&format!("/v1/buckets/files/objects/{written}")).body, key);
    }
    let raw = |path: &str| {
        let (host, close) = (server.host(), "Connection: close");
        server.raw(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n\r\n"))
    };
    let up = raw("/v1/buckets/files/objects/../../etc/passwd");
    assert!(up.ends_with("\r\n\r\n../../etc/passwd"), "dots are letters of a key: {up}");
    let mut listed: Vec<String> =
        items(&server).iter().map(|it| it["key"].as_str().unwrap().to_owned()).collect();
    listed.sort();
    let mut known = keys.map(|it| it.1.to_owned());
    known.sort();
    assert_eq!(listed, known);
    let longer = "k".repeat(1_025);
    let put = |key: &str| server.put_bytes(&format!("/v1/buckets/files/objects/{key}"), b"x", &[]);
    put(&longer).assert_problem(400, "invalid_key");
    put("%FF%FE").assert_problem(400, "bad_request");
    server
        .put_bytes("/v1/buckets/files/objects/", b"x", &[])
        .assert_problem(404, "route_not_found");
    let outside = server.folder().join("blobs");
    assert!(outside.is_dir() && !server.folder().join("passwd").exists());
}

#[test]
fn a_too_large_or_incomplete_body_stores_neither_blob_nor_event() {
    let server = with_bucket("files");
    let rule = json!({ "events": ["object-create"], "queue": "q" });
    ok(&server.put_json("/v1/buckets/files/rules/all", &rule));
    ok(&server.put_json("/v1/buckets/files", &json!({ "maxBlobBytes": 10 })));
    let path = "/v1/buckets/files/objects/x";
    server.put_bytes(path, b"01234567890", &[]).assert_problem(413, "too_large");
    let host = server.host();
    let close = "Connection: close";
    let chunked = format!(
        "PUT {path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\nTransfer-Encoding: chunked\r\n\r\n\
         b\r\n01234567890\r\n0\r\n\r\n"
    );
    let large = server.raw(&chunked);
    assert!(large.starts_with("HTTP/1.1 413") && large.contains("too_large"), "{large}");
    let asked = format!(
        "PUT {path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\nContent-Length: 11\r\n\
         Expect: 100-continue\r\n\r\n"
    );
    let refused = server.raw(&asked);
    assert!(refused.starts_with("HTTP/1.1 413"), "it is refused before it is sent: {refused}");
    for cut in [
        format!("PUT {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\nshort"),
        format!(
            "PUT {path} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nshort\r\n"
        ),
        format!("PUT {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n"),
    ] {
        let mut connection = server.connect();
        connection.write_all(cut.as_bytes()).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        // The client may get an error, or the connection may just end.
        let _ = std::io::Read::read_to_string(&mut connection, &mut answer);
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    }
    let two = format!(
        "PUT {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: -5\r\n{close}\r\n\r\nshort"
    );
    assert!(server.raw(&two).starts_with("HTTP/1.1 400"), "no length is below zero");
    assert_eq!(items(&server), Vec::<Value>::new());
    assert_eq!(server.json("/v1/buckets/files/events")["items"], json!([]));
    server.get("/v1/queues/q").assert_problem(404, "queue_not_found");
    let good = ok(&server.put_bytes(path, b"0123456789", &[]));
    assert_eq!(good["sequence"], 1, "nothing of it took a number");
}

#[test]
fn too_large_headers_and_other_origins_are_refused() {
    let server = with_bucket("files");
    let path = "/v1/buckets/files/objects/x";
    let much = "m".repeat(2_049);
    server.put_bytes(path, b"x", &[("x-blob-meta-a", &much)]).assert_problem(413, "too_large");
    let foreign = [("origin", "http://example.org")];
    server.put_bytes(path, b"x", &foreign).assert_problem(403, "foreign_origin");
    server.get_with(path, &foreign).assert_problem(403, "foreign_origin");
    assert_eq!(items(&server), Vec::<Value>::new());
}

#[test]
fn a_presigned_url_reads_or_writes_one_blob_until_access_is_closed() {
    let server = with_bucket("files");
    put(&server, "files/in/a%20%C3%BC.txt", b"bytes");
    let presign = |body: Value| {
        let answer = server.post_json("/v1/buckets/files/presign", &body.to_string(), &[]);
        ok(&answer)["url"].as_str().unwrap().to_owned()
    };
    let url = presign(json!({ "key": "in/a ü.txt", "expiresSeconds": 60 }));
    assert_eq!(get_url(&url).body, "bytes");
    assert_eq!(put_url(&url, b"other").status, 403, "it is for reading");
    assert_eq!(get_url(&url.replace("a%20", "b%20")).status, 403, "it is for one key");
    let write = presign(json!({ "key": "new", "method": "PUT" }));
    assert_eq!(put_url(&write, b"new bytes").status, 200);
    assert_eq!(server.get("/v1/buckets/files/objects/new").body, "new bytes");
    assert_eq!(server.json("/v1/keys")["items"], json!([]), "no key is stored");
    let answer = ok(&server.post_json("/v1/buckets/files/presign", r#"{"key": "new"}"#, &[]));
    assert!(answer["expiresAt"].is_string());
    // The address of the S3 API is part of the signature.
    let address = server.s3_url().trim_start_matches("http://").to_owned();
    let server = Server::with(server.kill(), &["--s3-listen", &address]);
    let url = answer["url"].as_str().unwrap();
    assert_eq!(get_url(url).body, "new bytes", "a restart does not end it");
    assert_eq!(server.post_json("/v1/tokens", r#"{"role": "admin"}"#, &[]).status, 201);
    assert_eq!(get_url(url).status, 403, "its signer had no token");
}

#[test]
fn an_invalid_presign_request_is_a_problem() {
    let server = with_bucket("files");
    let presign = |body: &str| server.post_json("/v1/buckets/files/presign", body, &[]);
    presign("").assert_problem(400, "bad_request");
    presign(r#"{"key": "x", "method": "DELETE"}"#).assert_problem(400, "bad_request");
    presign(r#"{"key": ""}"#).assert_problem(400, "invalid_key");
    presign(r#"{"key": "x"}"#).assert_problem(404, "blob_not_found");
    for seconds in [0, 604_801] {
        let body = json!({ "key": "x", "method": "PUT", "expiresSeconds": seconds }).to_string();
        presign(&body).assert_problem(400, "invalid_input");
    }
    let none = server.post_json("/v1/buckets/none/presign", r#"{"key": "x"}"#, &[]);
    none.assert_problem(404, "bucket_not_found");
    let server = Server::with(server.kill(), &["--s3-listen", "none"]);
    let body = r#"{"key": "x", "method": "PUT"}"#;
    let none = server.post_json("/v1/buckets/files/presign", body, &[]);
    none.assert_problem(409, "conflict");
}
