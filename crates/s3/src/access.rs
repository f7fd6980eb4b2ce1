//! Access keys of signatures, and what their scope permits. Each request reads its key from the
//! store, so that a revoked key does not work any more.

use std::{
    cell::{Cell, OnceCell},
    sync::Arc,
};

use http::{HeaderMap, Uri};
use s3s::{
    S3Error, S3Request, S3Result,
    access::{S3Access, S3AccessContext},
    auth::{S3Auth, SecretKey},
    dto::{
        CopyObjectInput, CopySource, ListMultipartUploadsInput, ListObjectVersionsInput,
        ListObjectsInput, ListObjectsV2Input, UploadPartCopyInput,
    },
    path::S3Path,
    s3_error,
};
use steadfast_bucket::{AccessKey, BucketError, KeyScope, find_key};
use steadfast_store::{Seal, Store};

use crate::{
    convert,
    errors::s3_error_of,
    operations::{Permission, ServedOperation, operation},
    presign::URL_KEY_PREFIX,
    unsupported,
};

tokio::task_local! {
    static REQUEST: SignedRequest;
}

/// A request, as far as it is known.
#[derive(Default)]
struct SignedRequest {
    /// Read for its secret, then used for its scope.
    key: OnceCell<AccessKey>,
    /// Known when the signature was verified.
    operation: OnceCell<&'static ServedOperation>,
    is_refused: Cell<bool>,
}

/// The verified signer of a request, and the use of its access key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signer {
    /// The id of the access key.
    pub(crate) key: String,
    /// Its name.
    pub(crate) name: Option<String>,
    pub(crate) operation: &'static ServedOperation,
    /// Whether the scope of the key refused the request, or a part of it.
    pub(crate) is_refused: bool,
}

/// Runs a request with a place to remember its access key. Returns the signer, if the signature is
/// that of the request.
pub(crate) async fn with_signer<T>(answer: impl Future<Output = T>) -> (T, Option<Signer>) {
    let answer = async { (answer.await, REQUEST.with(SignedRequest::signer)) };
    REQUEST.scope(SignedRequest::default(), answer).await
}

impl SignedRequest {
    fn signer(&self) -> Option<Signer> {
        let (key, operation) = (self.key.get()?, self.operation.get()?);
        let (key, name) = (key.id.clone(), key.scope.name.clone());
        Some(Signer { key, name, operation, is_refused: self.is_refused.get() })
    }
}

/// Notes the operation of a request whose signature was verified.
fn note_operation(operation: &'static ServedOperation) {
    let _ = REQUEST.try_with(|it| it.operation.set(operation));
}

/// Notes that the scope of the key refused the request, or a part of it.
fn note_refusal() {
    let _ = REQUEST.try_with(|it| it.is_refused.set(true));
}

/// The program around the API: it has the keys that sign URLs, and limits the requests of all keys.
#[async_trait::async_trait]
pub trait Host: Send + Sync + 'static {
    /// The key with this id, which begins with [`URL_KEY_PREFIX`]; `None` if it is not valid now.
    async fn url_key(&self, id: &str) -> Result<Option<AccessKey>, BucketError>;

    /// Whether a key may send a request now. It is asked after the signature was verified: ids of
    /// keys are no secrets, so others must not use up its rate.
    fn may_send(&self, key: &str) -> bool;
}

pub(crate) struct Keys {
    store: Arc<dyn Store>,
    seal: Seal,
    host: Option<Arc<dyn Host>>,
}

impl Keys {
    pub(crate) fn new(store: Arc<dyn Store>, seal: Seal, host: Option<Arc<dyn Host>>) -> Self {
        Self { store, seal, host }
    }

    async fn find(&self, id: &str) -> Result<Option<AccessKey>, BucketError> {
        match &self.host {
            Some(host) if id.starts_with(URL_KEY_PREFIX) => host.url_key(id).await,
            Some(_) | None => find_key(&*self.store, &self.seal, id).await,
        }
    }
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let key = self.find(access_key).await.map_err(s3_error_of)?.ok_or_else(unknown)?;
        let secret = SecretKey::from(key.secret.expose());
        // Outside of a request there is no place for it, and nothing reads it.
        let _ = REQUEST.try_with(|it| drop(it.key.set(key)));
        Ok(secret)
    }
}

/// The scope of the access key that signed this request.
fn scope_of_signer(id: &str) -> S3Result<KeyScope> {
    let find = |it: &SignedRequest| Some(it.key.get().filter(|it| it.id == id)?.scope.clone());
    let scope = REQUEST.try_with(find);
    scope.ok().flatten().ok_or_else(unknown)
}

fn unknown() -> S3Error {
    s3_error!(
        InvalidAccessKeyId,
        "there is no such access key, or it was revoked; make one with `steadfast keys create`"
    )
}

/// Checks permissions against the scope of the access key.
pub(crate) struct Permissions {
    /// The owner of every bucket.
    pub(crate) account: String,
    pub(crate) host: Option<Arc<dyn Host>>,
}

/// Refuses a request that expects another owner of the bucket.
fn check_owner(account: &str, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    const NAMES: [&str; 2] = ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"];
    let query = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let in_query = query.filter(|it| NAMES.contains(&it.0.to_ascii_lowercase().as_str()));
    let mut expected: Vec<String> = in_query.map(|it| it.1.into_owned()).collect();
    for value in NAMES.iter().flat_map(|it| headers.get_all(*it)) {
        expected.push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    if expected.iter().all(|it| it == account) {
        return Ok(());
    }
    let text = "the bucket has another owner than x-amz-expected-bucket-owner says";
    Err(s3_error!(AccessDenied, "{text}; ListBuckets shows who it is"))
}

#[async_trait::async_trait]
impl S3Access for Permissions {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let Some(credentials) = cx.credentials() else {
            let text = "sign the request with an access key; `steadfast keys create` makes one";
            return Err(s3_error!(AccessDenied, "{text}"));
        };
        let key = &credentials.access_key;
        let scope = scope_of_signer(key)?;
        // Before the operation is noted: the audit log has no request beyond the rate.
        if self.host.as_ref().is_some_and(|it| !it.may_send(key)) {
            let text = "this access key sends too many requests per second; try again in a second";
            return Err(s3_error!(SlowDown, "{text}"));
        }
        let name = cx.s3_op().name();
        let Some(operation) = operation(name) else {
            let instead = unsupported::instead_of(name);
            return Err(s3_error!(NotImplemented, "{name} is not supported{instead}"));
        };
        note_operation(operation);
        allowed(&scope, operation.needs, cx.s3_path())?;
        check_owner(&self.account, cx.uri(), cx.headers())?;
        unsupported::check(operation.name, cx.uri(), cx.headers())?;
        cx.extensions_mut().insert(scope);
        Ok(())
    }

    async fn list_objects(&self, req: &mut S3Request<ListObjectsInput>) -> S3Result<()> {
        may_list(scope_of(req)?, &req.input.bucket, req.input.prefix.as_deref())
    }

    async fn list_objects_v2(&self, req: &mut S3Request<ListObjectsV2Input>) -> S3Result<()> {
        may_list(scope_of(req)?, &req.input.bucket, req.input.prefix.as_deref())
    }

    async fn list_object_versions(
        &self,
        req: &mut S3Request<ListObjectVersionsInput>,
    ) -> S3Result<()> {
        may_list(scope_of(req)?, &req.input.bucket, req.input.prefix.as_deref())
    }

    async fn list_multipart_uploads(
        &self,
        req: &mut S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<()> {
        may_list(scope_of(req)?, &req.input.bucket, req.input.prefix.as_deref())
    }

    async fn copy_object(&self, req: &mut S3Request<CopyObjectInput>) -> S3Result<()> {
        may_copy(scope_of(req)?, &req.input.copy_source)
    }

    async fn upload_part_copy(&self, req: &mut S3Request<UploadPartCopyInput>) -> S3Result<()> {
        may_copy(scope_of(req)?, &req.input.copy_source)
    }
}

fn allowed(scope: &KeyScope, permission: Permission, path: &S3Path) -> S3Result<()> {
    if permission.is_write() && scope.read_only {
        note_refusal();
        return Err(s3_error!(AccessDenied, "this access key may only read"));
    }
    let fits = match (permission, path) {
        (Permission::Key, _) => true,
        (Permission::Everything, _) => scope.is_all(),
        (
            Permission::Bucket | Permission::List | Permission::BucketWrite,
            S3Path::Bucket { bucket },
        ) => sees(scope, bucket),
        (
            Permission::Read | Permission::Write | Permission::Copy,
            S3Path::Object { bucket, key },
        ) => scope.covers_blob(bucket, key),
        _ => false,
    };
    if fits { Ok(()) } else { Err(denied(scope)) }
}

/// Whether the scope covers anything in a bucket.
pub(crate) fn sees(scope: &KeyScope, bucket: &str) -> bool {
    scope.bucket.as_deref().is_none_or(|it| it == bucket)
}

/// The scope of the access key of a request.
pub(crate) fn scope_of<T>(req: &S3Request<T>) -> S3Result<&KeyScope> {
    req.extensions.get().ok_or_else(|| s3_error!(AccessDenied, "sign the request"))
}

/// Refuses a request, or a part of it, and names the scope of the key.
pub(crate) fn denied(scope: &KeyScope) -> s3s::S3Error {
    note_refusal();
    let bucket = scope.bucket.as_deref().map_or(String::new(), |it| format!(" in bucket `{it}`"));
    let prefix = scope.prefix.as_deref().map_or(String::new(), |it| format!(" below `{it}`"));
    s3_error!(AccessDenied, "this access key is only for blobs{bucket}{prefix}")
}

fn may_list(scope: &KeyScope, bucket: &str, prefix: Option<&str>) -> S3Result<()> {
    let fits = scope.covers_list(bucket, prefix.unwrap_or_default());
    if fits { Ok(()) } else { Err(denied(scope)) }
}

/// Looks at the scope before anything else is wrong with the source: what is outside is refused,
/// and recorded.
fn may_copy(scope: &KeyScope, source: &CopySource) -> S3Result<()> {
    if let CopySource::Bucket { bucket, key, .. } = source
        && !scope.covers_blob(bucket, key)
    {
        return Err(denied(scope));
    }
    convert::source(source).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bucket: &str, key: &str) -> S3Path {
        S3Path::Object { bucket: bucket.into(), key: key.into() }
    }

    #[test]
    fn a_key_is_limited_to_its_scope() {
        let bucket = S3Path::Bucket { bucket: "abc".into() };
        let all = KeyScope::default();
        let one = KeyScope { bucket: Some("abc".into()), ..KeyScope::default() };
        let below = KeyScope { prefix: Some("a/".into()), ..one.clone() };
        let reader = KeyScope { read_only: true, ..KeyScope::default() };
        for (scope, permission, path, expected) in [
            (&all, Permission::Everything, &bucket, true),
            (&all, Permission::Write, &at("abc", "x"), true),
            (&one, Permission::Everything, &bucket, false),
            (&one, Permission::BucketWrite, &bucket, true),
            (&one, Permission::Write, &at("abc", "x"), true),
            (&one, Permission::Read, &at("abd", "x"), false),
            (&below, Permission::Read, &at("abc", "a/x"), true),
            (&below, Permission::Read, &at("abc", "a"), false),
            (&below, Permission::Write, &at("abc", "b/x"), false),
            (&reader, Permission::Read, &at("abc", "x"), true),
            (&reader, Permission::Write, &at("abc", "x"), false),
            (&reader, Permission::Everything, &bucket, false),
            (&reader, Permission::BucketWrite, &bucket, false),
            (&all, Permission::Read, &bucket, false),
        ] {
            let found = allowed(scope, permission, path);
            assert_eq!(found.is_ok(), expected, "{scope:?} {permission:?} {path:?}");
        }
    }

    #[test]
    fn a_list_and_the_source_of_a_copy_must_be_in_the_scope() {
        let below = KeyScope {
            bucket: Some("abc".into()),
            prefix: Some("a/".into()),
            ..KeyScope::default()
        };
        assert!(may_list(&below, "abc", Some("a/b")).is_ok());
        assert!(may_list(&below, "abc", Some("a")).is_err());
        assert!(may_list(&below, "abc", None).is_err());
        let source = |bucket: &str, key: &str| CopySource::Bucket {
            bucket: bucket.into(),
            key: key.into(),
            version_id: None,
        };
        assert!(may_copy(&below, &source("abc", "a/x")).is_ok());
        assert!(may_copy(&below, &source("abc", "b/x")).is_err());
        assert!(may_copy(&below, &source("abd", "a/x")).is_err());
    }
}
