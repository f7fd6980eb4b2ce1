use super::*;

#[test]
fn a_challenge_is_critical_on_one_side_and_a_warning_if_both_differ() {
    let id = "AUTH_CHALLENGE_PRESENT:headers:www-authenticate";
    let name = "www-authenticate";
    assert_eq!(only(&core(name, "Basic", "")), Some((id, "critical")));
    let diff = core(name, "", "Bearer realm=\"api\"");
    assert_eq!(only(&diff), Some((id, "critical")));
    assert_eq!(diff.findings[0].left_value.as_deref(), Some("(absent)"));
    assert_eq!(diff.findings[0].right_value.as_deref(), Some("Bearer realm=\"api\""));
    assert_eq!(only(&core(name, "Basic", "Bearer")), Some((id, "warn")));
    assert_eq!(only(&core(name, "Basic", "Basic")), None);
}

fn cors(left: &[(&str, &str)], right: &[(&str, &str)]) -> EnvDiff {
    let group = |it: &[(&str, &str)]| {
        Some(it.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect())
            .filter(|it: &crate::envelope::Headers| !it.is_empty())
    };
    responses(|l, r| {
        l.headers.access_control = group(left);
        r.headers.access_control = group(right);
    })
}

#[test]
fn cors_is_critical_by_origin_and_a_warning_by_the_rest_in_one_finding() {
    let (origin, methods) = ("access-control-allow-origin", "access-control-allow-methods");
    let id = "CORS_HEADER_DRIFT:headers:access-control-allow-origin";
    assert_eq!(only(&cors(&[(origin, "*")], &[(origin, "https://x")])), Some((id, "critical")));
    assert_eq!(only(&cors(&[(origin, "*")], &[])), Some((id, "critical")));
    assert_eq!(only(&cors(&[], &[(origin, "*")])), Some((id, "critical")));
    assert_eq!(only(&cors(&[(origin, "*")], &[(origin, "*")])), None);
    assert_eq!(only(&cors(&[], &[])), None);
    let id = "CORS_HEADER_DRIFT:headers:access-control-allow-methods";
    assert_eq!(only(&cors(&[(methods, "GET")], &[(methods, "PUT")])), Some((id, "warn")));
    let id = "CORS_HEADER_DRIFT:headers:access-control-allow-methods,access-control-allow-origin";
    let diff = cors(&[(origin, "*"), (methods, "GET")], &[(origin, "x")]);
    assert_eq!(only(&diff), Some((id, "critical")));
}

#[test]
fn odd_names_of_headers_make_legal_evidence() {
    let diff = cors(&[("access-control-x_y!", "1"), ("access-control-x-y-", "2")], &[]);
    assert_eq!(only(&diff), Some(("CORS_HEADER_DRIFT:headers:access-control-x-y-", "warn")));
}

#[test]
fn each_protecting_header_has_its_weight() {
    for (name, left, right, severity) in [
        ("strict-transport-security", "max-age=100", "", "warn"),
        ("strict-transport-security", "max-age=100", "max-age=0", "warn"),
        ("strict-transport-security", "max-age=9; includeSubDomains", "max-age=9", "warn"),
        ("strict-transport-security", "max-age=100", "max-age=200", "info"),
        ("content-security-policy", "", "default-src 'self'", "warn"),
        ("content-security-policy", "script-src 'unsafe-inline'", "script-src 'self'", "warn"),
        ("content-security-policy", "script-src 'unsafe-eval'", "script-src 'self'", "warn"),
        ("content-security-policy", "img-src a", "img-src b", "info"),
        ("x-content-type-options", "nosniff", "", "warn"),
        ("x-content-type-options", "nosniff", "sniff", "warn"),
        ("referrer-policy", "no-referrer", "", "info"),
        ("referrer-policy", "no-referrer", "origin", "info"),
        ("x-frame-options", "DENY", "", "warn"),
        ("x-frame-options", "DENY", "SAMEORIGIN", "info"),
    ] {
        let id = format!("SECURITY_HEADER_DRIFT:headers:{name}");
        for (left, right) in [(left, right), (right, left)] {
            let diff = other(&[(name, left, right)]);
            assert_eq!(only(&diff), Some((&*id, severity)), "{name}: {left} | {right}");
        }
        assert_eq!(only(&other(&[(name, left, left)])), None);
    }
    assert_eq!(only(&other(&[("x-frame-options", "DENY", "deny")])), None);
}

#[test]
fn a_promise_of_encryption_means_nothing_without_it() {
    let diff = responses(|l, r| {
        for side in [&mut *l, &mut *r] {
            side.final_url = "http://a.example/".into();
        }
        let headers = l.headers.other.get_or_insert_default();
        headers.insert("strict-transport-security".into(), "max-age=1".into());
    });
    assert_eq!(only(&diff), None);
}

fn cookie(name: &str, secure: bool, http_only: bool, same_site: &str) -> Cookie {
    let same_site = Some(same_site.to_owned()).filter(|it| !it.is_empty());
    Cookie { name: name.into(), secure, http_only, same_site }
}

#[test]
fn flags_of_cookies_are_compared_by_name() {
    let id = "COOKIE_FLAG_DRIFT:headers:set-cookie";
    let base = cookie("sid", true, true, "lax");
    for (changed, expected) in [
        (cookie("sid", false, true, "lax"), Some((id, "warn"))),
        (cookie("sid", true, false, "lax"), Some((id, "warn"))),
        (cookie("sid", true, true, "none"), Some((id, "warn"))),
        (cookie("sid", true, true, "strict"), Some((id, "info"))),
        (cookie("sid", true, true, ""), Some((id, "info"))),
        (cookie("sid", true, true, "lax"), None),
    ] {
        let diff = responses(|l, r| {
            l.cookies = vec![base.clone()];
            r.cookies = vec![changed.clone()];
        });
        assert_eq!(only(&diff), expected, "{changed:?}");
    }
}

#[test]
fn a_cookie_on_one_side_only_is_told() {
    let of = |left: &[&str], right: &[&str]| {
        let all = |names: &[&str]| names.iter().map(|it| cookie(it, true, true, "lax")).collect();
        responses(|l, r| (l.cookies, r.cookies) = (all(left), all(right)))
    };
    let id = "COOKIE_PRESENCE_DRIFT:headers:set-cookie";
    for (left, right) in [(&["a"][..], &[][..]), (&[], &["a"]), (&["a", "b"], &["b", "c"])] {
        assert_eq!(only(&of(left, right)), Some((id, "warn")), "{left:?} {right:?}");
    }
    assert_eq!(only(&of(&["a", "b"], &["b", "a"])), None);
    let finding = &of(&["a", "b"], &["b", "c"]).findings[0];
    assert_eq!(finding.message, "Only one side sets cookies: a, c");
    let values = (finding.left_value.as_deref(), finding.right_value.as_deref());
    assert_eq!(values, (Some("a"), Some("c")));
}
