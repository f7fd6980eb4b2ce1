//! D and G: headers for caches, and all other headers worth a look.

use std::collections::BTreeSet;

use super::{
    Category, Code, DiffFinding, Evidence, Found, Scene, Section, Severity, protection::is_guard,
};
use crate::{diff::contract::HeaderDiff, envelope::ResponseMetadata};

/// Headers beside the core ones whose drift is reported. All others change with every answer, or
/// have a rule of their own.
const WATCHED: &[&str] = &[
    "accept-ranges",
    "allow",
    "alt-svc",
    "content-disposition",
    "content-encoding",
    "content-language",
    "cross-origin-embedder-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "permissions-policy",
    "refresh",
    "x-robots-tag",
];

/// Core headers that other rules tell about.
const CLAIMED: &[&str] = &["cache-control", "content-type", "vary", "www-authenticate"];

fn core<'a>(response: &'a ResponseMetadata, name: &str) -> Option<&'a str> {
    response.headers.core.get(name).map(|it| &**it)
}

/// The words of a list, in lower case; of `max-age=60` only the name.
fn words(value: Option<&str>) -> BTreeSet<String> {
    let name = |it: &str| it.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
    let words = value.unwrap_or_default().split(',').map(name);
    words.filter(|it| !it.is_empty()).collect()
}

/// D1: the headers for caches differ.
pub(super) fn cache_control(scene: &Scene<'_>, found: &mut Found) {
    let left = core(&scene.left_probe.response, "cache-control");
    let right = core(&scene.right_probe.response, "cache-control");
    if left == right {
        return;
    }
    let (l, r) = (words(left), words(right));
    let is_private = |word: &str| l.contains(word) != r.contains(word);
    let (severity, message) = if is_private("no-store") || is_private("private") {
        (Severity::Critical, "Only one side may be stored by shared caches")
    } else if l != r {
        (Severity::Warn, "The directives for caches differ")
    } else {
        (Severity::Info, "The directives for caches have different values")
    };
    let evidence = Evidence::new(Section::Headers, ["cache-control"]);
    found.push(
        DiffFinding::new(Code::CacheHeaderDrift, Category::Cache, severity, message, evidence)
            .values(left, right)
            .advise("Compare Cache-Control in the application and in the rules of the CDN."),
    );
}

/// D2: the answers depend on different headers. The order and the case of the names mean nothing.
pub(super) fn vary(scene: &Scene<'_>, found: &mut Found) {
    let left = core(&scene.left_probe.response, "vary");
    let right = core(&scene.right_probe.response, "vary");
    if words(left) == words(right) {
        return;
    }
    let evidence = Evidence::new(Section::Headers, ["vary"]);
    let message = "The header vary differs";
    found.push(
        DiffFinding::new(Code::UnknownDrift, Category::Cache, Severity::Warn, message, evidence)
            .values(left, right)
            .advise("Name the same request headers in Vary, or caches mix up answers."),
    );
}

/// G1: all that is left.
pub(super) fn remaining(scene: &Scene<'_>, found: &mut Found) {
    let Some(headers) = &scene.diff.headers else { return };
    let mut names: BTreeSet<&str> =
        headers.core.differing().into_iter().filter(|it| !CLAIMED.contains(it)).collect();
    let other = headers.other.as_ref().map(HeaderDiff::differing).unwrap_or_default();
    names.extend(other.into_iter().filter(|it| WATCHED.contains(it) && !is_guard(it)));
    if names.is_empty() {
        return;
    }
    let severity = if names.len() >= 3 { Severity::Warn } else { Severity::Info };
    let list: Vec<&str> = names.iter().copied().collect();
    let shown = |it: &ResponseMetadata| {
        let value = |name: &&str| {
            let other = it.headers.other.as_ref().and_then(|it| it.get(*name));
            let value = it.headers.core.get(*name).or(other)?;
            Some(format!("{name}: {value}"))
        };
        let lines: Vec<String> = list.iter().filter_map(value).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    };
    let left = shown(&scene.left_probe.response);
    let right = shown(&scene.right_probe.response);
    let message = format!("Other headers differ: {}", list.join(", "));
    let evidence = Evidence::new(Section::Headers, names);
    found.push(
        DiffFinding::new(Code::UnknownDrift, Category::Unknown, severity, message, evidence)
            .values(left.as_deref(), right.as_deref())
            .advise("Find where each header is set, and whether it is meant to differ."),
    );
}
