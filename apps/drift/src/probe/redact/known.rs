//! Secrets that are known, because they were in a URL that was asked: servers send them back, in
//! headers and redirects of any form.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use url::Url;

use super::{REDACTED, percent};

/// Shorter values are in every text.
const LEN_MIN: usize = 3;
/// Numbers that are shorter are in every text.
const DIGITS_MIN: usize = 6;
/// From this length on, a value is a secret within a word, too.
const LEN_ANYWHERE: usize = 6;
/// Shorter parts of an encoding also match unrelated text.
const BASE64_MIN: usize = 8;

/// Words of headers, which are no news to anybody.
const COMMON: &[&str] = &[
    "application",
    "basic",
    "bearer",
    "close",
    "digest",
    "false",
    "gzip",
    "html",
    "http",
    "https",
    "json",
    "none",
    "null",
    "private",
    "public",
    "redacted",
    "text",
    "true",
    "yes",
];

/// Secrets that a URL had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known(Vec<Vec<u8>>);

impl Known {
    /// Remembers the secrets of a URL.
    pub(crate) fn learn(&mut self, url: &str) {
        let mut taken = Vec::new();
        super::redacted_url_of(url, &mut taken);
        if let Ok(url) = Url::parse(url) {
            taken.extend(url.password().map(str::to_owned));
        }
        for secret in taken {
            let decoded = percent::decoded_wholly(&secret);
            // Forms write a space as a plus.
            let spaced = decoded.replace('+', " ");
            for form in [secret, decoded, spaced] {
                self.add(form.into_bytes());
            }
        }
        // The longest first: what it has within would leave its ends.
        self.0.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    }

    fn add(&mut self, secret: Vec<u8>) {
        let is_number = secret.iter().all(u8::is_ascii_digit);
        let is_common = COMMON.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(&secret));
        let least = if is_number { DIGITS_MIN } else { LEN_MIN };
        if secret.len() < least || is_common || self.0.contains(&secret) {
            return;
        }
        self.0.extend(in_base64(&secret));
        self.0.push(secret);
    }

    /// Takes the secrets out of a text, however often they are encoded in it.
    pub(crate) fn take_out(&self, text: &mut String) {
        for secret in &self.0 {
            let mut from = 0;
            while let Some((start, end)) = find(text, secret, from) {
                text.replace_range(start..end, REDACTED);
                from = start + REDACTED.len();
            }
        }
    }
}

/// Where in a text a secret is, from a byte on.
fn find(text: &str, secret: &[u8], from: usize) -> Option<(usize, usize)> {
    let spots = percent::spots(text);
    let is_outside = |at: Option<usize>| {
        let byte = at.and_then(|it| spots.get(it)).map(|it| it.byte);
        secret.len() >= LEN_ANYWHERE || byte.is_none_or(|it| !it.is_ascii_alphanumeric())
    };
    let starts = 0..(spots.len() + 1).saturating_sub(secret.len());
    let is_there = |at: &usize| {
        let found = &spots[*at..*at + secret.len()];
        from <= spots[*at].start
            && found.iter().map(|it| it.byte).eq(secret.iter().copied())
            && is_outside(at.checked_sub(1))
            && is_outside(Some(at + secret.len()))
    };
    let at = starts.into_iter().find(is_there)?;
    let (start, end) = (spots[at].start, spots[at + secret.len() - 1].end);
    // A letter of several bytes is taken out whole.
    let start = (0..=start).rev().find(|it| text.is_char_boundary(*it))?;
    let end = (end..=text.len()).find(|it| text.is_char_boundary(*it))?;
    Some((start, end))
}

/// The spellings of a secret inside of base64: there are three positions where it can begin.
fn in_base64(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for before in 0..3 {
        let text = STANDARD_NO_PAD.encode([&vec![0; before], secret].concat());
        // Those that are of the secret alone.
        let (first, last) = ((before * 8).div_ceil(6), (before + secret.len()) * 8 / 6);
        let Some(text) = text.get(first..last).filter(|it| BASE64_MIN <= it.len()) else {
            continue;
        };
        found.push(text.as_bytes().to_vec());
        let for_urls = text.replace('+', "-").replace('/', "_");
        if for_urls != text {
            found.push(for_urls.into_bytes());
        }
    }
    found
}
