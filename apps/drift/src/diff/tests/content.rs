use super::*;

#[test]
fn caching_is_critical_by_privacy_a_warning_by_directives_and_else_told() {
    let id = "CACHE_HEADER_DRIFT:headers:cache-control";
    for (left, right, expected) in [
        ("no-store", "public, max-age=60", Some("critical")),
        ("private, max-age=60", "max-age=60", Some("critical")),
        ("NO-STORE", "", Some("critical")),
        ("private=\"x\"", "", Some("critical")),
        ("no-store", "private", Some("critical")),
        ("max-age=60", "max-age=60, immutable", Some("warn")),
        ("max-age=60", "", Some("warn")),
        ("no-cache", "max-age=0", Some("warn")),
        ("max-age=60", "max-age=61", Some("info")),
        ("public,max-age=60", "public, max-age=60", Some("info")),
        ("max-age=60, public", "public, max-age=60", Some("info")),
        ("no-store", "no-store", None),
        ("", "", None),
    ] {
        for (left, right) in [(left, right), (right, left)] {
            let diff = core("cache-control", left, right);
            assert_eq!(only(&diff), expected.map(|it| (id, it)), "{left} | {right}");
        }
    }
}

#[test]
fn vary_is_a_warning_unless_only_spelled_differently() {
    let id = "UNKNOWN_DRIFT:headers:vary";
    assert_eq!(only(&core("vary", "Accept", "Accept, Accept-Encoding")), Some((id, "warn")));
    assert_eq!(only(&core("vary", "Accept", "")), Some((id, "warn")));
    assert_eq!(only(&core("vary", "*", "Origin")), Some((id, "warn")));
    assert_eq!(only(&core("vary", "Accept,Origin", "origin, accept")), None);
}

#[test]
fn a_media_type_is_critical_by_its_first_half_and_a_warning_by_the_second() {
    let id = "CONTENT_TYPE_DRIFT:content:content-type";
    for (left, right, expected) in [
        (Some("application/json"), Some("text/json"), Some("critical")),
        (Some("text/html"), Some("text/plain; x"), Some("warn")),
        (Some("text/html"), None, Some("warn")),
        (None, Some("text/html"), Some("warn")),
        (Some("TEXT/HTML; charset=a"), Some("text/html;charset=b"), None),
        (None, None, None),
    ] {
        let diff = responses(|l, r| {
            l.content_type = left.map(Into::into);
            r.content_type = right.map(Into::into);
        });
        assert_eq!(only(&diff), expected.map(|it| (id, it)), "{left:?} {right:?}");
    }
}

#[test]
fn another_body_is_critical_if_nothing_else_says_that_it_is_another() {
    let id = "BODY_HASH_DRIFT:content:body-hash";
    let change = |r: &mut ResponseMetadata| r.body_hash = Some("bb".into());
    assert_eq!(only(&responses(|_, r| change(r))), Some((id, "critical")));
    let of = |diff: &EnvDiff| diff.findings.iter().any(|it| it.code == Code::BodyHashDrift);
    assert!(!of(&responses(|_, r| {
        change(r);
        r.status = 201;
    })));
    assert!(!of(&responses(|_, r| {
        change(r);
        r.content_type = Some("text/plain".into());
    })));
    assert!(!of(&responses(|_, r| r.body_hash = None)));
    // Parameters of the type are no other type, and no type on both sides is the same.
    assert!(of(&responses(|_, r| {
        change(r);
        r.content_type = Some("text/html".into());
    })));
    assert!(of(&responses(|l, r| {
        change(r);
        (l.content_type, r.content_type) = (None, None);
    })));
}

#[test]
fn prefixes_are_compared_only_with_what_they_can_tell_apart() {
    for (left, right, is_told) in [
        ((None, 10), (None, 10), true),
        ((Some(64), 10), (Some(64), 10), true),
        ((Some(64), 10), (Some(63), 10), false),
        ((None, 63), (Some(64), 63), true),
        ((None, 64), (Some(64), 64), false),
        ((Some(64), 63), (None, 63), true),
    ] {
        let diff = responses(|l, r| {
            r.body_hash = Some("bb".into());
            (l.hashed_bytes, l.content_length) = (left.0, Some(left.1));
            (r.hashed_bytes, r.content_length) = (right.0, Some(right.1));
        });
        let found = diff.findings.iter().any(|it| it.code == Code::BodyHashDrift);
        assert_eq!(found, is_told, "{left:?} {right:?}");
    }
}

#[test]
fn a_body_that_breaks_off_on_one_side_is_told() {
    let broken = |it: &mut ResponseMetadata| {
        it.body_hash = None;
        it.body_error = Some(ProbeErrorCode::Timeout);
    };
    let diff = responses(|l, _| broken(l));
    assert_eq!(only(&diff), Some(("BODY_HASH_DRIFT:content:body-hash", "warn")));
    assert_eq!(diff.findings[0].right_value.as_deref(), Some("complete"));
    let both = responses(|l, r| {
        broken(l);
        broken(r);
    });
    assert_eq!(only(&both), None);
}

#[test]
fn a_size_has_two_thresholds_and_means_less_beside_another_status() {
    let id = "CONTENT_LENGTH_DRIFT:content:content-length";
    for (delta, severity, beside) in [
        (1, "info", "info"),
        (199, "info", "info"),
        (200, "warn", "warn"),
        (1_999, "warn", "warn"),
        (2_000, "critical", "warn"),
        (u64::MAX - 5_000, "critical", "warn"),
    ] {
        let diff = responses(|l, r| {
            (l.content_length, r.content_length) = (Some(5_000), Some(5_000 + delta));
        });
        assert_eq!(only(&diff), Some((id, severity)), "{delta}");
        let diff = responses(|l, r| {
            (l.content_length, r.content_length) = (Some(5_000 + delta), Some(5_000));
            r.status = 201;
        });
        assert!(all(&diff).contains(&(id, beside)), "{delta}");
    }
    assert_eq!(only(&responses(|l, _| l.content_length = None)), None);
}

#[test]
fn remaining_headers_are_told_and_three_of_them_are_a_warning() {
    assert_eq!(
        only(&core("location", "/a", "/b")),
        Some(("UNKNOWN_DRIFT:headers:location", "info"))
    );
    let two = [("allow", "GET", ""), ("content-language", "en", "de")];
    let id = "UNKNOWN_DRIFT:headers:allow,content-language";
    assert_eq!(only(&other(&two)), Some((id, "info")));
    let three = [two[0], two[1], ("content-encoding", "gzip", "")];
    let id = "UNKNOWN_DRIFT:headers:allow,content-encoding,content-language";
    assert_eq!(only(&other(&three)), Some((id, "warn")));
}

#[test]
fn headers_that_change_each_time_are_no_drift() {
    let noise =
        [("date", "a", "b"), ("etag", "1", "2"), ("x-request-id", "1", ""), ("age", "", "9")];
    let diff = other(&noise);
    assert_eq!(only(&diff), None);
    let headers = diff.headers.unwrap().other.unwrap();
    assert_eq!(headers.differing(), ["age", "date", "etag", "x-request-id"]);
    assert_eq!((headers.added.len(), headers.removed.len(), headers.changed.len()), (1, 1, 2));
}

#[test]
fn sizes_that_vary_are_drift_where_their_ranges_do_not_meet() {
    let id = "CONTENT_LENGTH_DRIFT:content:content-length";
    for (left, right, expected) in [
        // A blank page, or a small one, beside one that varies.
        (&[0, 0, 0][..], &[5_000, 9_000, 40_000][..], "critical"),
        (&[60, 60, 60], &[1_000, 9_000, 40_000], "warn"),
        (&[60, 60, 60], &[100, 9_000, 40_000], "info"),
        // Too few for anything critical.
        (&[0, 0], &[5_000, 9_000], "warn"),
        (&[0, 9, 0], &[5_000, 9_000, 40_000], "warn"),
        // Both vary, but not as much as they are apart.
        (&[20, 21, 20], &[30_000, 30_009, 30_001], "critical"),
        (&[0, 9, 0, 9, 0, 9], &[5_000, 9_000, 40_000, 5_001, 5_002, 5_003], "critical"),
        // Ranges that meet are no drift, however far the first answers are apart.
        (&[9, 20_000, 10], &[50_000, 15_000, 40_000], "warn"),
    ] {
        for (left, right) in [(left, right), (right, left)] {
            let diff = compared(|l, r| {
                for (side, all) in [(l, left), (r, right)] {
                    probe(side).response.content_length = Some(all[0]);
                    probe(side).samples_bytes = all.to_vec();
                }
            });
            assert_eq!(only(&diff), Some((id, expected)), "{left:?} {right:?}");
            // That a side differs from itself says nothing against a gap.
            let unsteady = Unsteady { id: id.into(), sides: vec![Side::Left, Side::Right] };
            let settled = settle(diff.clone(), &[unsteady]);
            let is_apart =
                left.iter().max() < right.iter().min() || right.iter().max() < left.iter().min();
            assert_eq!(settled == diff, is_apart, "{left:?} {right:?}");
        }
    }
}
