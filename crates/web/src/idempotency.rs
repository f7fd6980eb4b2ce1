//! The header `Idempotency-Key`.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, request::Parts},
};
use steadfast_api::Code;
use steadfast_core::{RequestKey, object, store::limits::KEY_BYTES_MAX};

use crate::Problem;

/// The header of an idempotency key.
const HEADER: &str = "idempotency-key";

/// The idempotency key of a request, as an extractor: a repetition of the request within 24 hours
/// changes nothing and gets the first response.
///
/// A key has no scope by itself. Pass its [text](Self::text) to a call of an object, which has its
/// own keys: `client.call(…).maybe_key(key.text())`. For other operations,
/// [`request`](Self::request) binds it to the operation, the principal and the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdempotencyKey(Option<String>);

impl IdempotencyKey {
    /// The key in these headers. An invalid one is the error `invalid_key`.
    pub fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(value) = headers.get(HEADER) else { return Ok(Self(None)) };
        let fits = |it: &str| {
            (1..=KEY_BYTES_MAX).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_graphic())
        };
        let key = value.to_str().ok().filter(|it| fits(it)).ok_or_else(|| {
            let detail = format!(
                "`Idempotency-Key` must have 1 to {KEY_BYTES_MAX} visible ASCII characters, \
                 without spaces"
            );
            Problem::of(Code::InvalidKey, detail)
        })?;
        Ok(Self(Some(key.to_owned())))
    }

    /// The key in these headers, for a caller. A principal has keys of its own: others cannot
    /// repeat its requests.
    pub fn of_caller(headers: &HeaderMap, caller: &object::Caller) -> Result<Self, Problem> {
        let Self(key) = Self::of(headers)?;
        let scoped = match caller.principal() {
            Some(it) => key.map(|key| it.scoped_key(&key)),
            None => key,
        };
        Ok(Self(scoped))
    }

    /// The same for a request that the server has admitted.
    pub fn of_request(parts: &Parts) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<object::Caller>();
        Self::of_caller(&parts.headers, caller.unwrap_or(&object::Caller::Anonymous))
    }

    /// The key; `None` without the header.
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The key; `None` without the header.
    pub fn into_text(self) -> Option<String> {
        self.0
    }

    /// The key of this request. `request` is the body, with everything else that distinguishes two
    /// requests, such as the values of the path.
    pub fn request(
        &self,
        operation: &str,
        principal: Option<&str>,
        request: &[u8],
    ) -> Result<Option<RequestKey>, Problem> {
        let key = self.text().map(|key| RequestKey::new(operation, principal, key, request));
        key.transpose().map_err(|error| Problem::of(Code::InvalidKey, error.to_string()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of_request(parts)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_key_is_read_and_an_invalid_one_is_refused() {
        let name = HeaderName::from_static(HEADER);
        let of = |value| IdempotencyKey::of(&HeaderMap::from_iter([(name.clone(), value)]));
        let key = of(HeaderValue::from_static("k-1")).expect("a key");
        assert_eq!(key.text(), Some("k-1"));
        assert_eq!(IdempotencyKey::of(&HeaderMap::new()).expect("none").text(), None);
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        for bad in [&b""[..], b"\xff", b"a b", b"a\tb", long.as_bytes()] {
            let value = HeaderValue::from_bytes(bad).expect("a value");
            assert_eq!(of(value).expect_err("refused").code(), "invalid_key");
        }
    }

    #[test]
    fn the_keys_of_two_principals_are_different() {
        let key = IdempotencyKey(Some("k".into()));
        let request = |principal| format!("{:?}", key.request("upload", principal, b"x"));
        assert_ne!(request(Some("acme")), request(Some("other")));
        assert_ne!(request(Some("acme")), request(None));
        assert!(IdempotencyKey(None).request("upload", None, b"x").expect("none").is_none());
    }
}
