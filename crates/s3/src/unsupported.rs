//! What S3 has and we do not: said, and never ignored where ignoring would be a promise.

use http::{HeaderMap, HeaderValue, Uri};
use s3s::{S3Result, s3_error};

/// Headers that would be ignored, by what they begin with, and what they ask for.
const HEADERS: &[(&str, &str)] = &[
    ("x-amz-server-side-encryption", "encryption by the server"),
    ("x-amz-copy-source-server-side-encryption", "encryption by the server"),
    ("x-amz-object-lock", "object lock"),
    ("x-amz-bucket-object-lock", "object lock"),
    ("x-amz-website-redirect-location", "redirection"),
    ("x-amz-write-offset-bytes", "appending"),
    ("x-amz-grant-", "access control lists"),
    ("x-amz-if-match-size", "a condition on the size"),
    ("x-amz-if-match-last-modified-time", "a condition on the time"),
    ("x-amz-rename-source", "renaming"),
];

/// Refuses what this operation would have to ignore.
pub(crate) fn check(operation: &str, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    for (prefix, what) in HEADERS {
        // Some clients say that they do not want it.
        let mut wanted =
            headers.iter().filter(|(_, value)| !value.as_bytes().eq_ignore_ascii_case(b"false"));
        if let Some((name, _)) = wanted.find(|(name, _)| name.as_str().starts_with(prefix)) {
            return Err(s3_error!(NotImplemented, "{what} is not supported; leave {name} out"));
        }
    }
    let value = |name: &str| headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    if !value("x-amz-tagging").is_empty() {
        return Err(s3_error!(NotImplemented, "tags are not supported; use metadata instead"));
    }
    let class = value("x-amz-storage-class");
    if !["", "STANDARD"].contains(&class) {
        return Err(s3_error!(InvalidStorageClass, "the only storage class is STANDARD"));
    }
    check_version(operation, uri)
}

/// What is said of an access control list that a blob or bucket was to get and did not get: it is
/// there, and private. Tools send one with each upload: refusing it would refuse the upload.
pub(crate) fn ignored_acl(headers: &HeaderMap) -> Option<HeaderValue> {
    let acl = headers.get("x-amz-acl")?.to_str().ok()?;
    if PRIVATE.contains(&acl) {
        return None;
    }
    let shown: String = acl.chars().filter(|it| it.is_ascii_alphanumeric() || *it == '-').collect();
    let text = format!(
        "299 - \"x-amz-acl {shown} was not applied: it is private; only access keys and presigned \
         URLs give access\""
    );
    HeaderValue::from_str(&text).ok()
}

/// Access control lists that give nobody else access.
pub(crate) const PRIVATE: [&str; 4] =
    ["", "private", "bucket-owner-full-control", "bucket-owner-read"];

/// A bucket keeps one version of each blob, which S3 calls `null`.
fn check_version(operation: &str, uri: &Uri) -> S3Result<()> {
    let query = uri.query().unwrap_or_default().as_bytes();
    let mut pairs = form_urlencoded::parse(query);
    match pairs.find(|(name, _)| name == "versionId") {
        Some((_, value)) if value != "null" => Err(s3_error!(
            InvalidArgument,
            "{operation} of version `{value}`: buckets keep one version of each key; leave it out"
        )),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use s3s::S3ErrorCode;

    use super::*;

    fn code(uri: &'static str, header: (&'static str, &'static str)) -> Option<S3ErrorCode> {
        let (name, value) = header;
        let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
        let found = check("PutObject", &Uri::from_static(uri), &HeaderMap::from_iter([header]));
        found.err().map(|it| it.code().clone())
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        let none = S3ErrorCode::NotImplemented;
        for header in [
            ("x-amz-server-side-encryption", "AES256"),
            ("x-amz-server-side-encryption-customer-key", "x"),
            ("x-amz-tagging", "a=b"),
            ("x-amz-grant-read", "x"),
        ] {
            assert_eq!(code("/b/k", header), Some(none.clone()), "{header:?}");
        }
        for header in [
            ("x-amz-acl", "private"),
            ("x-amz-storage-class", "STANDARD"),
            ("x-amz-bucket-object-lock-enabled", "false"),
        ] {
            assert_eq!(code("/b/k?versionId=null", header), None, "{header:?}");
        }
        let glacier = ("x-amz-storage-class", "GLACIER");
        assert_eq!(code("/b/k", glacier), Some(S3ErrorCode::InvalidStorageClass));
        let old = code("/b/k?versionId=3", ("x-amz-acl", "private"));
        assert_eq!(old, Some(S3ErrorCode::InvalidArgument));
    }
}
