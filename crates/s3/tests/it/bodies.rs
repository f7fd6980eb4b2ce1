//! Bodies that are wrong, incomplete, or chunked: stored whole, or not at all.

use std::io;

use bytes::Bytes;

use crate::{setup::Setup, sign::sign};

const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
const TRAILER: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
const SIGNED: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
/// The CRC-32 of "hello world", in base64.
const CRC32: &str = "DUoRhQ==";

impl Setup {
    async fn put(
        &self,
        payload: &str,
        headers: &[(&str, &str)],
        pieces: Vec<io::Result<Bytes>>,
    ) -> crate::setup::Answer {
        let (headers, _) = sign(&self.key, "PUT", "/photos/k", headers, payload);
        self.send("PUT", "/photos/k", &headers, pieces).await
    }

    async fn has_nothing(&self) {
        self.ask("HEAD", "/photos/k", "").await.is(404, "NoSuchKey");
        assert_eq!(self.files(), 0);
    }
}

fn text(body: &str) -> Vec<io::Result<Bytes>> {
    body.as_bytes().chunks(3).map(|it| Ok(Bytes::copy_from_slice(it))).collect()
}

#[tokio::test]
async fn a_wrong_length_is_refused_and_stores_nothing() {
    let setup = Setup::new().await;
    for length in ["10", "12", "0", "99999999"] {
        let headers = [("content-length", length)];
        setup.put(UNSIGNED, &headers, text("hello world")).await.is(400, "IncompleteBody");
        setup.has_nothing().await;
    }
    setup.put(UNSIGNED, &[], text("hello world")).await.is(411, "MissingContentLength");
    setup.has_nothing().await;
    setup.put(UNSIGNED, &[("content-length", "11")], text("hello world")).await.is(200, "");
}

#[tokio::test]
async fn an_incomplete_body_stores_nothing() {
    let setup = Setup::new().await;
    // More than the write buffer.
    let mut pieces: Vec<_> = (0..48).map(|_| Ok(Bytes::from(vec![7; 64 << 10]))).collect();
    pieces.push(Err(io::Error::other("gone")));
    let headers = [("content-length", "99999999")];
    setup.put(UNSIGNED, &headers, pieces).await.is(400, "IncompleteBody");
    setup.has_nothing().await;
}

#[tokio::test]
async fn a_body_that_differs_from_its_signature_stores_nothing() {
    let setup = Setup::new().await;
    let headers = [("content-length", "11")];
    let payload = crate::sign::hash(b"hello World");
    setup.put(&payload, &headers, text("hello world")).await.is(400, "XAmzContentSHA256Mismatch");
    setup.has_nothing().await;
}

#[tokio::test]
async fn checksums_in_headers_are_checked() {
    let setup = Setup::new().await;
    for (name, value, status, code) in [
        ("x-amz-checksum-crc32", CRC32, 200, ""),
        ("x-amz-checksum-crc32", "AAAAAA==", 400, "BadDigest"),
        ("x-amz-checksum-crc32", "AAAA", 400, "InvalidRequest"),
        ("x-amz-checksum-crc32c", "yZRlqg==", 200, ""),
        ("x-amz-checksum-crc32c", "AAAAAA==", 400, "BadDigest"),
        ("x-amz-checksum-crc64nvme", "jSnVw/bqjr4=", 200, ""),
        ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=", 400, "BadDigest"),
        ("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0=", 200, ""),
        ("x-amz-checksum-sha1", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", 400, "BadDigest"),
        ("content-md5", "XrY7u+Ae7tCTyyK7j1rNww==", 200, ""),
        ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==", 400, "BadDigest"),
        ("content-md5", "x", 400, "InvalidDigest"),
        ("x-amz-checksum-sha256", "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek=", 200, ""),
        ("x-amz-checksum-sha256", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", 400, "BadDigest"),
    ] {
        let headers = [("content-length", "11"), (name, value)];
        let answer = setup.put(UNSIGNED, &headers, text("hello world")).await.is(status, code);
        if status == 200 {
            if name.starts_with("x-amz-checksum-") {
                assert_eq!(answer.headers[name], value);
                let mode = [("x-amz-checksum-mode", "ENABLED")];
                for method in ["GET", "HEAD"] {
                    let found = setup.ask_as(&setup.key, (method, "/photos/k"), &mode, "").await;
                    assert_eq!(found.is(200, "").headers[name], value, "{method}");
                }
            }
            setup.ask("DELETE", "/photos/k", "").await.is(204, "");
        }
        setup.has_nothing().await;
    }
}

#[tokio::test]
async fn a_checksum_in_a_trailer_is_required_and_verified() {
    let setup = Setup::new().await;
    let headers = [
        ("x-amz-decoded-content-length", "11"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
        ("content-encoding", "aws-chunked,gzip"),
    ];
    for (body, code) in [
        ("b\r\nhello world\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "BadDigest"),
        ("b\r\nhello world\r\n0\r\n\r\n", "MalformedTrailerError"),
        ("b\r\nhello world\r\n0\r\nx-amz-checksum-sha1:AAAA\r\n\r\n", "MalformedTrailerError"),
        ("b\r\nhello world\r\n", "IncompleteBody"),
        ("b\r\nhello wor", "IncompleteBody"),
        ("a\r\nhello worl\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "IncompleteBody"),
        ("c\r\nhello world!\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "IncompleteBody"),
        ("b\r\nhello world!\r\n0\r\n\r\n", "IncompleteBody"),
        ("hello world", "IncompleteBody"),
    ] {
        setup.put(TRAILER, &headers, text(body)).await.is(400, code);
        setup.has_nothing().await;
    }
    for (name, value) in [
        ("x-amz-checksum-crc64nvme", "jSnVw/bqjr4="),
        ("x-amz-checksum-crc32c", "yZRlqg=="),
        ("x-amz-checksum-sha1", "Kq5sNclPz7QV2+lfQIuc6R7oRu0="),
    ] {
        let headers = [("x-amz-decoded-content-length", "11"), ("x-amz-trailer", name)];
        let body = |value: &str| text(&format!("b\r\nhello world\r\n0\r\n{name}:{value}\r\n\r\n"));
        let wrong = value.replacen(&value[..2], "AA", 1);
        setup.put(TRAILER, &headers, body(&wrong)).await.is(400, "BadDigest");
        setup.has_nothing().await;
        let answer = setup.put(TRAILER, &headers, body(value)).await.is(200, "");
        assert_eq!(answer.headers[name], value);
        setup.ask("DELETE", "/photos/k", "").await.is(204, "");
    }
    let good = format!("5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:{CRC32}\r\n\r\n");
    let answer = setup.put(TRAILER, &headers, text(&good)).await.is(200, "");
    assert_eq!(answer.headers["x-amz-checksum-crc32"], CRC32);
    let found = setup.ask("GET", "/photos/k", "").await.is(200, "");
    assert_eq!(
        (found.body.as_str(), &found.headers["content-encoding"]),
        ("hello world", &"gzip".parse().unwrap())
    );
}

#[tokio::test]
async fn signed_chunks_are_checked_one_by_one() {
    let setup = Setup::new().await;
    let headers = [("x-amz-decoded-content-length", "11"), ("content-encoding", "aws-chunked")];
    for spoil in [false, true] {
        let (headers, mut seal) = sign(&setup.key, "PUT", "/photos/k", &headers, SIGNED);
        let chunks = [seal.chunk(b"hello"), seal.chunk(b" world"), seal.chunk(b"")];
        let mut body = chunks.concat();
        if spoil {
            let at = body.windows(5).position(|it| it == b"world").unwrap();
            body[at] = b'W';
        }
        let pieces = body.chunks(7).map(|it| Ok(Bytes::copy_from_slice(it))).collect();
        let answer = setup.send("PUT", "/photos/k", &headers, pieces).await;
        if spoil {
            answer.is(403, "SignatureDoesNotMatch");
        } else {
            answer.is(200, "");
            let found = setup.ask("GET", "/photos/k", "").await.is(200, "");
            assert_eq!(found.body, "hello world");
            assert!(!found.headers.contains_key("content-encoding"));
            setup.ask("DELETE", "/photos/k", "").await.is(204, "");
        }
        setup.has_nothing().await;
    }
}

#[tokio::test]
async fn incomplete_parts_store_nothing_and_can_be_retried() {
    let setup = Setup::new().await;
    let begun = setup.ask("POST", "/photos/k?uploads", "").await.is(200, "").body;
    let id = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0.to_owned();
    let target = format!("/photos/k?partNumber=1&uploadId={id}");
    for length in ["5", "20"] {
        let headers = [("content-length", length)];
        let (headers, _) = sign(&setup.key, "PUT", &target, &headers, UNSIGNED);
        setup.send("PUT", &target, &headers, text("hello world")).await.is(400, "IncompleteBody");
        setup.has_nothing().await;
    }
    let etag = setup.ask("PUT", &target, "hello world").await.is(200, "").headers["etag"].clone();
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>\
         </CompleteMultipartUpload>",
        etag.to_str().unwrap().replace('"', "&quot;")
    );
    let complete = format!("/photos/k?uploadId={id}");
    for (name, value, code) in [
        ("x-amz-mp-object-size", "12", "IncompleteBody"),
        ("x-amz-checksum-crc32", "AAAAAA==", "BadDigest"),
    ] {
        let headers = [(name, value)];
        setup.ask_as(&setup.key, ("POST", &complete), &headers, &parts).await.is(400, code);
        setup.ask("HEAD", "/photos/k", "").await.is(404, "NoSuchKey");
    }
    let headers = [("x-amz-mp-object-size", "11"), ("x-amz-checksum-crc32", CRC32)];
    setup.ask_as(&setup.key, ("POST", &complete), &headers, &parts).await.is(200, "");
    assert_eq!(setup.ask("GET", "/photos/k", "").await.body, "hello world");
    assert_eq!(setup.files(), 1);
}
