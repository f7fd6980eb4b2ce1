//! Rules for pages of other origins (CORS).

use serde::{Deserialize, Serialize};

use crate::{BucketError, rule::check_id};

const RULES_MAX: usize = 100;
/// Maximum number of origins, headers or exposed headers of one rule.
const ITEMS_MAX: usize = 100;
/// Maximum size of the rules of a bucket in bytes, as in S3.
const BYTES_MAX: usize = 64 << 10;
const METHODS: [&str; 5] = ["GET", "HEAD", "PUT", "POST", "DELETE"];

/// A rule that lets pages of other origins call the S3 API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CorsRule {
    /// Its id in the bucket.
    pub id: String,
    /// Origins of pages, each with at most one `*`.
    pub origins: Vec<String>,
    /// Methods that pages may use.
    pub methods: Vec<String>,
    /// Headers that pages may send, each with at most one `*`.
    pub headers: Vec<String>,
    /// Headers of responses that pages may read.
    pub expose_headers: Vec<String>,
    /// Time for which a browser need not ask again, in seconds.
    pub max_age_seconds: Option<u32>,
}

impl CorsRule {
    fn texts(&self) -> impl Iterator<Item = &String> {
        let Self { id, origins, methods, headers, expose_headers, max_age_seconds: _ } = self;
        [id].into_iter().chain(origins).chain(methods).chain(headers).chain(expose_headers)
    }

    fn check(&self) -> Result<(), BucketError> {
        check_id(&self.id)?;
        let lists = [&self.origins, &self.methods, &self.headers, &self.expose_headers];
        if lists.iter().any(|it| ITEMS_MAX < it.len()) {
            let rule = format!("and the other lists of a rule may have {ITEMS_MAX} items at most");
            return Err(wrong("origins", &rule));
        }
        if self.origins.is_empty() || !self.origins.iter().all(|it| is_origin(it)) {
            let rule = "must list `*`, or origins such as https://app.example, \
                        https://*.app.example or http://localhost:3000, as browsers send them: \
                        scheme and host in lowercase, without the default port and without a \
                        path, each with at most one `*`";
            return Err(wrong("origins", rule));
        }
        if self.methods.is_empty() || !self.methods.iter().all(|it| METHODS.contains(&&**it)) {
            return Err(wrong("methods", "must list GET, HEAD, PUT, POST or DELETE"));
        }
        if !self.headers.iter().all(|it| is_token(it) && it.matches('*').count() <= 1) {
            return Err(wrong("headers", "must be names of headers, each with at most one `*`"));
        }
        if !self.expose_headers.iter().all(|it| is_token(it) && !it.contains('*')) {
            return Err(wrong("exposeHeaders", "must be names of headers"));
        }
        // S3 has a signed number.
        if self.max_age_seconds.is_some_and(|it| i32::try_from(it).is_err()) {
            return Err(wrong("maxAgeSeconds", &format!("must be at most {}", i32::MAX)));
        }
        Ok(())
    }
}

/// Checks the rules of a bucket.
pub(crate) fn check(rules: &[CorsRule]) -> Result<(), BucketError> {
    if RULES_MAX < rules.len() {
        return Err(wrong("id", &format!("exceeds the limit of {RULES_MAX} rules")));
    }
    for (index, rule) in rules.iter().enumerate() {
        rule.check()?;
        if rules.iter().take(index).any(|it| it.id == rule.id) {
            return Err(wrong("id", "must be unique in the bucket"));
        }
    }
    if BYTES_MAX < rules.iter().flat_map(CorsRule::texts).map(String::len).sum::<usize>() {
        return Err(wrong("cors", "may have 64 KiB at most"));
    }
    Ok(())
}

/// Adds a rule behind the others, or replaces the rule with its id. The first rule that fits a
/// request counts.
pub(crate) fn put(rules: &mut Vec<CorsRule>, rule: CorsRule) {
    match rules.iter_mut().find(|it| it.id == rule.id) {
        Some(old) => *old = rule,
        None => rules.push(rule),
    }
}

fn wrong(field: &'static str, rule: &str) -> BucketError {
    BucketError::Argument { field, rule: rule.into() }
}

/// Whether a text may match the `Origin` header of a browser.
fn is_origin(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return text == "*" };
    // The address of a host with IPv6 has colons, in brackets.
    let (host, port) = match rest.rsplit_once(':').filter(|_| !rest.ends_with(']')) {
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let has = |text: &str, others: &[u8]| {
        let fits = |it: u8| {
            it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'*' || others.contains(&it)
        };
        !text.is_empty() && text.bytes().all(fits)
    };
    let is_number = |it: &str| it.parse::<u16>().is_ok_and(|number| number.to_string() == it);
    let is_default = matches!((scheme, port), ("http", Some("80")) | ("https", Some("443")));
    has(scheme, b"+-.")
        && (has(host, b"-._") || (host.starts_with('[') && has(host, b"[]:.")))
        && port.is_none_or(|it| is_number(it) || (it.contains('*') && has(it, b"")))
        && !is_default
        && text.matches('*').count() <= 1
}

/// Whether a text may be the name of a header.
fn is_token(text: &str) -> bool {
    let fits = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it);
    !text.is_empty() && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINS: [&str; 7] = [
        "*",
        "https://app.example",
        "http://*.local:3000",
        "http://localhost:*",
        "*://app.example:8443",
        "http://[::1]",
        "http://[::1]:3000",
    ];

    fn rule() -> CorsRule {
        CorsRule {
            id: "app".into(),
            origins: ORIGINS.map(str::to_owned).to_vec(),
            methods: METHODS.map(str::to_owned).to_vec(),
            headers: vec!["x-amz-*".into(), "*".into()],
            expose_headers: vec!["ETag".into()],
            max_age_seconds: Some(60),
        }
    }

    #[test]
    fn an_invalid_rule_is_refused() {
        assert!(check(&[rule()]).is_ok());
        let list = |it: &str| vec![it.to_owned()];
        let of_origin = |it: &&str| CorsRule { origins: list(it), ..rule() };
        let origins = [
            "",
            "app.example",
            "null",
            "https://",
            "https://App.example",
            "HTTPS://app.example",
            "https://app.example:443",
            "http://app.example:80",
            "http://app.example:",
            "http://app.example:080",
            "http://a:b",
            "https://*.a.*",
            "https://app.example/",
            "https://a\r\nb",
        ];
        let others = [
            CorsRule { id: "a/b".into(), ..rule() },
            CorsRule { origins: Vec::new(), ..rule() },
            CorsRule { max_age_seconds: Some(1 << 31), ..rule() },
            CorsRule { methods: Vec::new(), ..rule() },
            CorsRule { methods: list("get"), ..rule() },
            CorsRule { methods: list("OPTIONS"), ..rule() },
            CorsRule { headers: list("a b"), ..rule() },
            CorsRule { headers: list("*-*"), ..rule() },
            CorsRule { expose_headers: list("x-*"), ..rule() },
            CorsRule { expose_headers: list("a\r\nb: c"), ..rule() },
            CorsRule { headers: vec!["a".into(); ITEMS_MAX + 1], ..rule() },
        ];
        for bad in origins.iter().map(of_origin).chain(others) {
            let found = check(std::slice::from_ref(&bad));
            assert!(matches!(found, Err(BucketError::Argument { .. })), "{bad:?}");
        }
    }

    #[test]
    fn the_rules_of_a_bucket_are_limited_in_number_and_bytes() {
        let of = |id: usize| CorsRule { id: id.to_string(), ..rule() };
        assert!(check(&(0..RULES_MAX).map(of).collect::<Vec<_>>()).is_ok());
        assert!(check(&(0..=RULES_MAX).map(of).collect::<Vec<_>>()).is_err());
        assert!(check(&[rule(), rule()]).is_err(), "the same id twice");
        let long = CorsRule { headers: vec!["a".repeat(BYTES_MAX)], ..rule() };
        assert!(check(&[long]).is_err());
    }
}
