use super::*;

/// The two demo targets, as the probe sees them.
fn demo() -> (SignalEnvelope, SignalEnvelope) {
    let (mut left, mut right) = (answer(Side::Left), answer(Side::Right));
    for (side, path, duration, kind, headers) in [
        (
            &mut left,
            "staging",
            12,
            "application/json",
            [("cache-control", "no-store"), ("vary", "Accept")].as_slice(),
        ),
        (
            &mut right,
            "production",
            212,
            "text/json",
            &[
                ("cache-control", "public,max-age=3600"),
                ("vary", "Accept, Accept-Encoding"),
                ("www-authenticate", "Bearer realm=\"api\""),
            ],
        ),
    ] {
        let probe = probe(side);
        probe.duration_ms = duration;
        probe.response.final_url = format!("http://127.0.0.1:8080/api/demo/{path}");
        probe.response.content_type = Some(kind.into());
        probe.response.body_hash = Some(path.into());
        for (name, value) in headers {
            probe.response.headers.core.insert((*name).into(), (*value).into());
        }
        let cors = probe.response.headers.access_control.get_or_insert_default();
        let origin = if path == "staging" { "*" } else { "https://app.example.com" };
        cors.insert("access-control-allow-origin".into(), origin.into());
    }
    (left, right)
}

#[test]
fn the_demo_shows_its_drift_ranked_by_severity_code_and_message() {
    let (left, right) = demo();
    let diff = compute("c", &left, &right, DiffOptions::default());
    assert_eq!(
        all(&diff),
        [
            ("AUTH_CHALLENGE_PRESENT:headers:www-authenticate", "critical"),
            ("CACHE_HEADER_DRIFT:headers:cache-control", "critical"),
            ("CONTENT_TYPE_DRIFT:content:content-type", "critical"),
            ("CORS_HEADER_DRIFT:headers:access-control-allow-origin", "critical"),
            ("TIMING_DRIFT:timing:duration_ms", "critical"),
            ("FINAL_URL_MISMATCH:finalUrl:path", "warn"),
            ("UNKNOWN_DRIFT:headers:vary", "warn"),
        ]
    );
    assert_eq!(diff.max_severity, Severity::Critical);
    assert!(diff.findings.iter().all(|it| !it.recommendations.is_empty()));
}

#[test]
fn equal_answers_have_no_findings() {
    let diff = compared(|_, _| {});
    assert_eq!(only(&diff), None);
    assert_eq!(diff.max_severity, Severity::Info);
    assert_eq!(diff.left_probe_id, "c:left");
    assert!(diff.content.is_some() && diff.timing.is_some() && diff.tls.is_some());
}

#[test]
fn the_first_finding_of_an_id_wins() {
    let finding = |message: &str, severity| {
        let evidence = Evidence::new(Section::Status, []);
        DiffFinding::new(Code::StatusMismatch, Category::Routing, severity, message, evidence)
    };
    let both = vec![finding("b", Severity::Info), finding("a", Severity::Critical)];
    let ranked = finding::ranked(both);
    assert_eq!(ranked.len(), 1);
    assert_eq!(ranked[0].message, "b");
}

#[test]
fn long_values_are_cut_at_a_character() {
    let diff = core("cache-control", &"ü".repeat(400), "");
    let value = diff.findings[0].left_value.as_ref().unwrap();
    assert_eq!(value.chars().count(), VALUE_LEN_MAX + 1);
}

#[test]
fn the_json_is_the_contract() {
    let (left, right) = demo();
    let diff = compute("c", &left, &right, DiffOptions::default());
    let json: serde_json::Value = serde_json::to_value(&diff).unwrap();
    assert_eq!(json["schemaVersion"], 1);
    assert_eq!(json["maxSeverity"], "critical");
    assert_eq!(json["probe"]["responsePresent"], true);
    assert_eq!(json["finalUrl"]["changed"], true);
    assert_eq!(json["content"]["contentType"]["left"], "application/json");
    assert_eq!(json["timing"]["deltaMs"], 200);
    let added = &json["headers"]["core"]["added"];
    assert_eq!(added["www-authenticate"], "Bearer realm=\"api\"");
    let finding = &json["findings"][0];
    assert_eq!(finding["code"], "AUTH_CHALLENGE_PRESENT");
    assert_eq!(finding["category"], "security");
    assert_eq!(finding["left_value"], "(absent)");
    assert_eq!(finding["evidence"][0]["section"], "headers");
    assert_eq!(finding["evidence"][0]["keys"][0], "www-authenticate");
    let back: EnvDiff = serde_json::from_value(json).unwrap();
    assert_eq!(back, diff);
    for envelope in [&left, &failed(Side::Right, ProbeErrorCode::TlsError)] {
        let text = serde_json::to_string(envelope).unwrap();
        assert_eq!(&serde_json::from_str::<SignalEnvelope>(&text).unwrap(), envelope);
    }
}

/// Not a test of speed, which differs between machines: run it in release and read what it says.
#[test]
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn a_diff_of_two_typical_envelopes_takes_no_visible_time() {
    let (left, right) = demo();
    let start = std::time::Instant::now();
    for _ in 0..1_000 {
        std::hint::black_box(compute("c", &left, &right, DiffOptions::default()));
    }
    let each = start.elapsed() / 1_000;
    eprintln!("one diff: {each:?}");
    assert!(each < std::time::Duration::from_millis(100), "{each:?}");
}
