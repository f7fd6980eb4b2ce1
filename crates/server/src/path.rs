//! The path of a request: the prefix of a host, and the values of the parameters of a route, which
//! may be a stream by id or address, a message by position, or a turn.

use std::borrow::Cow;

use axum::{
    extract::{MatchedPath, OriginalUri},
    http::request::Parts,
};
use percent_encoding::percent_decode_str;
use steadfast_api::Code;
use steadfast_store::{Address, EntityId, Position};
use steadfast_web::Problem;

/// The path prefix under which a host program serves the routes, or nothing.
pub(crate) fn base_path(parts: &Parts) -> &str {
    let original = parts.extensions.get::<OriginalUri>().map_or("", |it| it.path());
    match (original.strip_suffix(parts.uri.path()), parts.uri.path()) {
        (Some(base), _) => base,
        // `/durable` is `/` under the prefix `/durable`.
        (None, "/") => original,
        (None, _) => "",
    }
}

/// The values in the path of a request that the router has matched, without those in the prefix of
/// a host program.
pub(crate) fn matched_values(request: &Parts) -> Result<Vec<String>, Problem> {
    let route = request.extensions.get().map_or("", MatchedPath::as_str);
    let segments = base_path(request).matches('/').count();
    path_values(below(route, segments), request.uri.path())
}

/// The values in a path, decoded, in order.
pub(crate) fn path_values(route: &str, path: &str) -> Result<Vec<String>, Problem> {
    let decoded = values(route, path).into_iter().map(|(name, value)| {
        let value = percent_decode_str(value).decode_utf8().map(Cow::into_owned);
        value.map_err(|_| Problem::of(Code::BadRequest, format!("Invalid UTF-8 in `{name}`")))
    });
    decoded.collect()
}

/// The names and values of the parameters of a route.
pub(crate) fn values<'a>(route: &'a str, path: &'a str) -> Vec<(&'a str, &'a str)> {
    let (mut found, mut rest) = (Vec::new(), path);
    for segment in route.split('/').skip(1) {
        rest = rest.strip_prefix('/').unwrap_or(rest);
        let name = segment.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        let (value, behind) = match name.and_then(|it| it.strip_prefix('*')) {
            Some(_) => (rest, ""),
            None => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        };
        if let Some(name) = name {
            found.push((name.trim_start_matches('*'), value));
        }
        rest = behind;
    }
    found
}

/// The rest of a path after this number of segments.
pub(crate) fn below(path: &str, segments: usize) -> &str {
    let mut rest = path;
    for _ in 0..segments {
        let inner = rest.strip_prefix('/').unwrap_or(rest);
        rest = inner.find('/').map_or("", |at| &inner[at..]);
    }
    if rest.is_empty() { "/" } else { rest }
}

/// Parses a stream's id: 32 hexadecimal digits, or an address to compute it from.
pub(crate) fn stream(text: &str) -> Result<EntityId, Problem> {
    if let Some(id) = EntityId::from_hex(text) {
        return Ok(id);
    }
    match text.parse::<Address>() {
        Ok(address) => Ok(address.id()),
        Err(error) => {
            Err(Problem::of(Code::BadRequest, format!("{error}; or the id, 32 hexadecimal digits")))
        }
    }
}

/// Parses the number of a turn.
pub(crate) fn turn(text: &str) -> Result<i64, Problem> {
    text.parse().map_err(|_| {
        Problem::of(Code::BadRequest, format!("`{text}` is not a turn; it is a number"))
    })
}

/// Parses a message's position in the store.
pub(crate) fn position(text: &str) -> Result<Position, Problem> {
    text.parse().map_err(|_| {
        Problem::of(Code::BadRequest, format!("`{text}` is not a position; it is a number"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_a_host_is_removed_by_segments() {
        assert_eq!(below("/v1/streams", 0), "/v1/streams");
        assert_eq!(below("/{tenant}/durable/v1/streams", 2), "/v1/streams");
        assert_eq!(below("/durable", 1), "/");
        assert_eq!(below("/durable/", 1), "/");
    }

    #[test]
    fn the_values_of_a_path_are_decoded_in_order() {
        let values = |path| path_values("/v1/buckets/{bucket}/objects/{*key}", path);
        let found = values("/v1/buckets/a%20b/objects/2026/%C3%BC%2F.png");
        assert_eq!(found.unwrap(), ["a b", "2026/\u{fc}/.png"]);
        let refused = values("/v1/buckets/%ff/objects/a").unwrap_err();
        assert_eq!(
            (refused.code(), refused.detail()),
            ("bad_request", "Invalid UTF-8 in `bucket`")
        );
    }
}
