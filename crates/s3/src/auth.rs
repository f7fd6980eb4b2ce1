//! Access keys of signatures. Each request reads its key from the store, so that a revoked key
//! stops working at once.

use std::{
    cell::{Cell, OnceCell},
    sync::Arc,
};

use s3s::{
    S3Error, S3Result,
    auth::{S3Auth, SecretKey},
    s3_error,
};
use steadfast_bucket::{AccessKey, BucketError, Scope, find_key};
use steadfast_store::{Seal, Store};

use crate::{errors::s3_error_of, permission::Operation, presign::URL_KEY_PREFIX};

tokio::task_local! {
    static REQUEST: SignedRequest;
}

/// A request, as far as it is known.
#[derive(Default)]
struct SignedRequest {
    /// Read for its secret, then used for its scope.
    key: OnceCell<AccessKey>,
    /// Known when the signature was verified.
    operation: OnceCell<&'static Operation>,
    is_refused: Cell<bool>,
}

/// The verified signer of a request, and the use of its access key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signer {
    /// The id of the access key.
    pub(crate) key: String,
    /// Its name.
    pub(crate) name: Option<String>,
    pub(crate) operation: &'static Operation,
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
pub(crate) fn note_operation(operation: &'static Operation) {
    let _ = REQUEST.try_with(|it| it.operation.set(operation));
}

/// Notes that the scope of the key refused the request, or a part of it.
pub(crate) fn note_refusal() {
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
pub(crate) fn scope_of_signer(id: &str) -> S3Result<Scope> {
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
