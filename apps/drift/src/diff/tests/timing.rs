use super::*;

fn took(left: u64, right: u64) -> EnvDiff {
    compared(|l, r| {
        probe(l).duration_ms = left;
        probe(r).duration_ms = right;
    })
}

#[test]
fn timing_is_told_beyond_its_thresholds_only() {
    let id = "TIMING_DRIFT:timing:duration_ms";
    for (left, right, expected) in [
        (0, 49, None),
        (1, 49, None),
        (20, 50, Some("critical")),
        (0, 50, Some("critical")),
        (33, 50, Some("warn")),
        (34, 50, None),
        (50, 50, None),
        (100, 149, None),
        (100, 150, Some("warn")),
        (100, 249, Some("warn")),
        (100, 250, Some("critical")),
        (10_000, 10_299, None),
        (10_000, 10_300, Some("warn")),
        (10_000, 10_999, Some("warn")),
        (10_000, 11_000, Some("critical")),
        (0, u64::MAX, Some("critical")),
        (u64::MAX, u64::MAX, None),
    ] {
        for (left, right) in [(left, right), (right, left)] {
            let diff = took(left, right);
            assert_eq!(only(&diff), expected.map(|it| (id, it)), "{left} {right}");
        }
    }
    let timing = took(100, 250).timing.unwrap();
    assert_eq!((timing.ratio, timing.delta_ms), (2.5, 150));
    assert_eq!(took(250, 100).timing.unwrap().delta_ms, -150);
    assert!(took(100, 250).findings[0].message.starts_with("The right side is slower by 150 ms"));
}

fn cf(colo: &str, asn: u32, country: &str) -> Option<CfContext> {
    let text = |it: &str| Some(it.to_owned()).filter(|it| !it.is_empty());
    let asn = Some(asn).filter(|it| *it > 0);
    Some(CfContext { colo: text(colo), country: text(country), asn, ..CfContext::default() })
}

#[test]
fn another_place_is_told_and_a_warning_if_it_may_explain_the_timing() {
    for (left, right, keys) in [
        (cf("FRA", 0, ""), cf("AMS", 0, ""), "colo"),
        (cf("FRA", 1, ""), cf("FRA", 2, ""), "asn"),
        (cf("", 0, "DE"), cf("", 0, "NL"), "country"),
        (cf("FRA", 1, "DE"), cf("AMS", 2, "NL"), "asn,colo,country"),
        (cf("FRA", 0, ""), None, "colo"),
    ] {
        let id = format!("CF_CONTEXT_DRIFT:cf:{keys}");
        for duration in [40, 400] {
            let diff = compared(|l, r| {
                (l.cf, r.cf) = (left.clone(), right.clone());
                probe(r).duration_ms = duration;
            });
            let severity = if duration == 400 { "warn" } else { "info" };
            assert!(all(&diff).contains(&(&*id, severity)), "{:?}", diff.findings);
        }
    }
    assert_eq!(only(&compared(|l, r| (l.cf, r.cf) = (cf("FRA", 1, ""), cf("FRA", 1, "")))), None);
    assert_eq!(only(&compared(|l, _| l.cf = cf("", 0, ""))), None);
}

#[test]
fn other_software_is_told() {
    let of = |server: &str, via: Option<&str>| {
        let via = via.map(Into::into);
        Some(Platform { server: Some(server.into()), via, powered_by: None })
    };
    let diff = compared(|l, r| {
        (l.platform, r.platform) = (of("nginx", None), of("cloudflare", Some("1.1 x")));
    });
    assert_eq!(only(&diff), Some(("PLATFORM_DRIFT:platform:server,via", "info")));
    assert_eq!(diff.findings[0].left_value.as_deref(), Some("server: nginx; via: (absent)"));
    let same = compared(|l, r| (l.platform, r.platform) = (of("a", None), of("a", None)));
    assert_eq!(only(&same), None);
}
