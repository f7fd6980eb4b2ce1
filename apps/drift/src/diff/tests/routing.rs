use super::*;

#[test]
fn two_network_failures_are_one_critical_finding_and_nothing_else() {
    let left = failed(Side::Left, ProbeErrorCode::DnsError);
    let right = failed(Side::Right, ProbeErrorCode::Timeout);
    let diff = compute("c", &left, &right, DiffOptions::default());
    assert_eq!(only(&diff), Some(("PROBE_FAILURE:probe:left,right", "critical")));
    assert_eq!(diff.findings[0].message, "Both probes failed (network-level)");
    assert!(diff.status.is_none() && diff.headers.is_none() && !diff.probe.response_present);
    assert_eq!(diff.probe.left_error_code, Some(ProbeErrorCode::DnsError));
    assert!(diff.probe.outcome_changed);
}

#[test]
fn one_network_failure_names_its_side_and_code() {
    for (code, name) in [
        (ProbeErrorCode::InvalidUrl, "invalid_url"),
        (ProbeErrorCode::DnsError, "dns_error"),
        (ProbeErrorCode::Timeout, "timeout"),
        (ProbeErrorCode::TlsError, "tls_error"),
        (ProbeErrorCode::SsrfBlocked, "ssrf_blocked"),
        (ProbeErrorCode::FetchError, "fetch_error"),
        (ProbeErrorCode::UnknownError, "unknown_error"),
    ] {
        let (left, right) = (failed(Side::Left, code), answer(Side::Right));
        let diff = compute("c", &left, &right, DiffOptions::default());
        assert_eq!(only(&diff), Some(("PROBE_FAILURE:probe:left", "critical")));
        assert!(diff.findings[0].message.contains(name));
        assert_eq!(diff.findings[0].right_value.as_deref(), Some("a response"));
        let (left, right) = (answer(Side::Left), failed(Side::Right, code));
        let diff = compute("c", &left, &right, DiffOptions::default());
        assert_eq!(only(&diff), Some(("PROBE_FAILURE:probe:right", "critical")));
    }
}

#[test]
fn a_bad_status_is_no_probe_failure() {
    let diff = compared(|left, right| {
        for side in [left, right] {
            probe(side).response.status = 503;
            probe(side).ok = false;
        }
    });
    assert_eq!(only(&diff), None);
    assert!(diff.probe.response_present && !diff.probe.left_ok && !diff.probe.outcome_changed);
    assert_eq!(diff.max_severity, Severity::Info);
}

#[test]
fn a_status_is_critical_between_good_and_bad_and_between_redirect_and_none() {
    for (left, right, severity) in [
        (200, 404, "critical"),
        (500, 204, "critical"),
        (299, 400, "critical"),
        (301, 200, "critical"),
        (304, 404, "critical"),
        (399, 599, "critical"),
        (200, 201, "warn"),
        (404, 503, "warn"),
        (400, 499, "warn"),
        (301, 302, "warn"),
        (101, 200, "warn"),
        (200, 600, "warn"),
    ] {
        for (left, right) in [(left, right), (right, left)] {
            let diff = responses(|l, r| (l.status, r.status) = (left, right));
            assert_eq!(only(&diff), Some(("STATUS_MISMATCH:status", severity)), "{left} {right}");
            let finding = &diff.findings[0];
            assert_eq!(finding.left_value.as_deref(), Some(&*left.to_string()));
            assert!(!finding.recommendations.is_empty());
        }
    }
}

#[test]
fn a_final_url_is_critical_by_host_and_scheme_and_a_warning_by_the_rest() {
    let base = "https://a.example/";
    for (left, right, id, severity) in [
        (base, "https://b.example/", "host", "critical"),
        (base, "https://a.example:8443/", "host", "critical"),
        (base, "http://a.example/", "scheme", "critical"),
        (base, "http://b.example/x?y", "host,path,query,scheme", "critical"),
        (base, "http://a.example/x", "path,scheme", "critical"),
        (base, "https://a.example/x", "path", "warn"),
        (base, "https://a.example/?x", "query", "warn"),
        (base, "https://a.example/x?y", "path,query", "warn"),
        (base, "not a url", "finalUrl", "warn"),
        (base, "https://a.example:443/", "finalUrl", "warn"),
    ] {
        for (left, right) in [(left, right), (right, left)] {
            let diff = responses(|l, r| {
                l.final_url = left.into();
                r.final_url = right.into();
            });
            let id = format!("FINAL_URL_MISMATCH:finalUrl:{id}");
            assert_eq!(only(&diff), Some((&*id, severity)), "{left} {right}");
        }
    }
}

#[test]
fn a_host_that_was_asked_for_is_expected_if_the_options_say_so() {
    let options = DiffOptions { expect_requested: true };
    let change = |end: &'static str| {
        move |_: &mut SignalEnvelope, right: &mut SignalEnvelope| {
            right.requested_url = "https://b.example/".into();
            probe(right).response.final_url = end.into();
        }
    };
    for (end, severity) in [
        ("https://b.example/", "info"),
        ("https://b.example/x", "warn"),
        ("https://c.example/", "critical"),
        ("http://b.example/", "critical"),
    ] {
        assert_eq!(all(&compared_with(options, change(end)))[0].1, severity, "{end}");
    }
    assert_eq!(all(&compared(change("https://b.example/")))[0].1, "critical");
}

fn chain(urls: &[&str], status: u16) -> Vec<RedirectHop> {
    let hop = |it: &[&str]| RedirectHop { from_url: it[0].into(), to_url: it[1].into(), status };
    urls.windows(2).map(hop).collect()
}

fn redirected(left: Vec<RedirectHop>, right: Vec<RedirectHop>) -> EnvDiff {
    compared(|l, r| {
        for (side, chain) in [(l, left), (r, right)] {
            if let Some(last) = chain.last() {
                probe(side).response.final_url = last.to_url.clone();
            }
            probe(side).redirects = chain;
        }
    })
}

#[test]
fn redirects_are_critical_by_host_a_warning_by_number_and_else_told() {
    let (a, b, c) = ("https://a.example/", "https://a.example/b", "https://c.example/");
    let diff = redirected(chain(&[a, b], 301), chain(&[a, c], 301));
    assert!(all(&diff).contains(&("REDIRECT_CHAIN_CHANGED:redirects:chain,finalHost", "critical")));
    let diff = redirected(chain(&[a, c], 301), chain(&[a, b, a], 301));
    let id = "REDIRECT_CHAIN_CHANGED:redirects:chain,finalHost,hopCount";
    assert!(all(&diff).contains(&(id, "critical")));
    let diff = redirected(chain(&[b, a], 301), chain(&[a, b, a], 301));
    assert_eq!(only(&diff), Some(("REDIRECT_CHAIN_CHANGED:redirects:chain,hopCount", "warn")));
    let diff = redirected(Vec::new(), chain(&[b, a], 302));
    assert_eq!(only(&diff), Some(("REDIRECT_CHAIN_CHANGED:redirects:chain,hopCount", "warn")));
    assert_eq!(diff.findings[0].left_value.as_deref(), Some("no redirect"));
    let drawn = "https://a.example/b -302-> https://a.example/";
    assert_eq!(diff.findings[0].right_value.as_deref(), Some(drawn));
    let diff = redirected(chain(&[b, a], 301), chain(&[b, a], 302));
    assert_eq!(only(&diff), Some(("REDIRECT_CHAIN_CHANGED:redirects:chain", "info")));
    let diff = redirected(chain(&[b, a], 301), chain(&[b, a], 301));
    assert_eq!(only(&diff), None);
    let redirects = diff.redirects.unwrap();
    assert!(!redirects.chain_changed && !redirects.hop_count.changed);
}

#[test]
fn the_same_redirect_on_the_host_that_was_asked_for_is_no_change_if_expected() {
    let options = DiffOptions { expect_requested: true };
    let change = |left: &mut SignalEnvelope, right: &mut SignalEnvelope| {
        for (side, host) in [(left, "a"), (right, "b")] {
            let (from, to) =
                (format!("https://{host}.example/"), format!("https://{host}.example/en"));
            side.requested_url = from.clone();
            probe(side).response.final_url = to.clone();
            probe(side).redirects = vec![RedirectHop { from_url: from, to_url: to, status: 302 }];
        }
    };
    let diff = compared_with(options, change);
    assert_eq!(only(&diff), Some(("FINAL_URL_MISMATCH:finalUrl:host", "info")));
    assert_eq!(all(&compared(change)).len(), 2);
}
