//! Which names and values are secrets.

use super::percent;

/// Words of names whose values are secrets.
const SECRET_WORDS: &[&str] = &[
    "accesskey",
    "apikey",
    "assertion",
    "auth",
    "authkey",
    "cookie",
    "credential",
    "credentials",
    "csrf",
    "jwt",
    "nonce",
    "oauth",
    "oauth2",
    "pass",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "secretkey",
    "sessid",
    "session",
    "sessionid",
    "sid",
    "sig",
    "signature",
    "token",
    "xsrf",
];

/// How a word ends that was written without a gap: `authtoken`, `PHPSESSID`, `clientsecret`.
const SECRET_ENDS: &[&str] = &[
    "accesskey",
    "apikey",
    "nonce",
    "passwd",
    "password",
    "secret",
    "secretkey",
    "sessid",
    "sessionid",
    "signature",
    "token",
];

/// How a word begins that is about who may enter: `authorization`, `authenticityToken`.
const SECRET_BEGINNINGS: &[&str] = &["authenti", "authoriz"];

/// Words before `key` that make it a secret: `sortKey` is none.
const KEY_OF: &[&str] = &[
    "access",
    "account",
    "api",
    "app",
    "auth",
    "client",
    "encryption",
    "functions",
    "license",
    "master",
    "private",
    "secret",
    "service",
    "shared",
    "signing",
    "subscription",
];

/// Names of parameters that hold a secret in one place and a plain word in another: `state=open`.
const DOUBTFUL_WORDS: &[&str] = &["access", "code", "state"];

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
    words.retain(|it| !it.is_empty());
    words
}

fn is_secret_word(word: &str) -> bool {
    SECRET_WORDS.contains(&word)
        || SECRET_ENDS.iter().any(|it| word.ends_with(it))
        || SECRET_BEGINNINGS.iter().any(|it| word.starts_with(it))
}

/// Whether the value of such a name is a secret, whatever it is.
fn is_secret_name(words: &[String]) -> bool {
    let is_key = |pair: &[String]| pair[1] == "key" && KEY_OF.contains(&&*pair[0]);
    words.iter().any(|it| is_secret_word(it)) || words == ["key"] || words.windows(2).any(is_key)
}

/// Whether such a name may be that of a secret: `sortKey=name` is none.
fn is_doubtful_name(words: &[String]) -> bool {
    let holds_one = |word: &String| {
        // The name of an author is no secret.
        let word = word.replace("author", "");
        SECRET_WORDS.iter().any(|it| 4 <= it.len() && word.contains(it)) || word.ends_with("key")
    };
    words.iter().any(holds_one)
}

/// Whether a header is a secret by its name and its value.
pub(super) fn is_secret_header(name: &str, value: &str) -> bool {
    let words = words(name);
    is_secret_name(&words) || looks_secret(value) || (is_doubtful_name(&words) && !is_plain(value))
}

/// Whether a parameter is a secret by its name and its value.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    let (name, value) = (percent::decoded_wholly(name), percent::decoded_wholly(value));
    let is_doubtful = || words(&name).iter().any(|it| DOUBTFUL_WORDS.contains(&&**it));
    is_secret_header(&name, &value) || (is_doubtful() && !is_plain(&value))
}

/// Whether a value is made of words and small numbers, which nobody needs to hide: `north-west`,
/// `404`, `SPRING2026`, `createdAt`.
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
    let is_name = |it: &str| {
        let first = it.bytes().take_while(u8::is_ascii_lowercase).count();
        let (first, rest) = it.split_at(first);
        let (second, rest) = rest.split_at_checked(1).unwrap_or_default();
        let rest_is_lower = !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_lowercase());
        3 <= first.len() && it.len() <= 15 && second != second.to_lowercase() && rest_is_lower
    };
    let is_plain = |it: &str| is_word(it) || is_name(it);
    value.len() <= 40 && value.split(['-', '_', '.', '+', ' ']).all(is_plain)
}

/// Whether a value is a token by its looks.
pub(super) fn looks_secret(value: &str) -> bool {
    // Not a `basic plan`.
    let is_scheme = value.trim().split_once(' ').is_some_and(|(scheme, rest)| {
        let is_scheme = ["bearer", "basic"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
        is_scheme && !is_plain(rest)
    });
    // The head of every JSON Web Token: `{"` in base64.
    let is_jwt = |it: &str| it.starts_with("eyJ") && it.matches('.').count() == 2;
    is_scheme || value.split([' ', ',', ';', '=', '"', '&']).any(is_jwt)
}
