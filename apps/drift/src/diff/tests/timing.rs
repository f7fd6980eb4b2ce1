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

fn sampled(left: &[u64], right: &[u64]) -> EnvDiff {
    compared(|l, r| {
        for (side, all) in [(l, left), (r, right)] {
            let probe = probe(side);
            (probe.duration_ms, probe.samples_ms) = (all[0], all.to_vec());
        }
    })
}

#[test]
fn timing_rests_on_all_samples() {
    let id = "TIMING_DRIFT:timing:duration_ms";
    for (left, right, expected) in [
        // One slow answer is an accident.
        (&[20, 20, 20][..], &[900, 21, 20][..], None),
        (&[20, 400, 20], &[90, 200, 95], None),
        // Each answer is slow.
        (&[20, 30, 25], &[900, 910, 905], Some("critical")),
        (&[100, 110, 105], &[200, 190, 210], Some("warn")),
        // Too few for anything critical.
        (&[20, 30], &[900, 910], Some("warn")),
        // Among many the faster side may have an accident, and the slower one none.
        (&[20, 900, 20, 25, 20], &[900, 910, 905, 930, 920], Some("critical")),
        (&[20, 900, 20, 900, 20], &[900, 910, 905, 930, 920], None),
        (&[20, 25, 20, 25, 20], &[900, 910, 30, 930, 920], None),
    ] {
        for (left, right) in [(left, right), (right, left)] {
            let diff = sampled(left, right);
            assert_eq!(only(&diff), expected.map(|it| (id, it)), "{left:?} {right:?}");
        }
    }
    let diff = sampled(&[20, 30, 25], &[900, 910, 905]);
    assert_eq!(diff.timing.unwrap().duration_ms, Change::of(25, 905));
    let value = diff.findings[0].right_value.as_deref();
    assert_eq!(value, Some("905 ms (900 to 910 ms in 3 requests)"));
}

#[test]
fn what_a_side_has_with_itself_is_told_as_dynamic() {
    let diff = || {
        responses(|l, r| {
            r.body_hash = Some("bb".into());
            (l.content_length, r.content_length) = (Some(5_000), Some(50_000));
            r.headers.core.insert("cache-control".into(), "no-store".into());
        })
    };
    let (body, length, cache) = (
        "BODY_HASH_DRIFT:content:body-hash",
        "CONTENT_LENGTH_DRIFT:content:content-length",
        "CACHE_HEADER_DRIFT:headers:cache-control",
    );
    let settled = |ids: &[&str], sides: &[Side]| {
        let unsteady = ids.iter().map(|it| Unsteady { id: (*it).into(), sides: sides.to_vec() });
        settle(diff(), &unsteady.collect::<Vec<_>>())
    };
    let both = settled(&[body, length, cache], &[Side::Left, Side::Right]);
    let dynamic = "DYNAMIC_CONTENT:content:body-hash";
    assert_eq!(all(&both), [(cache, "warn"), (length, "info"), (dynamic, "info")]);
    assert_eq!(both.max_severity, Severity::Warn);
    assert!(both.findings[0].message.ends_with("both sides differ from request to request"));
    assert_eq!(both.findings[0].evidence[0].note.as_deref(), Some("dynamic"));
    let one = settled(&[body], &[Side::Right]);
    assert!(all(&one).contains(&(dynamic, "warn")), "{:?}", all(&one));
    assert_eq!(one.max_severity, Severity::Critical, "the rest stays as it is");
    assert_eq!(settle(diff(), &[]), diff());
}
