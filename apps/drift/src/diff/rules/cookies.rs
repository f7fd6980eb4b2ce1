//! C: how cookies are protected.

use std::collections::BTreeMap;

use super::{Category, Code, DiffFinding, Evidence, Found, Scene, Section, Severity, worst};
use crate::envelope::{Cookie, ResponseMetadata};

/// A cookie that both sides set is protected differently. One finding names them all.
pub(super) fn flags(scene: &Scene<'_>, found: &mut Found) {
    let (left, right) = (by_name(&scene.left_probe.response), by_name(&scene.right_probe.response));
    let mut severities = Vec::new();
    let mut names = Vec::new();
    let mut values = (Vec::new(), Vec::new());
    for (name, l) in &left {
        let Some(r) = right.get(name) else { continue };
        let Some(severity) = weight(l, r) else { continue };
        severities.push(severity);
        names.push(*name);
        values.0.push(shown(l));
        values.1.push(shown(r));
    }
    if names.is_empty() {
        return;
    }
    let message = format!("Flags of cookies differ: {}", names.join(", "));
    let evidence = Evidence::new(Section::Headers, ["set-cookie"]);
    let (code, category) = (Code::CookieFlagDrift, Category::Security);
    found.push(
        DiffFinding::new(code, category, worst(severities), message, evidence)
            .values(Some(&values.0.join("; ")), Some(&values.1.join("; ")))
            .advise("Set Secure, HttpOnly and SameSite alike on both sides."),
    );
}

/// A cookie is set by one side only. One finding names them all.
pub(super) fn presence(scene: &Scene<'_>, found: &mut Found) {
    let (left, right) = (by_name(&scene.left_probe.response), by_name(&scene.right_probe.response));
    let only = |here: &BTreeMap<&str, &Cookie>, there: &BTreeMap<&str, &Cookie>| {
        let names = here.keys().filter(|it| !there.contains_key(*it));
        names.map(|it| (*it).to_owned()).collect::<Vec<String>>()
    };
    let (lefts, rights) = (only(&left, &right), only(&right, &left));
    let names = [lefts.as_slice(), &rights].concat();
    if names.is_empty() {
        return;
    }
    let message = format!("Only one side sets cookies: {}", names.join(", "));
    let evidence = Evidence::new(Section::Headers, ["set-cookie"]);
    let (code, category) = (Code::CookiePresenceDrift, Category::Security);
    let shown = |names: &[String]| (!names.is_empty()).then(|| names.join("; "));
    found.push(
        DiffFinding::new(code, category, Severity::Warn, message, evidence)
            .values(shown(&lefts).as_deref(), shown(&rights).as_deref())
            .advise("Check which application or proxy sets it, and whether users need it there."),
    );
}

fn by_name(response: &ResponseMetadata) -> BTreeMap<&str, &Cookie> {
    response.cookies.iter().map(|it| (&*it.name, it)).collect()
}

fn weight(left: &Cookie, right: &Cookie) -> Option<Severity> {
    if left.secure != right.secure || left.http_only != right.http_only {
        return Some(Severity::Warn);
    }
    if left.same_site == right.same_site {
        return None;
    }
    // `none` sends it to every site; the step from absent to `lax` is what browsers do anyway.
    let is_open = |it: &Cookie| it.same_site.as_deref() == Some("none");
    Some(if is_open(left) || is_open(right) { Severity::Warn } else { Severity::Info })
}

fn shown(cookie: &Cookie) -> String {
    let mut text = cookie.name.clone();
    for (is_set, flag) in [(cookie.secure, " Secure"), (cookie.http_only, " HttpOnly")] {
        if is_set {
            text.push_str(flag);
        }
    }
    if let Some(same_site) = &cookie.same_site {
        text.push_str(&format!(" SameSite={same_site}"));
    }
    text
}
