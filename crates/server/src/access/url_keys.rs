//! The keys that sign URLs: one for each token. They are derived and never stored, and end with the
//! secret of their token.

use steadfast_bucket::{AccessKey, BucketError};
use steadfast_core::{TokenError, object::Caller};
use steadfast_s3::{URL_KEY_PREFIX, url_key};
use steadfast_store::{SealError, Timestamp};

use crate::server::Server;

/// Callers without a token share this name while access is open. Ids of tokens are longer.
const OPEN: &str = "OPEN";

/// The key that signs the URLs of a caller.
pub(crate) fn of_caller(server: &Server, caller: &Caller) -> Result<AccessKey, SealError> {
    let of_token = caller.principal().map(|it| (&*it.token, it.issued_at));
    let (token, issued_at) = of_token.unwrap_or((OPEN, Timestamp(0)));
    url_key(server.runtime.seal(), token, issued_at)
}

/// The key with this id, unless its token has ended.
pub(crate) async fn find(server: &Server, id: &str) -> Result<Option<AccessKey>, BucketError> {
    let Some(token) = id.strip_prefix(URL_KEY_PREFIX) else { return Ok(None) };
    let issued_at = if token == OPEN {
        server.is_open().then_some(Timestamp(0))
    } else {
        match server.runtime.tokens().principal(token).await {
            Err(TokenError::Store(error)) => return Err(error.into()),
            found => found.ok().map(|it| it.issued_at),
        }
    };
    let key = issued_at.map(|it| url_key(server.runtime.seal(), token, it)).transpose();
    key.map_err(BucketError::from)
}
