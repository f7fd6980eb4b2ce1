//! Features of S3 that buckets lack. A request is refused where ignoring the feature would break a
//! promise. Where it asks for a setting, it gets the answer of S3 for "not set", so that clients
//! that check first can continue.

use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use s3s::{
    S3Error, S3Request, S3Response, S3Result,
    dto::{
        AccessControlPolicy, DeleteBucketLifecycleInput, DeleteBucketLifecycleOutput,
        DeleteObjectTaggingInput, DeleteObjectTaggingOutput, GetBucketAclInput, GetBucketAclOutput,
        GetBucketLifecycleConfigurationInput, GetBucketLifecycleConfigurationOutput,
        GetObjectAclInput, GetObjectAclOutput, GetObjectLegalHoldInput, GetObjectLegalHoldOutput,
        GetObjectRetentionInput, GetObjectRetentionOutput, GetObjectTaggingInput,
        GetObjectTaggingOutput, Grant, Grantee, Permission, PutBucketAclInput, PutBucketAclOutput,
        PutObjectAclInput, PutObjectAclOutput, Type,
    },
    s3_error,
};

use crate::{
    convert,
    errors::{coded, s3_error_of},
    operations::S3Operations,
};

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
fn public_acl(uri: &Uri, headers: &HeaderMap) -> Option<String> {
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

impl S3Operations {
    /// The error "not set" for an existing bucket: the setting that it lacks, and the next step.
    pub(crate) async fn unset<T>(
        &self,
        bucket: &str,
        code: &'static str,
        lacks: &str,
    ) -> S3Result<T> {
        self.existing_bucket(bucket).await?;
        Err(coded(code, StatusCode::NOT_FOUND, format!("bucket {bucket} has no {lacks}")))
    }

    pub(crate) async fn lifecycle_get(
        &self,
        req: S3Request<GetBucketLifecycleConfigurationInput>,
    ) -> S3Result<S3Response<GetBucketLifecycleConfigurationOutput>> {
        let found = self.existing_bucket(&req.input.bucket).await?;
        if found.lifecycle.is_empty() {
            let lacks = "lifecycle rules; `steadfast buckets lifecycle put` sets one";
            return self.unset(&req.input.bucket, "NoSuchLifecycleConfiguration", lacks).await;
        }
        let text = "the bucket has lifecycle rules; `steadfast buckets lifecycle list` shows them";
        Err(s3_error!(NotImplemented, "{text}"))
    }

    pub(crate) async fn lifecycle_delete(
        &self,
        req: S3Request<DeleteBucketLifecycleInput>,
    ) -> S3Result<S3Response<DeleteBucketLifecycleOutput>> {
        let found = self.existing_bucket(&req.input.bucket).await?;
        if found.lifecycle.is_empty() {
            return Ok(S3Response::new(DeleteBucketLifecycleOutput::default()));
        }
        let text = "the bucket has lifecycle rules; `steadfast buckets lifecycle delete` deletes \
                    one";
        Err(s3_error!(NotImplemented, "{text}"))
    }

    pub(crate) async fn tags_get(
        &self,
        req: S3Request<GetObjectTaggingInput>,
    ) -> S3Result<S3Response<GetObjectTaggingOutput>> {
        self.blob_known(&req.input.bucket, &req.input.key).await?;
        let output = GetObjectTaggingOutput { tag_set: Vec::new(), version_id: None };
        Ok(S3Response::new(output))
    }

    pub(crate) async fn tags_delete(
        &self,
        req: S3Request<DeleteObjectTaggingInput>,
    ) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
        self.blob_known(&req.input.bucket, &req.input.key).await?;
        Ok(S3Response::new(DeleteObjectTaggingOutput::default()))
    }

    pub(crate) async fn retention_get(
        &self,
        req: S3Request<GetObjectRetentionInput>,
    ) -> S3Result<S3Response<GetObjectRetentionOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        Err(no_lock())
    }

    pub(crate) async fn legal_hold_get(
        &self,
        req: S3Request<GetObjectLegalHoldInput>,
    ) -> S3Result<S3Response<GetObjectLegalHoldOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        Err(no_lock())
    }

    pub(crate) async fn bucket_acl_get(
        &self,
        req: S3Request<GetBucketAclInput>,
    ) -> S3Result<S3Response<GetBucketAclOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        let (grants, owner) = (Some(vec![self.all_to_owner()]), Some(self.owner()));
        Ok(S3Response::new(GetBucketAclOutput { grants, owner }))
    }

    pub(crate) async fn object_acl_get(
        &self,
        req: S3Request<GetObjectAclInput>,
    ) -> S3Result<S3Response<GetObjectAclOutput>> {
        self.blob_known(&req.input.bucket, &req.input.key).await?;
        let (grants, owner) = (Some(vec![self.all_to_owner()]), Some(self.owner()));
        Ok(S3Response::new(GetObjectAclOutput { grants, owner, request_charged: None }))
    }

    pub(crate) async fn bucket_acl_put(
        &self,
        req: S3Request<PutBucketAclInput>,
    ) -> S3Result<S3Response<PutBucketAclOutput>> {
        self.existing_bucket(&req.input.bucket).await?;
        let public = public_acl(&req.uri, &req.headers);
        self.check_acl(public.as_deref(), req.input.access_control_policy.as_ref())?;
        Ok(S3Response::new(PutBucketAclOutput::default()))
    }

    pub(crate) async fn object_acl_put(
        &self,
        req: S3Request<PutObjectAclInput>,
    ) -> S3Result<S3Response<PutObjectAclOutput>> {
        self.blob_known(&req.input.bucket, &req.input.key).await?;
        let public = public_acl(&req.uri, &req.headers);
        self.check_acl(public.as_deref(), req.input.access_control_policy.as_ref())?;
        Ok(S3Response::new(PutObjectAclOutput::default()))
    }

    /// Refuses every access control list except the one in force: full control for the owner only.
    fn check_acl(
        &self,
        public: Option<&str>,
        policy: Option<&AccessControlPolicy>,
    ) -> S3Result<()> {
        let id = self.owner().id;
        let is_owners = |it: &Grant| it.grantee.as_ref().is_some_and(|it| it.id == id);
        let is_all = |it: &Grant| {
            let permission = it.permission.as_ref().map(|it| it.as_str());
            permission == Some(Permission::FULL_CONTROL)
        };
        let is_in_force = |policy: &AccessControlPolicy| {
            let grants = policy.grants.as_deref().unwrap_or_default();
            let owner = policy.owner.as_ref().and_then(|it| it.id.as_ref());
            owner.is_none_or(|it| Some(it) == id.as_ref())
                && grants.iter().all(is_owners)
                && grants.iter().any(is_all)
        };
        if public.is_none() && policy.is_none_or(is_in_force) {
            return Ok(());
        }
        let text = "buckets have no access control lists: all is private; give access with access \
                    keys (`steadfast keys create`) or presigned URLs";
        Err(coded("AccessControlListNotSupported", StatusCode::BAD_REQUEST, text))
    }

    fn all_to_owner(&self) -> Grant {
        let type_ = Type::from_static(Type::CANONICAL_USER);
        let id = self.owner().id;
        let grantee = Grantee { id, type_, display_name: None, email_address: None, uri: None };
        let permission = Some(Permission::from_static(Permission::FULL_CONTROL));
        Grant { grantee: Some(grantee), permission }
    }

    async fn blob_known(&self, bucket: &str, key: &str) -> S3Result<()> {
        let (bucket, key) = convert::blob_path(bucket, key)?;
        self.buckets.head(&bucket, &key).await.map(drop).map_err(s3_error_of)
    }
}

fn no_lock() -> S3Error {
    s3_error!(InvalidRequest, "the bucket has no object lock configuration")
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
