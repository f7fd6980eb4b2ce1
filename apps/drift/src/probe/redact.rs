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
    "accesskey",
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
    "privatekey",
    "secret",
    "session",
    "signature",
    "token",
    "xsrf",
];

/// Whole names of that kind, too short to be looked for within others.
const SECRET_NAMES: &[&str] = &["key", "pass", "pwd", "sid", "sig"];

/// Whole names that hold a secret in one place and a plain word in another: `state=open`.
const DOUBTFUL_NAMES: &[&str] = &["access", "code", "state"];

/// Headers with such a word in their name whose values are no secrets.
const OPEN_HEADERS: &[&str] = &["www-authenticate", "proxy-authenticate", "x-xss-protection"];

/// The words of a name: `sortKey`, `sort_key` and `sort-key` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for it in name.chars() {
        if !it.is_ascii_alphanumeric() || (was_lower && it.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if it.is_ascii_alphanumeric() {
            words.last_mut().into_iter().for_each(|word| word.push(it.to_ascii_lowercase()));
        }
        was_lower = it.is_ascii_lowercase();
    }
    words
}

fn is_secret(name: &str) -> bool {
    let words = words(name);
    let joined = words.concat();
    // Who wrote something is no secret, unlike an authorization.
    let joined = match joined.contains("authoriz") {
        true => joined,
        false => joined.replace("author", ""),
    };
    SECRET_WORDS.iter().any(|it| joined.contains(it))
        || words.iter().any(|it| SECRET_NAMES.contains(&&**it))
}

/// Whether a parameter is a secret by its name and its value.
fn is_secret_parameter(name: &str, value: &str) -> bool {
    let is_doubtful = || words(name).iter().any(|it| DOUBTFUL_NAMES.contains(&&**it));
    is_secret(name) || looks_secret(value) || (is_doubtful() && !is_plain(value))
}

/// Whether a value is made of words and small numbers, which nobody needs to hide: `north-west`,
/// `404`, `SPRING2026`.
fn is_plain(value: &str) -> bool {
    let is_word = |it: &str| {
        let letters = it.trim_end_matches(|it: char| it.is_ascii_digit());
        let (first, rest) = letters.split_at_checked(1).unwrap_or_default();
        let has_case = |of: fn(&u8) -> bool| rest.bytes().all(|it| of(&it));
        let is_alphabetic = letters.bytes().all(|it| it.is_ascii_alphabetic());
        let is_upper = has_case(u8::is_ascii_uppercase) && first != first.to_ascii_lowercase();
        let is_lower = has_case(u8::is_ascii_lowercase);
        letters.len() <= 15
            && it.len() - letters.len() <= 4
            && (letters.is_empty() || (is_alphabetic && (is_upper || is_lower)))
    };
    value.len() <= 40 && value.replace("%20", "-").split(['-', '_', '.', '+']).all(is_word)
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
    let segment = |it: &str| if looks_secret(it) { REDACTED.to_owned() } else { it.to_owned() };
    let path = url.path().split('/').map(segment).collect::<Vec<String>>().join("/");
    if path != url.path() {
        url.set_path(&path);
    }
    if let Some(query) = url.query() {
        let query = redacted_query(query);
        url.set_query(Some(&query));
    }
    url.into()
}

fn redacted_query(query: &str) -> String {
    let part = |it: &str| match it.split_once('=') {
        Some((name, value)) if is_secret_parameter(name, value) => {
            format!("{name}={REDACTED}")
        }
        _ => it.to_owned(),
    };
    query.split('&').map(part).collect::<Vec<String>>().join("&")
}
