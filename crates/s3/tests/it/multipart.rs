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
/// The SHA-256 of the bytes of both parts.
const WHOLE_SHA256: &str = "pxvo+tUgSCkurG0fE950u7XHLv+4qn46qzlxzfyTTCc=";

struct Upload<'a> {
    setup: &'a Setup,
    target: String,
    parts: String,
}

impl Setup {
    /// Uploads both parts with these checksums.
    async fn upload(&self, algorithm: Option<(&str, [&str; 2])>) -> Upload<'_> {
        let name = algorithm.map(|it| format!("x-amz-checksum-{}", it.0.to_lowercase()));
        let begin = algorithm.map(|it| [("x-amz-checksum-algorithm", it.0)]);
        let begin = begin.as_ref().map_or(&[][..], |it| it);
        let begun = self.ask_as(&self.key, ("POST", "/photos/k?uploads"), begin, "").await;
        let id = begun.is(200, "").body;
        let id = id.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0.to_owned();
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
        let code = if algorithm.starts_with("SHA") { "BadDigest" } else { "InvalidRequest" };
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
