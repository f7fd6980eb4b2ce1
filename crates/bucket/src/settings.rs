//! The settings of a bucket: its limits, the rules that send events about blobs to queues, the
//! rules that delete old blobs, and those for pages of other origins (CORS).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_store::queue_address;

use crate::{BLOB_BYTES_MAX, BlobAction, BucketError, KEY_BYTES_MAX, error::wrong};

/// The settings of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BucketSettings {
    /// Maximum size of a blob in bytes; `None`: 5 TiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_blob_bytes: Option<u64>,
    /// Rules that send events.
    pub rules: Vec<Rule>,
    /// Rules that delete old blobs.
    pub lifecycle: Vec<LifecycleRule>,
    /// Rules for pages of other origins. The first one that fits counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cors: Vec<CorsRule>,
}

impl BucketSettings {
    pub(crate) fn blob_bytes_max(&self) -> u64 {
        self.max_blob_bytes.unwrap_or(BLOB_BYTES_MAX)
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<(), BucketError> {
        if self.max_blob_bytes.is_some_and(|it| !(1..=BLOB_BYTES_MAX).contains(&it)) {
            return Err(wrong("maxBlobBytes", &format!("must be 1 to {BLOB_BYTES_MAX}")));
        }
        check_cors(&self.cors)
    }
}

/// A rule that deletes old blobs and uploads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LifecycleRule {
    /// Its id in the bucket.
    pub id: String,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Age at which blobs are deleted.
    pub delete_after_ms: Option<u64>,
    /// Age at which multipart uploads are aborted.
    pub abort_uploads_after_ms: Option<u64>,
}

impl LifecycleRule {
    pub(crate) fn delete_after(&self) -> Option<Duration> {
        self.delete_after_ms.map(Duration::from_millis)
    }

    pub(crate) fn abort_uploads_after(&self) -> Option<Duration> {
        self.abort_uploads_after_ms.map(Duration::from_millis)
    }

    fn check(&self) -> Result<(), BucketError> {
        check_id(&self.id)?;
        if KEY_BYTES_MAX < self.prefix.len() {
            return Err(wrong("prefix", "must have 1,024 bytes at most"));
        }
        if self.delete_after_ms.is_none() && self.abort_uploads_after_ms.is_none() {
            return Err(wrong("deleteAfterMs", "or abortUploadsAfterMs is required"));
        }
        const CENTURY: u64 = 100 * 366 * 24 * 60 * 60 * 1_000;
        for (field, value) in [
            ("deleteAfterMs", self.delete_after_ms),
            ("abortUploadsAfterMs", self.abort_uploads_after_ms),
        ] {
            if value.is_some_and(|it| !(1_000..=CENTURY).contains(&it)) {
                return Err(wrong(field, "must be between 1 second and 100 years"));
            }
        }
        Ok(())
    }
}

/// Adds a lifecycle rule, or replaces the rule with its id.
pub(crate) fn put_lifecycle(
    rules: &mut Vec<LifecycleRule>,
    rule: LifecycleRule,
) -> Result<(), BucketError> {
    rule.check()?;
    put(rules, rule, |it| &it.id)
}

/// Replaces the rule with the same id, or adds one. The rules are in the order of their ids.
fn put<T>(rules: &mut Vec<T>, rule: T, id: fn(&T) -> &str) -> Result<(), BucketError> {
    rules.retain(|it| id(it) != id(&rule));
    if RULES_MAX <= rules.len() {
        return Err(too_many());
    }
    rules.push(rule);
    rules.sort_by(|a, b| id(a).cmp(id(b)));
    Ok(())
}

/// A group of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventType {
    /// PutObject, CopyObject, CompleteMultipartUpload.
    ObjectCreate,
    /// DeleteObject, LifecycleDeletion.
    ObjectDelete,
}

steadfast_store::texts! {
    EventType { ObjectCreate = "object-create", ObjectDelete = "object-delete" }
}

impl EventType {
    /// The stored name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    fn has(self, action: BlobAction) -> bool {
        match self {
            EventType::ObjectCreate => !action.is_deletion() && action != BlobAction::Unknown,
            EventType::ObjectDelete => action.is_deletion(),
        }
    }
}

/// A rule that sends events to a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = BucketRule))]
pub struct Rule {
    /// Its id in the bucket.
    pub id: String,
    /// object-create (put, copy, completed upload), object-delete (deletions, including those by a
    /// lifecycle rule).
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub events: Vec<EventType>,
    /// Only keys that begin with this.
    pub prefix: String,
    /// Only keys that end with this.
    pub suffix: String,
    /// The target queue.
    pub queue: String,
}

impl Rule {
    /// A rule for all keys.
    pub fn new(id: &str, events: &[EventType], queue: &str) -> Self {
        let (id, events, queue) = (id.into(), events.to_vec(), queue.into());
        Self { id, events, queue, ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), BucketError> {
        check_id(&self.id)?;
        if self.events.is_empty() {
            return Err(wrong("events", "must list object-create, object-delete or both"));
        }
        if KEY_BYTES_MAX < self.prefix.len() || KEY_BYTES_MAX < self.suffix.len() {
            return Err(wrong("prefix", "and suffix must have 1,024 bytes at most"));
        }
        if queue_address(&self.queue).is_err() {
            let rule = "must be the name of a queue: 1 to 64 letters, digits, `-`, `_`, `.`";
            return Err(wrong("queue", rule));
        }
        Ok(())
    }

    /// Whether the rule sends an event for this action and key.
    pub fn sends(&self, action: BlobAction, key: &str) -> bool {
        self.events.iter().any(|it| it.has(action))
            && key.starts_with(&self.prefix)
            && key.ends_with(&self.suffix)
    }

    /// An event type that both rules send for some key. Prefixes or suffixes overlap if one begins
    /// or ends with the other.
    fn overlaps(&self, other: &Rule) -> Option<EventType> {
        let shared = self.events.iter().find(|it| other.events.contains(it))?;
        let (a, b) = (&self.prefix, &other.prefix);
        let (x, y) = (&self.suffix, &other.suffix);
        let prefixes = a.starts_with(b.as_str()) || b.starts_with(a.as_str());
        let suffixes = x.ends_with(y.as_str()) || y.ends_with(x.as_str());
        (prefixes && suffixes).then_some(*shared)
    }
}

/// Checks an id. Ids of rules are parts of URL paths.
fn check_id(id: &str) -> Result<(), BucketError> {
    let fits = |it: u8| it.is_ascii_alphanumeric() || b"-_.".contains(&it);
    if (1..=64).contains(&id.len()) && id.bytes().all(fits) {
        return Ok(());
    }
    Err(wrong("id", "must have 1 to 64 letters, digits, `-`, `_` or `.`"))
}

/// Adds a rule, or replaces the rule with its id. Overlapping rules are refused: each change sends
/// one message.
pub(crate) fn put_rule(rules: &mut Vec<Rule>, mut rule: Rule) -> Result<(), BucketError> {
    rule.check()?;
    rule.events.sort();
    rule.events.dedup();
    let mut others = rules.iter().filter(|it| it.id != rule.id);
    if let Some((other, action)) = others.find_map(|it| Some((it, rule.overlaps(it)?))) {
        let (other, action) = (other.id.clone(), action.name());
        return Err(BucketError::Overlap { rule: rule.id, other, action });
    }
    put(rules, rule, |it| &it.id)
}

/// Maximum number of rules of one kind.
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
pub(crate) fn check_cors(rules: &[CorsRule]) -> Result<(), BucketError> {
    if RULES_MAX < rules.len() {
        return Err(too_many());
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
pub(crate) fn put_cors(rules: &mut Vec<CorsRule>, rule: CorsRule) -> Result<(), BucketError> {
    match rules.iter_mut().find(|it| it.id == rule.id) {
        Some(old) => *old = rule,
        None => rules.push(rule),
    }
    Ok(())
}

fn too_many() -> BucketError {
    wrong("id", &format!("exceeds the limit of {RULES_MAX} rules"))
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

    const BOTH: [EventType; 2] = [EventType::ObjectCreate, EventType::ObjectDelete];

    fn rule(id: &str, events: &[EventType], prefix: &str, suffix: &str) -> Rule {
        Rule { prefix: prefix.into(), suffix: suffix.into(), ..Rule::new(id, events, "q") }
    }

    #[test]
    fn a_rule_sends_the_actions_of_its_events_and_the_keys_between_prefix_and_suffix() {
        let all = rule("a", &BOTH, "in/", ".png");
        assert!(all.sends(BlobAction::CopyObject, "in/x.png"));
        assert!(all.sends(BlobAction::LifecycleDeletion, "in/x.png"));
        assert!(!all.sends(BlobAction::PutObject, "out/x.png"));
        assert!(!all.sends(BlobAction::PutObject, "in/x.gif"));
        assert!(!all.sends(BlobAction::Unknown, "in/x.png"));
        let created = rule("a", &BOTH[..1], "", "");
        assert!(created.sends(BlobAction::CompleteMultipartUpload, "x"));
        assert!(!created.sends(BlobAction::DeleteObject, "x"));
    }

    #[test]
    fn two_rules_that_would_send_the_same_change_are_refused() {
        let mut rules = Vec::new();
        put_rule(&mut rules, rule("a", &BOTH, "in/", "")).unwrap();
        let overlaps = |it: Rule| {
            let mut rules = vec![rule("a", &BOTH, "in/", ".png")];
            matches!(put_rule(&mut rules, it), Err(BucketError::Overlap { .. }))
        };
        assert!(overlaps(rule("b", &BOTH[1..], "in/deep/", "")));
        assert!(overlaps(rule("b", &BOTH, "", "g")));
        assert!(!overlaps(rule("b", &BOTH, "out/", ".png")));
        assert!(!overlaps(rule("b", &BOTH, "in/", ".gif")));
        assert!(!overlaps(rule("a", &BOTH, "in/deep/", ".png")), "it takes its own place");
        let mut rules = vec![rule("a", &BOTH[..1], "in/", "")];
        put_rule(&mut rules, rule("b", &BOTH[1..], "in/", "")).unwrap();
        assert_eq!(rules.len(), 2);
    }

    #[test]
    fn an_invalid_rule_is_refused() {
        for bad in [
            rule("", &BOTH, "", ""),
            rule("a/b", &BOTH, "", ""),
            rule("a", &[], "", ""),
            rule("a", &BOTH, &"x".repeat(1_025), ""),
            Rule { queue: "no queue".into(), ..rule("a", &BOTH, "", "") },
        ] {
            assert!(matches!(bad.check(), Err(BucketError::Argument { .. })), "{bad:?}");
        }
    }

    #[test]
    fn the_name_of_an_event_type_is_the_stored_one() {
        assert_eq!(BOTH.map(EventType::name), ["object-create", "object-delete"]);
        assert_eq!(
            serde_json::to_value(BOTH).unwrap(),
            serde_json::json!(BOTH.map(EventType::name))
        );
    }

    const ORIGINS: [&str; 7] = [
        "*",
        "https://app.example",
        "http://*.local:3000",
        "http://localhost:*",
        "*://app.example:8443",
        "http://[::1]",
        "http://[::1]:3000",
    ];

    fn cors_rule() -> CorsRule {
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
    fn an_invalid_cors_rule_is_refused() {
        assert!(check_cors(&[cors_rule()]).is_ok());
        let list = |it: &str| vec![it.to_owned()];
        let of_origin = |it: &&str| CorsRule { origins: list(it), ..cors_rule() };
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
            CorsRule { id: "a/b".into(), ..cors_rule() },
            CorsRule { origins: Vec::new(), ..cors_rule() },
            CorsRule { max_age_seconds: Some(1 << 31), ..cors_rule() },
            CorsRule { methods: Vec::new(), ..cors_rule() },
            CorsRule { methods: list("get"), ..cors_rule() },
            CorsRule { methods: list("OPTIONS"), ..cors_rule() },
            CorsRule { headers: list("a b"), ..cors_rule() },
            CorsRule { headers: list("*-*"), ..cors_rule() },
            CorsRule { expose_headers: list("x-*"), ..cors_rule() },
            CorsRule { expose_headers: list("a\r\nb: c"), ..cors_rule() },
            CorsRule { headers: vec!["a".into(); ITEMS_MAX + 1], ..cors_rule() },
        ];
        for bad in origins.iter().map(of_origin).chain(others) {
            let found = check_cors(std::slice::from_ref(&bad));
            assert!(matches!(found, Err(BucketError::Argument { .. })), "{bad:?}");
        }
    }

    #[test]
    fn the_rules_of_a_bucket_are_limited_in_number_and_bytes() {
        let of = |id: usize| CorsRule { id: id.to_string(), ..cors_rule() };
        assert!(check_cors(&(0..RULES_MAX).map(of).collect::<Vec<_>>()).is_ok());
        assert!(check_cors(&(0..=RULES_MAX).map(of).collect::<Vec<_>>()).is_err());
        assert!(check_cors(&[cors_rule(), cors_rule()]).is_err(), "the same id twice");
        let long = CorsRule { headers: vec!["a".repeat(BYTES_MAX)], ..cors_rule() };
        assert!(check_cors(&[long]).is_err());
    }
}
