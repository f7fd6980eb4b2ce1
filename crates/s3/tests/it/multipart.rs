//! Multipart uploads: the checksums of parts and of the whole.

use crate::setup::{Answer, Setup};

/// Checksums of a part of 5 MiB of sevens, of the part "hello world", and of both: CRCs of the
/// bytes, hashes of the two hashes. Computed by another program.
const SUMS: [(&str, [&str; 2], &str); 5] = [
    ("CRC64NVME", ["6oVDgfCTY6I=", "jSnVw/bqjr4="], "ZdNJIWFzn20="),
    ("CRC32C", ["Hf2flw==", "yZRlqg=="], "h2vHXQ=="),
    ("CRC32", ["JJDgYg==", "DUoRhQ=="], "hbkdnw=="),
    (
        "SHA1",
        ["x8m5UqNPmF/+7GBHRz5tSY9C2DQ=", "Kq5sNclPz7QV2+lfQIuc6R7oRu0="],
        "JfmdYQJrz/FV7T1SAbl5hjKe0bk=",
    ),
    (
        "SHA256",
        [
            "4pJf3RfIPHfppPlX/RcLKnK0isVZaJQ9z5YvK4U8iKk=",
            "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek=",
        ],
        "adHYEO6kDOnuJ7RE9lBWug9ZkZvqHcR4z4CQaBoCfM0=",
    ),
];
/// The CRCs of the CRCs of both parts, and the index in `SUMS`. Computed by another program.
const COMPOSITES: [(usize, &str); 2] = [(1, "X69Nhg=="), (2, "Qwx+Ig==")];
/// The SHA-256 of the bytes of both parts.
const WHOLE_SHA256: &str = "pxvo+tUgSCkurG0fE950u7XHLv+4qn46qzlxzfyTTCc=";

struct Upload<'a> {
    setup: &'a Setup,
    target: String,
    parts: String,
}

impl Setup {
    /// Uploads both parts with these checksums. CRCs are those of the whole.
    async fn upload(&self, algorithm: Option<(&str, [&str; 2])>) -> Upload<'_> {
        let name = algorithm.map(|it| format!("x-amz-checksum-{}", it.0.to_lowercase()));
        let begin = algorithm.map(|it| {
            let type_ = if it.0.starts_with("SHA") { "COMPOSITE" } else { "FULL_OBJECT" };
            [("x-amz-checksum-algorithm", it.0), ("x-amz-checksum-type", type_)]
        });
        let begin = begin.as_ref().map_or(&[][..], |it| it);
        let id = self.begin(begin).await.body;
        self.send_parts(&id, algorithm, name).await
    }

    /// Begins an upload; the response has its id.
    async fn begin(&self, headers: &[(&str, &str)]) -> Answer {
        let target = ("POST", "/photos/k?uploads");
        self.ask_as(&self.key, target, headers, "").await.is(200, "")
    }

    /// Uploads both parts, with their checksums if the header has a name.
    async fn send_parts(
        &self,
        begun: &str,
        algorithm: Option<(&str, [&str; 2])>,
        name: Option<String>,
    ) -> Upload<'_> {
        let id = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0.to_owned();
        let mut parts = String::new();
        for (index, body) in ["\u{7}".repeat(5 << 20), "hello world".into()].iter().enumerate() {
            let number = index + 1;
            let target = format!("/photos/k?partNumber={number}&uploadId={id}");
            let sum = algorithm.map(|it| it.1[index]);
            let headers: Vec<_> = name.as_deref().zip(sum).into_iter().collect();
            let sent = self.ask_as(&self.key, ("PUT", &target), &headers, body).await.is(200, "");
            let etag = sent.headers["etag"].to_str().unwrap().replace('"', "&quot;");
            let sum =
                algorithm.map(|it| format!("<Checksum{0}>{1}</Checksum{0}>", it.0, it.1[index]));
            parts += &format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>{}</Part>",
                sum.unwrap_or_default()
            );
        }
        let target = format!("/photos/k?uploadId={id}");
        Upload { setup: self, target, parts }
    }
}

impl Upload<'_> {
    async fn complete(&self, headers: &[(&str, &str)]) -> Answer {
        let body = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", self.parts);
        self.setup.ask_as(&self.setup.key, ("POST", &self.target), headers, &body).await
    }
}

#[tokio::test]
async fn every_checksum_of_a_whole_upload_is_checked() {
    let setup = Setup::new().await;
    for (algorithm, parts, whole) in SUMS {
        let upload = setup.upload(Some((algorithm, parts))).await;
        let name = format!("x-amz-checksum-{}", algorithm.to_lowercase());
        let wrong = whole.replacen(&whole[..2], "AA", 1);
        upload.complete(&[(&name, &wrong)]).await.is(400, "BadDigest");
        setup.ask("HEAD", "/photos/k", "").await.is(404, "NoSuchKey");
        let composite = format!("{whole}-3");
        let code = if algorithm == "CRC64NVME" { "InvalidRequest" } else { "BadDigest" };
        upload.complete(&[(&name, &composite)]).await.is(400, code);
        let answer = upload.complete(&[(&name, whole)]).await.is(200, "");
        let is_hash = algorithm.starts_with("SHA");
        let shown = if is_hash { format!("{whole}-2") } else { whole.to_owned() };
        let element = format!("<Checksum{algorithm}>{shown}</Checksum{algorithm}>");
        assert!(answer.body.contains(&element), "{}", answer.body);
        let mode = [("x-amz-checksum-mode", "ENABLED")];
        let head = setup.ask_as(&setup.key, ("HEAD", "/photos/k"), &mode, "").await.is(200, "");
        assert_eq!(head.headers[name.as_str()], shown);
        setup.ask("DELETE", "/photos/k", "").await.is(204, "");
    }
}

#[tokio::test]
async fn composite_crcs_are_checked_and_shown_with_their_type() {
    let setup = Setup::new().await;
    let has = |answer: &Answer, algorithm: &str, type_: &str| {
        let (body, headers) = (&answer.body, &answer.headers);
        let header = |name: &str| headers.get(name).map_or("", |it| it.to_str().unwrap());
        let told = (header("x-amz-checksum-algorithm"), header("x-amz-checksum-type"));
        let in_body = body.contains(&format!("<ChecksumAlgorithm>{algorithm}</Checksum"))
            && body.contains(&format!("<ChecksumType>{type_}</ChecksumType>"));
        assert!(told == (algorithm, type_) || in_body, "{answer:?}");
    };
    for (index, composite) in COMPOSITES {
        let (algorithm, parts, whole) = SUMS[index];
        let asked = [("x-amz-checksum-algorithm", algorithm), ("x-amz-checksum-type", "COMPOSITE")];
        let begun = setup.begin(&asked).await;
        has(&begun, algorithm, "COMPOSITE");
        // The parts have no checksums: the server computes those that it announced.
        let upload = setup.send_parts(&begun.body, None, None).await;
        has(&setup.ask("GET", &upload.target, "").await.is(200, ""), algorithm, "COMPOSITE");
        has(&setup.ask("GET", "/photos?uploads", "").await.is(200, ""), algorithm, "COMPOSITE");
        let name = format!("x-amz-checksum-{}", algorithm.to_lowercase());
        let name = name.as_str();
        let right = format!("{composite}-2");
        for wrong in [format!("{composite}-3"), format!("{whole}-2"), format!("{}-2", parts[0])] {
            upload.complete(&[(name, &wrong)]).await.is(400, "BadDigest");
        }
        let type_ = ("x-amz-checksum-type", "COMPOSITE");
        upload.complete(&[(name, whole), type_]).await.is(400, "BadDigest");
        setup.ask("HEAD", "/photos/k", "").await.is(404, "NoSuchKey");
        let done = upload.complete(&[(name, &right), type_]).await.is(200, "");
        assert!(done.body.contains("<ChecksumType>COMPOSITE</ChecksumType>"), "{}", done.body);
        // A client may repeat the request, also without the number of parts.
        upload.complete(&[(name, composite), type_]).await.is(200, "");
        let mode = [("x-amz-checksum-mode", "ENABLED")];
        for method in ["HEAD", "GET"] {
            let found = setup.ask_as(&setup.key, (method, "/photos/k"), &mode, "").await;
            let found = found.is(200, "").headers;
            assert_eq!(found[name], right);
            assert_eq!(found["x-amz-checksum-type"], "COMPOSITE");
        }
        setup.ask("DELETE", "/photos/k", "").await.is(204, "");
        // As in S3, the type is composite if none is announced, and that of the upload holds for
        // its completion, which may be repeated.
        let begun = setup.begin(&asked[..1]).await;
        has(&begun, algorithm, "COMPOSITE");
        let upload = setup.send_parts(&begun.body, None, None).await;
        let full = ("x-amz-checksum-type", "FULL_OBJECT");
        upload.complete(&[(name, whole), full]).await.is(400, "InvalidRequest");
        upload.complete(&[full]).await.is(400, "InvalidRequest");
        upload.complete(&[(name, whole)]).await.is(400, "BadDigest");
        for value in [composite, &right] {
            upload.complete(&[(name, value)]).await.is(200, "");
        }
        setup.ask("DELETE", "/photos/k", "").await.is(204, "");
        let begun = setup.begin(&[asked[0], full]).await;
        has(&begun, algorithm, "FULL_OBJECT");
        let upload = setup.send_parts(&begun.body, None, None).await;
        upload.complete(&[(name, composite), type_]).await.is(400, "InvalidRequest");
        upload.complete(&[(name, &right)]).await.is(400, "BadDigest");
        upload.complete(&[(name, whole)]).await.is(200, "");
        setup.ask("DELETE", "/photos/k", "").await.is(204, "");
    }
}

#[tokio::test]
async fn an_announced_hash_is_computed_for_parts_and_copies_without_one() {
    let setup = Setup::new().await;
    setup.ask("PUT", "/photos/from", "hello world").await.is(200, "");
    for (algorithm, parts, whole) in [SUMS[3], SUMS[4]] {
        let begun = setup.begin(&[("x-amz-checksum-algorithm", algorithm)]).await;
        let upload = setup.send_parts(&begun.body, None, None).await;
        let target = upload.target.replace('?', "?partNumber=2&");
        let source = [("x-amz-copy-source", "/photos/from")];
        let copied = setup.ask_as(&setup.key, ("PUT", &target), &source, "").await.is(200, "");
        assert!(copied.body.contains(parts[1]), "{}", copied.body);
        let name = format!("x-amz-checksum-{}", algorithm.to_lowercase());
        let done = upload.complete(&[(&name, whole)]).await.is(200, "");
        assert!(done.body.contains(&format!("{whole}-2")), "{}", done.body);
        setup.ask("DELETE", "/photos/k", "").await.is(204, "");
    }
}

#[tokio::test]
async fn a_type_that_an_algorithm_does_not_have_is_refused() {
    let setup = Setup::new().await;
    for (algorithm, type_) in [
        (Some("CRC64NVME"), "COMPOSITE"),
        (Some("SHA1"), "FULL_OBJECT"),
        (Some("SHA256"), "FULL_OBJECT"),
        (Some("CRC32"), "OTHER"),
        (None, "COMPOSITE"),
    ] {
        let algorithm = algorithm.map(|it| ("x-amz-checksum-algorithm", it));
        let mut headers = vec![("x-amz-checksum-type", type_)];
        headers.extend(algorithm);
        let target = ("POST", "/photos/k?uploads");
        let answer = setup.ask_as(&setup.key, target, &headers, "").await;
        answer.is(400, "InvalidRequest");
    }
}

#[tokio::test]
async fn a_checksum_of_the_whole_that_cannot_be_checked_is_refused() {
    let setup = Setup::new().await;
    let upload = setup.upload(None).await;
    for (name, value) in [
        ("x-amz-checksum-sha256", WHOLE_SHA256),
        ("x-amz-checksum-sha1", SUMS[3].2),
        ("x-amz-checksum-crc32c", SUMS[1].2),
    ] {
        upload.complete(&[(name, value)]).await.is(400, "BadDigest");
        setup.ask("HEAD", "/photos/k", "").await.is(404, "NoSuchKey");
    }
    // S3 itself computes it for every upload.
    upload.complete(&[("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=")]).await.is(400, "BadDigest");
    upload.complete(&[("x-amz-checksum-crc64nvme", SUMS[0].2)]).await.is(200, "");
}

#[tokio::test]
async fn a_wrong_checksum_in_the_list_of_parts_is_refused() {
    let setup = Setup::new().await;
    for (algorithm, parts, _) in SUMS {
        let mut upload = setup.upload(Some((algorithm, parts))).await;
        let right = std::mem::take(&mut upload.parts);
        upload.parts = right.replace(parts[1], parts[0]);
        upload.complete(&[]).await.is(400, "InvalidPart");
        upload.parts = right;
        upload.complete(&[]).await.is(200, "");
        setup.ask("DELETE", "/photos/k", "").await.is(204, "");
    }
}
