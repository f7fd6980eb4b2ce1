//! Buckets: all of them, what is in one, one blob, and whom they tell.

pub(super) mod blob;
mod browse;
pub(super) mod control;
mod events;
pub(super) mod list;
mod preview;
mod rules;
pub(super) mod rules_control;
pub(super) mod show;
pub(super) mod upload;

use steadfast_web::escaped;

/// Where the page of a bucket is.
pub(super) fn path_of(bucket: &str) -> String {
    format!("/buckets/{}", escaped(bucket))
}

/// Where the page of a bucket is that shows what begins with this.
fn path_in(bucket: &str, prefix: &str) -> String {
    match prefix {
        "" => path_of(bucket),
        _ => format!("{}?prefix={}", path_of(bucket), escaped(prefix)),
    }
}

/// Where the page of a blob is. A key is not part of the path: a browser would take `..` in it for
/// a way up.
fn path_to(bucket: &str, key: &str) -> String {
    format!("{}/blob?key={}", path_of(bucket), escaped(key))
}

/// Where the bytes of a blob are.
fn bytes_of(bucket: &str, key: &str) -> String {
    format!("/v1/buckets/{}/objects/{}", escaped(bucket), escaped(key))
}

/// What a key is in: everything up to its last slash.
fn folder_of(key: &str) -> &str {
    key.rfind('/').map_or("", |end| &key[..=end])
}

/// Bytes as people say them.
fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", count as f64 / 1e6),
        _ => format!("{:.1} GB", count as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_what_is_before_its_last_slash() {
        assert_eq!(folder_of("a/b/c.png"), "a/b/");
        assert_eq!((folder_of("c.png"), folder_of("a/")), ("", "a/"));
    }

    #[test]
    fn whatever_a_key_is_it_does_not_lead_elsewhere() {
        assert_eq!(path_to("abc", "../x?y#z"), "/buckets/abc/blob?key=..%2Fx%3Fy%23z");
        assert_eq!(bytes_of("abc", "a/../b"), "/v1/buckets/abc/objects/a%2F..%2Fb");
    }
}
