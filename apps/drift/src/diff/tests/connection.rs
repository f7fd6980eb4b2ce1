use super::*;

fn protocols(left: Option<&str>, right: Option<&str>, duration: u64) -> EnvDiff {
    compared(|l, r| {
        for (side, protocol) in [(&mut *l, left), (&mut *r, right)] {
            let http_protocol = protocol.map(Into::into);
            side.cf = Some(CfContext { http_protocol, ..CfContext::default() });
        }
        probe(r).duration_ms = duration;
    })
}

#[test]
fn another_version_of_http_is_told_and_a_warning_if_it_may_explain_the_timing() {
    let id = "HTTP_PROTOCOL_DRIFT:cf:httpProtocol";
    let (old, new) = (Some("HTTP/1.1"), Some("HTTP/2"));
    assert_eq!(only(&protocols(old, new, 40)), Some((id, "info")));
    assert!(all(&protocols(old, new, 400)).contains(&(id, "warn")));
    assert_eq!(only(&protocols(new, new, 40)), None);
    assert_eq!(only(&protocols(None, new, 40)), None);
}

/// Changes the connection of the right side.
fn secured(change: impl FnOnce(&mut Option<Tls>)) -> EnvDiff {
    compared(|_, right| change(&mut probe(right).hops[0].tls))
}

#[test]
fn encryption_is_critical_if_missing_and_a_warning_by_version() {
    let version = "TLS_DRIFT:tls:version";
    let diff = secured(|it| *it = None);
    assert_eq!(only(&diff), Some((version, "critical")));
    assert_eq!(diff.findings[0].right_value.as_deref(), Some("(absent)"));
    let diff = secured(|it| {
        let tls = it.as_mut().unwrap();
        tls.version = "TLSv1.2".into();
        tls.cipher = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".into();
    });
    assert_eq!(only(&diff), Some((version, "warn")));
    let diff = secured(|it| it.as_mut().unwrap().cipher = "TLS13_AES_256_GCM_SHA384".into());
    assert_eq!(only(&diff), Some(("TLS_DRIFT:tls:cipher", "info")));
}

#[test]
fn certificates_of_other_kinds_are_told() {
    let of = |change: &dyn Fn(&mut Certificate)| {
        secured(|it| change(&mut it.as_mut().unwrap().certificates[0]))
    };
    let diff = of(&|it| it.issuer = "CN=Other".into());
    assert_eq!(only(&diff), Some(("CERTIFICATE_DRIFT:tls:issuer", "info")));
    let diff = of(&|it| {
        it.issuer = "CN=Other".into();
        it.key = "RSA 2048".into();
    });
    assert_eq!(only(&diff), Some(("CERTIFICATE_DRIFT:tls:issuer,key", "info")));
    assert_eq!(only(&of(&|it| it.serial = "01".into())), None);
}

#[test]
fn a_certificate_that_ends_soon_has_two_thresholds() {
    for (end, expected) in [
        ("2026-11-30T11:59:59Z", Some("warn")),
        ("2026-11-30T12:00:00Z", None),
        ("2026-11-19T12:00:00Z", Some("warn")),
        ("2026-11-19T11:59:59Z", Some("critical")),
        ("2026-11-14T00:00:00Z", Some("critical")),
        ("1950-01-01T00:00:00Z", Some("critical")),
        ("9999-12-31T00:00:00Z", None),
        ("", None),
        ("soon", None),
    ] {
        let diff = secured(|it| it.as_mut().unwrap().certificates[0].not_after = end.into());
        let id = "CERTIFICATE_DRIFT:tls:expiry";
        assert_eq!(only(&diff), expected.map(|it| (id, it)), "{end}");
        if expected.is_some() {
            assert_eq!(diff.findings[0].message, "The certificate of the right side ends soon");
        }
    }
}
