//! Stored values are shown to people and to models: secrets are removed first.
//!
//! A value that is new with every answer is taken out too, such as a nonce: it would be drift
//! each time.

mod known;
mod names;
mod percent;

use url::Url;

pub(crate) use self::known::Known;
use self::names::{is_secret, is_secret_header, looks_secret};

/// The text in place of a secret.
pub(super) const REDACTED: &str = "[redacted]";

/// Whether a text was shown without its secrets.
pub(crate) fn is_redacted(text: &str) -> bool {
    percent::decoded_wholly(text).contains(REDACTED)
}

/// Whether a letter of a stranger is one to read: not one that controls, hides, or turns the
/// direction of what stands around it.
pub(super) fn is_readable(it: char) -> bool {
    let is_format = matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(it, '\u{2060}'..='\u{2069}' | '\u{feff}');
    !it.is_control() && !is_format
}

/// Headers with such a word in their name whose values are no secrets.
const OPEN_HEADERS: &[&str] = &["www-authenticate", "proxy-authenticate", "x-xss-protection"];

/// The value of a header without its secrets.
pub(super) fn header(name: &str, value: &str) -> String {
    match name {
        "www-authenticate" | "proxy-authenticate" => challenge(value),
        "content-security-policy" | "content-security-policy-report-only" => {
            nonces(&urls_within(value))
        }
        "location" | "content-location" | "refresh" | "link" => urls_within(value),
        _ if name.starts_with("access-control-") || OPEN_HEADERS.contains(&name) => value.into(),
        _ if is_secret_header(name, value) => REDACTED.into(),
        _ => urls_within(value),
    }
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

/// A text that may have URLs in it, without their users, passwords and secrets.
pub(crate) fn urls_within(value: &str) -> String {
    let is_border = |it: char| it.is_whitespace() || matches!(it, '"' | '\'' | '<' | '>');
    let (mut text, mut is_quoted_secret) = (String::new(), false);
    for it in value.split_inclusive(is_border) {
        let word = it.trim_end_matches(is_border);
        let border = &it[word.len()..];
        // `token="…"`
        let name = word.strip_suffix('=').filter(|_| border == "\"");
        match name {
            _ if is_quoted_secret && !word.is_empty() => text.push_str(REDACTED),
            Some(_) => text.push_str(word),
            None => text.push_str(&redacted_text(word, 0, &mut Vec::new())),
        }
        is_quoted_secret = name.is_some_and(|it| is_secret(it, ""));
        text.push_str(border);
    }
    text
}

fn is_url(text: &str) -> bool {
    text.contains("//") || text.contains('?') || text.starts_with('/')
}

/// A text that may be a URL, whole or relative, or a query. What is taken out of it is noted.
fn redacted_text(text: &str, depth: usize, taken: &mut Vec<String>) -> String {
    if !is_url(text) {
        return match text.contains('=') {
            true => redacted_query(text, depth, taken),
            false => text.to_owned(),
        };
    }
    let text = without_user(text);
    // Behind a `#` tokens are handed over.
    let text = text.split('#').next().unwrap_or_default();
    match text.split_once('?') {
        Some((path, query)) => {
            let query = redacted_query(query, depth, taken);
            format!("{}?{query}", redacted_path(path, depth, taken))
        }
        None => redacted_path(text, depth, taken),
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

/// A URL without user, password and fragment, and without secrets in its path and query.
pub fn redacted_url(text: &str) -> String {
    redacted_url_of(text, &mut Vec::new())
}

/// The same, and what was taken out.
fn redacted_url_of(text: &str, taken: &mut Vec<String>) -> String {
    let parsed = Url::parse(text).ok().filter(Url::has_host);
    let Some(mut url) = parsed else {
        let text: String = text.chars().filter(|it| !it.is_control()).take(2_048).collect();
        // Before the last `@` may be a password.
        let text = text.rsplit('@').next().unwrap_or_default();
        return redacted_text(text, 0, taken);
    };
    // Both fail only for URLs without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    let path = redacted_path(url.path(), 0, taken);
    if path != url.path() {
        url.set_path(&path);
    }
    if let Some(query) = url.query() {
        let query = redacted_query(query, 0, taken);
        url.set_query(Some(&query));
    }
    url.into()
}

fn redacted_path(path: &str, depth: usize, taken: &mut Vec<String>) -> String {
    let segments = path.split('/').map(|it| redacted_value(it, depth, taken));
    segments.collect::<Vec<String>>().join("/")
}

fn redacted_query(query: &str, depth: usize, taken: &mut Vec<String>) -> String {
    let mut parts = Vec::new();
    for part in query.split('&') {
        if let Some(shown) = without_secret(part, taken) {
            parts.push(shown);
            continue;
        }
        // Some servers take `;` for `&`.
        let within = part.split(';').map(|it| redacted_part(it, depth, taken));
        parts.push(within.collect::<Vec<String>>().join(";"));
    }
    parts.join("&")
}

fn redacted_part(part: &str, depth: usize, taken: &mut Vec<String>) -> String {
    if let Some(shown) = without_secret(part, taken) {
        return shown;
    }
    match part.split_once('=') {
        Some((name, value)) => format!("{name}={}", redacted_value(value, depth, taken)),
        None => redacted_value(part, depth, taken),
    }
}

/// A parameter without its value, if that is a secret.
fn without_secret(part: &str, taken: &mut Vec<String>) -> Option<String> {
    let (name, value) = part.split_once('=').filter(|it| is_secret(it.0, it.1))?;
    if value != REDACTED {
        taken.push(value.to_owned());
    }
    Some(format!("{name}={REDACTED}"))
}

/// A value that may be a token, or a URL or query itself, encoded or not: `/?token=…` in `next`.
fn redacted_value(value: &str, depth: usize, taken: &mut Vec<String>) -> String {
    if looks_secret(&percent::decoded_wholly(value)) || percent::LAYERS_MAX < depth {
        taken.push(value.to_owned());
        return REDACTED.to_owned();
    }
    let decoded = percent::decoded(value);
    // Each of its parts may be encoded, too.
    if is_url(value) || value.contains('=') || decoded == value {
        return redacted_text(value, depth + 1, taken);
    }
    let shown = redacted_value(&decoded, depth + 1, taken);
    if shown == decoded { value.to_owned() } else { percent::encoded(&shown) }
}
