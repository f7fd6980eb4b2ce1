//! Headers, sorted into groups and rid of secrets.

use http::{HeaderMap, HeaderValue};

use super::redact::{self, REDACTED};
use crate::envelope::{Cookie, HeaderGroups, Headers, Platform};

/// The headers of the group `core`.
const CORE: &[&str] = &["cache-control", "content-type", "location", "vary", "www-authenticate"];

/// How much of a value is kept, in characters.
const VALUE_MAX: usize = 2_000;
/// How much of all values is kept, in bytes: an envelope is stored, and steps of workflows carry
/// it.
const VALUES_MAX: usize = 96 << 10;
/// Longer names are nobody's headers.
const NAME_MAX: usize = 100;
/// How many cookies are kept.
const COOKIES_MAX: usize = 50;

/// The facts in the headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sorted {
    pub(super) groups: HeaderGroups,
    pub(super) cookies: Vec<Cookie>,
    pub(super) platform: Platform,
    pub(super) place: Place,
}

/// Where an answer comes from, as far as its headers say so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) colo: Option<String>,
    pub(super) country: Option<String>,
    pub(super) asn: Option<u32>,
}

/// Headers that name a country, by two letters.
const COUNTRY: &[&str] = &[
    "cf-ipcountry",
    "cloudfront-viewer-country",
    "x-vercel-ip-country",
    "x-country-code",
    "x-geo-country",
    "x-country",
];
/// Headers that name a network, by its number.
const NETWORK: &[&str] =
    &["cloudfront-viewer-asn", "x-vercel-ip-as-number", "x-client-asn", "x-asn"];

/// Sorts headers. Values that are not UTF-8 keep what is readable of them.
pub(super) fn sort(headers: &HeaderMap) -> Sorted {
    let mut sorted = Sorted::default();
    let (mut access_control, mut other) = (Headers::new(), Headers::new());
    let mut room = VALUES_MAX;
    for name in headers.keys().map(|it| it.as_str()).filter(|it| it.len() <= NAME_MAX) {
        let values: Vec<String> = headers.get_all(name).iter().map(text).collect();
        let group = if CORE.contains(&name) {
            &mut sorted.groups.core
        } else if name.starts_with("access-control-") {
            &mut access_control
        } else {
            &mut other
        };
        let value = if name == "set-cookie" {
            sorted.cookies = values.iter().take(COOKIES_MAX).filter_map(|it| cookie(it)).collect();
            sorted.cookies.sort();
            let names = sorted.cookies.iter().map(|it| format!("{}={REDACTED}", it.name));
            names.collect::<Vec<String>>().join(", ")
        } else {
            redact::header(name, &values.join(", "))
        };
        let value: String = value.chars().take(VALUE_MAX).collect();
        let is_short = value.len() <= room;
        room -= if is_short { value.len() } else { 0 };
        group.insert(name.to_owned(), if is_short { value } else { "[left out]".to_owned() });
    }
    let of = |name: &str| other.get(name).cloned();
    let (server, via, powered_by) = (of("server"), of("via"), of("x-powered-by"));
    sorted.platform = Platform { server, via, powered_by };
    sorted.place = Place {
        colo: of("cf-ray").and_then(|it| colo(&it)),
        country: COUNTRY.iter().find_map(|it| country(&of(it)?)),
        asn: NETWORK.iter().find_map(|it| asn(&of(it)?)),
    };
    sorted.groups.access_control = Some(access_control).filter(|it| !it.is_empty());
    sorted.groups.other = Some(other).filter(|it| !it.is_empty());
    sorted
}

fn text(value: &HeaderValue) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    text.chars().filter(|it| redact::is_readable(*it)).collect::<String>().trim().to_owned()
}

/// The place at the end of `8f3c1d2e4b5a6978-FRA`.
fn colo(ray: &str) -> Option<String> {
    let (_, place) = ray.rsplit_once('-')?;
    let is_place =
        (3..=4).contains(&place.len()) && place.bytes().all(|it| it.is_ascii_uppercase());
    is_place.then(|| place.to_owned())
}

/// `DE`. Cloudflare writes `XX` for a country that it does not know, and `T1` for Tor.
fn country(value: &str) -> Option<String> {
    let is_country = value.len() == 2 && value.bytes().all(|it| it.is_ascii_alphabetic());
    is_country.then(|| value.to_ascii_uppercase()).filter(|it| it != "XX")
}

/// `64500` or `AS64500`.
fn asn(value: &str) -> Option<u32> {
    let digits = value.strip_prefix("AS").unwrap_or(value);
    digits.parse().ok().filter(|it| *it != 0)
}

/// A cookie without its value.
fn cookie(header: &str) -> Option<Cookie> {
    let mut parts = header.split(';').map(str::trim);
    let (name, _) = parts.next()?.split_once('=')?;
    let name = name.trim().chars().take(100).collect::<String>();
    if name.is_empty() {
        return None;
    }
    let mut cookie = Cookie { name, ..Cookie::default() };
    for part in parts {
        let (flag, value) = part.split_once('=').unwrap_or((part, ""));
        match flag.trim().to_ascii_lowercase().as_str() {
            "secure" => cookie.secure = true,
            "httponly" => cookie.http_only = true,
            "samesite" => {
                let value = value.trim().to_ascii_lowercase();
                let is_known = matches!(value.as_str(), "strict" | "lax" | "none");
                cookie.same_site = is_known.then_some(value);
            }
            _ => {}
        }
    }
    Some(cookie)
}

#[cfg(test)]
mod tests;
