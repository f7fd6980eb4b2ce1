//! What is kept is shown to people and to models: secrets are taken out first.
//!
//! A value that is new with every answer is taken out too, such as a nonce: it would be drift
//! each time.

use url::Url;

/// What stands in place of a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// Whether a letter of a stranger is one to read: not one that controls, hides, or turns the
/// direction of what stands around it.
pub(super) fn is_readable(it: char) -> bool {
    let is_format = matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(it, '\u{2060}'..='\u{2069}' | '\u{feff}');
    !it.is_control() && !is_format
}

/// Words in the names of headers and parameters whose values are secrets.
const SECRET_WORDS: &[&str] = &[
    "apikey",
    "assertion",
    "auth",
    "cookie",
    "credential",
    "csrf",
    "jwt",
    "nonce",
    "passwd",
    "password",
    "secret",
    "session",
    "signature",
    "token",
    "xsrf",
];

/// Whole names of that kind, too short to be looked for within others.
const SECRET_NAMES: &[&str] = &["access", "code", "key", "pass", "pwd", "sid", "sig", "state"];

/// Headers with such a word in their name whose values are no secrets.
const OPEN_HEADERS: &[&str] = &["www-authenticate", "proxy-authenticate", "x-xss-protection"];

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let joined: String = name.chars().filter(|it| it.is_ascii_alphanumeric()).collect();
    let mut words = name.split(|it: char| !it.is_ascii_alphanumeric());
    SECRET_WORDS.iter().any(|it| joined.contains(it))
        || joined.ends_with("key")
        || words.any(|it| SECRET_NAMES.contains(&it))
}

/// The value of a header without its secrets.
pub(super) fn header(name: &str, value: &str) -> String {
    match name {
        "www-authenticate" | "proxy-authenticate" => challenge(value),
        "content-security-policy" | "content-security-policy-report-only" => {
            nonces(&urls_within(value))
        }
        "location" | "content-location" | "refresh" | "link" => urls_within(value),
        _ if name.starts_with("access-control-") || OPEN_HEADERS.contains(&name) => value.into(),
        _ if is_secret(name) || looks_secret(value) => REDACTED.into(),
        _ => urls_within(value),
    }
}

/// Whether a value is a token by its looks.
fn looks_secret(value: &str) -> bool {
    let lower = value.trim_start().to_ascii_lowercase();
    let is_scheme = lower.starts_with("bearer ") || lower.starts_with("basic ");
    // The head of every JSON Web Token: `{"` in base64.
    let is_jwt = |it: &str| it.starts_with("eyJ") && it.matches('.').count() == 2;
    is_scheme || value.split([' ', ',', ';', '=', '"']).any(is_jwt)
}

/// A challenge without what is new each time.
fn challenge(value: &str) -> String {
    let part = |it: &str| match it.split_once('=') {
        Some((name, _))
            if ["nonce", "opaque", "token"]
                .iter()
                .any(|word| name.trim().to_ascii_lowercase().ends_with(word)) =>
        {
            format!("{name}=\"{REDACTED}\"")
        }
        _ => it.to_owned(),
    };
    value.split(',').map(part).collect::<Vec<String>>().join(",")
}

/// A policy without what is new each time.
fn nonces(value: &str) -> String {
    let word = |it: &str| match it.starts_with("'nonce-") {
        true => format!("'nonce-{REDACTED}'"),
        false => it.to_owned(),
    };
    value.split(' ').map(word).collect::<Vec<String>>().join(" ")
}

/// A value that may have URLs in it, without their users, passwords and secrets.
fn urls_within(value: &str) -> String {
    let is_border = |it: char| it.is_whitespace() || matches!(it, '"' | '\'' | '<' | '>');
    let words = value.split_inclusive(is_border).map(|it| {
        let word = it.trim_end_matches(is_border);
        format!("{}{}", url_word(word), &it[word.len()..])
    });
    words.collect()
}

/// A word that may be a URL, whole or relative.
fn url_word(word: &str) -> String {
    if !word.contains("//") && !word.contains('?') && !word.starts_with('/') {
        return word.to_owned();
    }
    let word = without_user(word);
    // Behind a `#` tokens are handed over.
    let word = word.split('#').next().unwrap_or_default();
    match word.split_once('?') {
        Some((path, query)) => format!("{path}?{}", redacted_query(query)),
        None => word.to_owned(),
    }
}

fn without_user(word: &str) -> String {
    let Some((before, rest)) = word.split_once("//") else { return word.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |it| it + 1);
    format!("{before}//{}", &rest[host..])
}

/// A URL without secrets, and as it was given if there are none in it.
pub fn shown_url(text: &str) -> String {
    let redacted = redacted_url(text);
    match Url::parse(text) {
        Ok(url) if url.as_str() == redacted => text.to_owned(),
        Ok(_) | Err(_) => redacted,
    }
}

/// A URL without user, password and fragment, and without secrets in its query.
pub fn redacted_url(text: &str) -> String {
    let parsed = Url::parse(text).ok().filter(Url::has_host);
    let Some(mut url) = parsed else {
        let text: String = text.chars().filter(|it| !it.is_control()).take(2_048).collect();
        // Before the last `@` may be a password.
        return text.rsplit('@').next().unwrap_or_default().to_owned();
    };
    // Both fail only for URLs without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    if let Some(query) = url.query() {
        let query = redacted_query(query);
        url.set_query(Some(&query));
    }
    url.into()
}

fn redacted_query(query: &str) -> String {
    let part = |it: &str| match it.split_once('=') {
        Some((name, value)) if is_secret(name) || looks_secret(value) => {
            format!("{name}={REDACTED}")
        }
        _ => it.to_owned(),
    };
    query.split('&').map(part).collect::<Vec<String>>().join("&")
}
