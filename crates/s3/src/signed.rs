//! What a signature covers, before anybody has checked it.

use std::borrow::Cow;

use http::{HeaderMap, Uri, header, request::Parts};

/// The claims of a signature, from the Authorization header or from the query.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Signed<'a> {
    /// There is none.
    No,
    /// Signature Version 2, or another one that we do not know.
    Old,
    /// Two at once.
    Twice,
    /// In the Authorization header.
    Header(Claims<'a>),
    /// In the query.
    Query {
        /// What is claimed.
        claims: Claims<'a>,
        /// How many seconds it is to hold; `None` if that is no number.
        expires: Option<u64>,
    },
}

/// What a signature says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims<'a> {
    /// Key, day, region, service.
    pub(crate) credential: Cow<'a, str>,
    /// The headers that it covers, with `;` between them.
    pub(crate) headers: Cow<'a, str>,
}

impl Claims<'_> {
    /// Whether it covers a header.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.headers.split(';').any(|it| it.eq_ignore_ascii_case(name))
    }

    /// For which region it was made.
    pub(crate) fn region(&self) -> Option<&str> {
        self.credential.rsplit('/').nth(2)
    }

    /// For which service it was made.
    pub(crate) fn service(&self) -> Option<&str> {
        self.credential.rsplit('/').nth(1)
    }
}

impl<'a> Signed<'a> {
    pub(crate) fn of(parts: &'a Parts) -> Self {
        match (in_header(&parts.headers), in_query(&parts.uri)) {
            (Signed::No, it) | (it, Signed::No) => it,
            (Signed::Old, _) | (_, Signed::Old) => Signed::Old,
            _ => Signed::Twice,
        }
    }
}

fn in_header(headers: &HeaderMap) -> Signed<'_> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Signed::No };
    let text = value.to_str().unwrap_or_default();
    let Some(rest) = text.strip_prefix("AWS4-HMAC-SHA256") else { return Signed::Old };
    let mut claims = Claims::default();
    for part in rest.split(',') {
        match part.trim().split_once('=') {
            Some(("Credential", value)) => claims.credential = value.trim().into(),
            Some(("SignedHeaders", value)) => claims.headers = value.trim().into(),
            Some(_) | None => {}
        }
    }
    Signed::Header(claims)
}

fn in_query(uri: &Uri) -> Signed<'_> {
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
        (true, _) => Signed::Old,
        (false, true) => Signed::Query { claims, expires },
        (false, false) => Signed::No,
    }
}
