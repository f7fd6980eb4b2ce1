//! Reads the claims of a signature, before it is verified.

use std::borrow::Cow;

use http::{HeaderMap, Uri, header, request::Parts};

/// The claims of a signature, in the Authorization header or in the query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Signature<'a> {
    /// No signature.
    Missing,
    /// Signature Version 2, or an unknown version.
    Unsupported,
    /// Both in the header and in the query.
    Duplicate,
    /// In the Authorization header.
    Header(Claims<'a>),
    /// In the query.
    Query {
        /// The claims.
        claims: Claims<'a>,
        /// Lifetime in seconds; `None` if it is not a number.
        expires: Option<u64>,
    },
}

/// Claims of a signature.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims<'a> {
    /// Credential: key, day, region, service.
    pub(crate) credential: Cow<'a, str>,
    /// Signed headers, separated by `;`.
    pub(crate) headers: Cow<'a, str>,
}

impl Claims<'_> {
    /// Whether the signature covers a header. The library looks for exactly these names: a name in
    /// upper case covers nothing.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.headers.split(';').any(|it| it == name)
    }

    /// The region.
    pub(crate) fn region(&self) -> Option<&str> {
        self.credential.rsplit('/').nth(2)
    }

    /// The service.
    pub(crate) fn service(&self) -> Option<&str> {
        self.credential.rsplit('/').nth(1)
    }
}

impl<'a> Signature<'a> {
    pub(crate) fn of(parts: &'a Parts) -> Self {
        match (in_header(&parts.headers), in_query(&parts.uri)) {
            (Signature::Missing, it) | (it, Signature::Missing) => it,
            (Signature::Unsupported, _) | (_, Signature::Unsupported) => Signature::Unsupported,
            _ => Signature::Duplicate,
        }
    }
}

fn in_header(headers: &HeaderMap) -> Signature<'_> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Signature::Missing };
    let text = value.to_str().unwrap_or_default();
    let Some(rest) = text.strip_prefix("AWS4-HMAC-SHA256") else { return Signature::Unsupported };
    let mut claims = Claims::default();
    for part in rest.split(',') {
        match part.trim().split_once('=') {
            Some(("Credential", value)) => claims.credential = value.trim().into(),
            Some(("SignedHeaders", value)) => claims.headers = value.trim().into(),
            Some(_) | None => {}
        }
    }
    Signature::Header(claims)
}

fn in_query(uri: &Uri) -> Signature<'_> {
    let mut claims = Claims::default();
    let (mut is_old, mut is_signed, mut expires) = (false, false, None);
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        match name.as_ref() {
            "AWSAccessKeyId" | "Signature" => is_old = true,
            "X-Amz-Signature" => is_signed = true,
            "X-Amz-Credential" => claims.credential = value,
            "X-Amz-SignedHeaders" => claims.headers = value,
            "X-Amz-Expires" => expires = value.parse().ok(),
            _ => {}
        }
    }
    match (is_old, is_signed) {
        (true, _) => Signature::Unsupported,
        (false, true) => Signature::Query { claims, expires },
        (false, false) => Signature::Missing,
    }
}
