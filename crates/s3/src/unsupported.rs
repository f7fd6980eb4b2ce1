//! Refuses features of S3 that are not supported, where ignoring them would break a promise.

use http::{HeaderMap, HeaderValue, Uri};
use s3s::{S3Result, s3_error};

const UNSEALED: &str = "the server does not seal blobs at rest: use an encrypted disk";
const NO_LOCK: &str = "object lock is not supported";

/// Prefixes of headers that would be ignored, and the reason to refuse them.
const HEADERS: &[(&str, &str)] = &[
    ("x-amz-server-side-encryption", UNSEALED),
    ("x-amz-copy-source-server-side-encryption", UNSEALED),
    ("x-amz-object-lock", NO_LOCK),
    ("x-amz-bucket-object-lock", NO_LOCK),
    ("x-amz-website-redirect-location", "redirection is not supported"),
    ("x-amz-write-offset-bytes", "appending is not supported"),
    ("x-amz-grant-", "only access keys give access: `steadfast keys create` makes one"),
    ("x-amz-if-match-size", "a condition on the size is not supported"),
    ("x-amz-if-match-last-modified-time", "a condition on the time is not supported"),
    ("x-amz-rename-source", "renaming is not supported"),
];

/// The options of a request, from its headers or the query of a presigned URL. Names are lowercase.
fn asked(uri: &Uri, headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |it: &HeaderValue| String::from_utf8_lossy(it.as_bytes()).into_owned();
    let in_headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let in_query = query.map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()));
    in_headers.chain(in_query).collect()
}

/// Refuses options that this operation would ignore.
pub(crate) fn check(operation: &str, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let asked = asked(uri, headers);
    for (prefix, reason) in HEADERS {
        // The value `false` does not request a feature.
        let mut wanted = asked.iter().filter(|(_, value)| !value.eq_ignore_ascii_case("false"));
        if let Some((name, _)) = wanted.find(|(name, _)| name.starts_with(prefix)) {
            return Err(s3_error!(NotImplemented, "{reason}; leave {name} out"));
        }
    }
    let mut values = asked.iter();
    if values.any(|(name, value)| name == "x-amz-tagging" && !value.is_empty()) {
        return Err(s3_error!(NotImplemented, "tags are not supported; use metadata instead"));
    }
    let mut values = asked.iter();
    let is_usual = |it: &str| ["", "STANDARD"].contains(&it);
    if values.any(|(name, value)| name == "x-amz-storage-class" && !is_usual(value)) {
        return Err(s3_error!(InvalidStorageClass, "the only storage class is STANDARD"));
    }
    check_version(operation, uri)
}

/// The way to get the effect of an operation that is not served, if there is one.
pub(crate) fn instead_of(operation: &str) -> &'static str {
    match operation {
        "PutBucketPolicy" | "PutBucketOwnershipControls" | "PutPublicAccessBlock" => {
            ": all is private; `steadfast keys create` gives access"
        }
        "PutBucketLifecycleConfiguration" => "; `steadfast buckets lifecycle put` sets a rule",
        "PutBucketEncryption" => ": blobs are not sealed at rest; use an encrypted disk",
        "PutBucketTagging" | "PutObjectTagging" => "; use the metadata of blobs",
        _ => "",
    }
}

/// The access control list of a request, if it would give others access.
pub(crate) fn public_acl(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut asked = asked(uri, headers).into_iter();
    let found = asked.find(|(name, value)| name == "x-amz-acl" && !PRIVATE.contains(&&**value));
    found.map(|it| it.1)
}

/// The warning about an access control list that was not applied: the blob or bucket is private.
/// Tools send one with each upload, and refusing it would refuse the upload.
pub(crate) fn ignored_acl(uri: &Uri, headers: &HeaderMap) -> Option<HeaderValue> {
    let acl = public_acl(uri, headers)?;
    let shown: String = acl.chars().filter(|it| it.is_ascii_alphanumeric() || *it == '-').collect();
    let text = format!(
        "299 - \"x-amz-acl {shown} was not applied: it is private; only access keys and presigned \
         URLs give access\""
    );
    HeaderValue::from_str(&text).ok()
}

/// Access control lists that give others no access.
const PRIVATE: [&str; 4] = ["", "private", "bucket-owner-full-control", "bucket-owner-read"];

/// Buckets keep one version of each blob, which S3 calls `null`.
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
    fn unsupported_options_are_refused() {
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
        // A presigned URL has it in its query.
        let private = ("x-amz-acl", "private");
        for uri in ["/b/k?x-amz-tagging=a%3Db", "/b/k?X-Amz-Server-Side-Encryption=AES256"] {
            assert_eq!(code(uri, private), Some(none.clone()), "{uri}");
        }
        assert_eq!(code("/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256", private), None);
        let glacier = ("x-amz-storage-class", "GLACIER");
        assert_eq!(code("/b/k", glacier), Some(S3ErrorCode::InvalidStorageClass));
        let old = code("/b/k?versionId=3", ("x-amz-acl", "private"));
        assert_eq!(old, Some(S3ErrorCode::InvalidArgument));
    }
}
