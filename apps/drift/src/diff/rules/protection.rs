//! C: who may see and do what.

use super::{Category, Code, DiffFinding, Evidence, Found, Scene, Section, Severity, worst};
use crate::envelope::{Headers, ResponseMetadata};

/// C1: a side asks who is there.
pub(super) fn challenge(scene: &Scene<'_>, found: &mut Found) {
    let get = |it: &'_ ResponseMetadata| it.headers.core.get("www-authenticate").cloned();
    let left = get(&scene.left_probe.response);
    let right = get(&scene.right_probe.response);
    if left == right {
        return;
    }
    let (severity, message) = match (&left, &right) {
        (Some(_), None) => (Severity::Critical, "Only the left side asks for authentication"),
        (None, Some(_)) => (Severity::Critical, "Only the right side asks for authentication"),
        _ => (Severity::Warn, "Both sides ask for authentication, but differently"),
    };
    let evidence = Evidence::new(Section::Headers, ["www-authenticate"]);
    let code = Code::AuthChallengePresent;
    found.push(
        DiffFinding::new(code, Category::Security, severity, message, evidence)
            .values(left.as_deref(), right.as_deref())
            .advise("Check which gateway or middleware protects this path on each side."),
    );
}

/// C2: other sites may do different things. One finding names all such headers.
pub(super) fn cors(scene: &Scene<'_>, found: &mut Found) {
    let group = scene.diff.headers.as_ref().and_then(|it| it.access_control.as_ref());
    let Some(diff) = group else { return };
    let names = diff.differing();
    if names.is_empty() {
        return;
    }
    let is_origin = names.contains(&"access-control-allow-origin");
    let severity = if is_origin { Severity::Critical } else { Severity::Warn };
    let message = format!("CORS headers differ: {}", names.join(", "));
    let none = Headers::new();
    let shown = |it: &ResponseMetadata| {
        let headers = it.headers.access_control.as_ref().unwrap_or(&none);
        let pair = |name: &&str| headers.get(*name).map(|value| format!("{name}: {value}"));
        let lines: Vec<String> = names.iter().filter_map(pair).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    };
    let left = shown(&scene.left_probe.response);
    let right = shown(&scene.right_probe.response);
    let evidence = Evidence::new(Section::Headers, names.iter().copied());
    let code = Code::CorsHeaderDrift;
    found.push(
        DiffFinding::new(code, Category::Security, severity, message, evidence)
            .values(left.as_deref(), right.as_deref())
            .advise("Compare the allowed origins, methods and headers of both configurations."),
    );
}

/// A header that protects users, and how much its loss matters.
struct Guard {
    name: &'static str,
    missing: Severity,
    differs: fn(&str, &str) -> Severity,
    advice: &'static str,
}

const GUARDS: &[Guard] = &[
    Guard {
        name: "strict-transport-security",
        missing: Severity::Warn,
        differs: hsts,
        advice: "Send Strict-Transport-Security with the same max-age from both sides.",
    },
    Guard {
        name: "content-security-policy",
        missing: Severity::Warn,
        differs: csp,
        advice: "Test the policy of production in staging: a stricter one breaks pages.",
    },
    Guard {
        name: "x-content-type-options",
        missing: Severity::Warn,
        differs: |_, _| Severity::Warn,
        advice: "Send X-Content-Type-Options: nosniff from both sides.",
    },
    Guard {
        name: "referrer-policy",
        missing: Severity::Info,
        differs: |_, _| Severity::Info,
        advice: "Choose one Referrer-Policy for both sides.",
    },
    Guard {
        name: "x-frame-options",
        missing: Severity::Warn,
        differs: |_, _| Severity::Info,
        advice: "Choose who may frame the page, and say so on both sides.",
    },
];

/// The headers of the rule below, so that no other rule tells of them again.
pub(super) fn is_guard(name: &str) -> bool {
    GUARDS.iter().any(|it| it.name == name)
}

/// Headers that protect users differ: one finding for each.
pub(super) fn security_headers(scene: &Scene<'_>, found: &mut Found) {
    let get = |it: &ResponseMetadata, name: &str| {
        it.headers.other.as_ref().and_then(|it| it.get(name)).map(|it| it.trim().to_owned())
    };
    let (l, r) = (&scene.left_probe.response, &scene.right_probe.response);
    let is_https = |it: &ResponseMetadata| it.final_url.starts_with("https:");
    for guard in GUARDS {
        // Browsers ignore this one without TLS, so it says nothing there.
        if guard.name == "strict-transport-security" && !(is_https(l) && is_https(r)) {
            continue;
        }
        let (left, right) = (get(l, guard.name), get(r, guard.name));
        let (severity, message) = match (&left, &right) {
            (None, None) => continue,
            (Some(left), Some(right)) if left.eq_ignore_ascii_case(right) => continue,
            (Some(left), Some(right)) => {
                ((guard.differs)(left, right), format!("The header {} differs", guard.name))
            }
            (None, Some(_)) => (guard.missing, format!("The left side lacks {}", guard.name)),
            (Some(_), None) => (guard.missing, format!("The right side lacks {}", guard.name)),
        };
        let evidence = Evidence::new(Section::Headers, [guard.name]);
        let code = Code::SecurityHeaderDrift;
        found.push(
            DiffFinding::new(code, Category::Security, severity, message, evidence)
                .values(left.as_deref(), right.as_deref())
                .advise(guard.advice),
        );
    }
}

/// How long one promises to be encrypted, in seconds.
fn max_age(value: &str) -> u64 {
    let age = value.split(';').find_map(|it| {
        let (name, age) = it.split_once('=')?;
        name.trim().eq_ignore_ascii_case("max-age").then(|| age.trim().trim_matches('"'))
    });
    age.and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn hsts(left: &str, right: &str) -> Severity {
    let has = |it: &str, word: &str| it.to_ascii_lowercase().contains(word);
    let is_off = (max_age(left) == 0) != (max_age(right) == 0);
    let is_narrower = has(left, "includesubdomains") != has(right, "includesubdomains");
    if is_off || is_narrower { Severity::Warn } else { Severity::Info }
}

fn csp(left: &str, right: &str) -> Severity {
    let loose = ["'unsafe-inline'", "'unsafe-eval'"];
    let weight = |word: &&str| match left.contains(*word) == right.contains(*word) {
        true => Severity::Info,
        false => Severity::Warn,
    };
    worst(loose.iter().map(weight))
}
