//! Whose signature it is: access keys are in the store, and asked for with each request, so that
//! one that is revoked ends at once.

use std::sync::Arc;

use s3s::{
    S3Result,
    auth::{S3Auth, SecretKey},
    s3_error,
};
use steadfast_bucket::{AccessKey, find_key};
use steadfast_store::Store;

use crate::errors::s3_error_of;

pub(crate) struct Keys {
    store: Arc<dyn Store>,
}

impl Keys {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        Ok(SecretKey::from(find(&*self.store, access_key).await?.secret))
    }
}

/// The key of this id, which must be there.
pub(crate) async fn find(store: &dyn Store, id: &str) -> S3Result<AccessKey> {
    find_key(store, id).await.map_err(s3_error_of)?.ok_or_else(|| {
        s3_error!(
            InvalidAccessKeyId,
            "there is no such access key, or it was revoked; make one with `steadfast keys create`"
        )
    })
}
