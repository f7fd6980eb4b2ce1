//! A difference that matters.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The longest value that a finding repeats, in characters.
pub const VALUE_LEN_MAX: usize = 300;

/// How bad it is. The worst is the first in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Users are likely to notice.
    Critical,
    /// Somebody should look.
    Warn,
    /// Good to know.
    Info,
}

steadfast_core::store::texts! {
    Severity { Critical = "critical", Warn = "warn", Info = "info" }
}

impl Severity {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Category {
    Routing,
    Security,
    Cache,
    Content,
    Timing,
    Platform,
    Unknown,
}

steadfast_core::store::texts! {
    Category {
        Routing = "routing",
        Security = "security",
        Cache = "cache",
        Content = "content",
        Timing = "timing",
        Platform = "platform",
        Unknown = "unknown",
    }
}

impl Category {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident $text:literal,)+) => {
        /// Which rule found it. The names are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)+
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Code] = &[$(Code::$name),+];

            /// Its name in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)+ }
            }
        }
    };
}

codes! {
    /// A side has no response.
    ProbeFailure "PROBE_FAILURE",
    /// The statuses differ.
    StatusMismatch "STATUS_MISMATCH",
    /// The redirects end at different URLs.
    FinalUrlMismatch "FINAL_URL_MISMATCH",
    /// The redirects differ.
    RedirectChainChanged "REDIRECT_CHAIN_CHANGED",
    /// A side asks who is there.
    AuthChallengePresent "AUTH_CHALLENGE_PRESENT",
    /// Other sites may do different things.
    CorsHeaderDrift "CORS_HEADER_DRIFT",
    /// The headers for caches differ.
    CacheHeaderDrift "CACHE_HEADER_DRIFT",
    /// The media types differ.
    ContentTypeDrift "CONTENT_TYPE_DRIFT",
    /// The bodies differ.
    BodyHashDrift "BODY_HASH_DRIFT",
    /// The bodies of a side differ from request to request.
    DynamicContent "DYNAMIC_CONTENT",
    /// The sizes differ.
    ContentLengthDrift "CONTENT_LENGTH_DRIFT",
    /// A side is slower.
    TimingDrift "TIMING_DRIFT",
    /// The answers come from different places.
    CfContextDrift "CF_CONTEXT_DRIFT",
    /// Different software serves them.
    PlatformDrift "PLATFORM_DRIFT",
    /// The versions of HTTP differ.
    HttpProtocolDrift "HTTP_PROTOCOL_DRIFT",
    /// The encryption differs.
    TlsDrift "TLS_DRIFT",
    /// The certificates differ, or one is about to end.
    CertificateDrift "CERTIFICATE_DRIFT",
    /// A header that protects users differs.
    SecurityHeaderDrift "SECURITY_HEADER_DRIFT",
    /// A cookie is protected differently.
    CookieFlagDrift "COOKIE_FLAG_DRIFT",
    /// Only one side sets a cookie.
    CookiePresenceDrift "COOKIE_PRESENCE_DRIFT",
    /// Another header differs.
    UnknownDrift "UNKNOWN_DRIFT",
}

/// Which part of a diff shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "they are the fields of the diff")]
pub enum Section {
    Probe,
    Status,
    FinalUrl,
    Redirects,
    Headers,
    Content,
    Timing,
    Cf,
    Platform,
    Tls,
}

steadfast_core::store::texts! {
    Section {
        Probe = "probe",
        Status = "status",
        FinalUrl = "finalUrl",
        Redirects = "redirects",
        Headers = "headers",
        Content = "content",
        Timing = "timing",
        Cf = "cf",
        Platform = "platform",
        Tls = "tls",
    }
}

impl Section {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether it has such a key.
    pub fn has_key(self, key: &str) -> bool {
        let keys: &[&str] = match self {
            Section::Probe => &["left", "right"],
            Section::Status => &[],
            Section::FinalUrl => &["finalUrl", "host", "path", "query", "scheme"],
            Section::Redirects => &["chain", "finalHost", "hopCount"],
            Section::Headers => {
                let is_legal =
                    |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
                return !key.is_empty() && key.bytes().all(is_legal);
            }
            Section::Content => &["body-hash", "content-length", "content-type"],
            Section::Timing => &["duration_ms"],
            Section::Cf => &["asn", "colo", "country", "httpProtocol"],
            Section::Platform => &["powered-by", "server", "via"],
            Section::Tls => &["cipher", "expiry", "issuer", "key", "version"],
        };
        keys.contains(&key)
    }
}

/// The note of a difference that every request shows.
pub(super) const EACH_TIME: &str = "each time";

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The part of the diff.
    pub section: Section,
    /// The keys in it, sorted and each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// A word about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Evidence {
    /// Evidence with its keys in order. A header's name may hold characters that a key may not:
    /// those become dashes.
    pub fn new<'a>(section: Section, keys: impl IntoIterator<Item = &'a str>) -> Self {
        let legal = |key: &str| -> String {
            if section.has_key(key) {
                return key.to_owned();
            }
            let lower = key.to_ascii_lowercase();
            let swap = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
            lower.chars().map(swap).collect()
        };
        let keys: BTreeSet<String> = keys.into_iter().map(legal).collect();
        let keys = keys.into_iter().filter(|it| section.has_key(it)).collect();
        Self { section, keys, note: None }
    }
}

/// A difference that matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffFinding {
    /// `code:section:keys`: the same difference has the same id in every comparison.
    pub id: String,
    /// Which rule found it.
    pub code: Code,
    /// The subject.
    pub category: Category,
    /// How bad it is.
    pub severity: Severity,
    /// The message for people.
    pub message: String,
    /// The value of the left side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_value: Option<String>,
    /// The value of the right side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_value: Option<String>,
    /// Where to look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// Recommended actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recommendations: Vec<String>,
}

impl DiffFinding {
    /// A finding; values and recommendations come after.
    pub(super) fn new(
        code: Code,
        category: Category,
        severity: Severity,
        message: impl Into<String>,
        evidence: Evidence,
    ) -> Self {
        let mut id = format!("{}:{}", code.as_str(), evidence.section.as_str());
        if !evidence.keys.is_empty() {
            id.push(':');
            id.push_str(&evidence.keys.join(","));
        }
        Self {
            id,
            code,
            category,
            severity,
            message: message.into(),
            left_value: None,
            right_value: None,
            evidence: vec![evidence],
            recommendations: Vec::new(),
        }
    }

    /// Whether every request of both sides shows it, whatever else they do.
    pub(crate) fn is_each_time(&self) -> bool {
        self.evidence.iter().any(|it| it.note.as_deref() == Some(EACH_TIME))
    }

    /// With what both sides have. A missing value says that it is missing.
    pub(super) fn values(mut self, left: Option<&str>, right: Option<&str>) -> Self {
        self.left_value = Some(shown(left));
        self.right_value = Some(shown(right));
        self
    }

    /// With something to do.
    pub(super) fn advise(mut self, text: &str) -> Self {
        self.recommendations.push(text.to_owned());
        self
    }
}

fn shown(value: Option<&str>) -> String {
    let Some(value) = value else { return "(absent)".to_owned() };
    match value.char_indices().nth(VALUE_LEN_MAX) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value.to_owned(),
    }
}

/// Each finding once, the first wins; the worst first, then by code, message and id.
pub(super) fn ranked(mut findings: Vec<DiffFinding>) -> Vec<DiffFinding> {
    let mut seen = BTreeSet::new();
    findings.retain(|it| seen.insert(it.id.clone()));
    findings.sort_by(|a, b| {
        let key = |it: &DiffFinding| (it.severity, it.code.as_str());
        key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message)).then_with(|| a.id.cmp(&b.id))
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        let severities = [Severity::Critical, Severity::Warn, Severity::Info];
        assert_eq!(severities.map(Severity::as_str), ["critical", "warn", "info"]);
        let categories = [
            Category::Routing,
            Category::Security,
            Category::Cache,
            Category::Content,
            Category::Timing,
            Category::Platform,
            Category::Unknown,
        ];
        let names = ["routing", "security", "cache", "content", "timing", "platform", "unknown"];
        assert_eq!(categories.map(Category::as_str), names);
        for category in categories {
            assert_eq!(serde_json::to_value(category).unwrap(), category.as_str());
        }
        let sections = [
            Section::Probe,
            Section::Status,
            Section::FinalUrl,
            Section::Redirects,
            Section::Headers,
            Section::Content,
            Section::Timing,
            Section::Cf,
            Section::Platform,
            Section::Tls,
        ];
        let names = [
            "probe",
            "status",
            "finalUrl",
            "redirects",
            "headers",
            "content",
            "timing",
            "cf",
            "platform",
            "tls",
        ];
        assert_eq!(sections.map(Section::as_str), names);
        for section in sections {
            assert_eq!(serde_json::to_value(section).unwrap(), section.as_str());
        }
    }
}
