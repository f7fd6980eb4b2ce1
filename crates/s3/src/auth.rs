//! Access keys of signatures. Each request reads its key from the store, so that a revoked key
//! stops working at once.

use std::{cell::OnceCell, sync::Arc};

use s3s::{
    S3Error, S3Result,
    auth::{S3Auth, SecretKey},
    s3_error,
};
use steadfast_bucket::{AccessKey, Scope, find_key};
use steadfast_store::{Seal, Store};

use crate::errors::s3_error_of;

tokio::task_local! {
    /// The access key of the request: read for its secret, then used for its scope.
    static SIGNER: OnceCell<AccessKey>;
}

/// Runs a request with a place to remember its access key.
pub(crate) async fn with_signer<T>(answer: impl Future<Output = T>) -> T {
    SIGNER.scope(OnceCell::new(), answer).await
}

pub(crate) struct Keys {
    store: Arc<dyn Store>,
    seal: Seal,
}

impl Keys {
    pub(crate) fn new(store: Arc<dyn Store>, seal: Seal) -> Self {
        Self { store, seal }
    }
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let found = find_key(&*self.store, &self.seal, access_key).await.map_err(s3_error_of)?;
        let key = found.ok_or_else(unknown)?;
        let secret = SecretKey::from(key.secret.expose());
        // Outside of a request there is no place for it, and nothing reads it.
        let _ = SIGNER.try_with(|it| drop(it.set(key)));
        Ok(secret)
    }
}

/// The scope of the access key that signed this request.
pub(crate) fn scope_of_signer(id: &str) -> S3Result<Scope> {
    let scope = SIGNER.try_with(|it| it.get().filter(|it| it.id == id).map(|it| it.scope.clone()));
    scope.ok().flatten().ok_or_else(unknown)
}

fn unknown() -> S3Error {
    s3_error!(
        InvalidAccessKeyId,
        "there is no such access key, or it was revoked; make one with `steadfast keys create`"
    )
}
