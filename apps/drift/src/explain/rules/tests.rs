use super::{
    super::summary::tests::{finding, summary},
    *,
};

fn first(findings: Vec<FindingSummary>) -> (String, Explanation) {
    let explanation = explained(&summary(findings));
    let cause = explanation.ranked_causes.first().map(|it| it.cause.clone()).unwrap_or_default();
    (cause, explanation)
}

#[test]
fn no_difference_needs_no_cause() {
    let (cause, explanation) = first(Vec::new());
    assert_eq!((cause.as_str(), explanation.actions.len()), ("", 0));
    assert_eq!(explanation.summary, "staging and production answer alike.");
}

#[test]
fn each_kind_of_difference_leads_to_its_cause() {
    let critical = Severity::Critical;
    for (code, left, right, expected) in [
        ("PROBE_FAILURE", "dns_error: x", "a response", "staging has no address in DNS"),
        ("PROBE_FAILURE", "a response", "tls_error: x", "production has no valid certificate"),
        ("PROBE_FAILURE", "timeout: x", "timeout: y", "Each side is overloaded"),
        ("PROBE_FAILURE", "a response", "fetch_error: x", "production is down"),
        ("STATUS_MISMATCH", "200", "503", "production fails inside"),
        ("STATUS_MISMATCH", "403", "200", "staging is behind authentication, production is not"),
        ("STATUS_MISMATCH", "404", "200", "The path is not deployed on staging"),
        ("AUTH_CHALLENGE_PRESENT", "(absent)", "Bearer", "production is behind authentication"),
        ("AUTH_CHALLENGE_PRESENT", "Basic", "Bearer", "Both sides authenticate"),
        ("FINAL_URL_MISMATCH", "a", "b", "Redirects differ"),
        ("CORS_HEADER_DRIFT", "a", "b", "The origins, methods"),
        ("CACHE_HEADER_DRIFT", "a", "b", "Caches get"),
        ("CONTENT_TYPE_DRIFT", "a", "b", "One side answers with another kind"),
        ("BODY_HASH_DRIFT", "a", "b", "Different versions"),
        ("TIMING_DRIFT", "1 ms", "900 ms", "production has less capacity"),
        ("TLS_DRIFT", "a", "b", "TLS ends at different places"),
        ("SECURITY_HEADER_DRIFT", "a", "b", "Headers and flags"),
        ("PLATFORM_DRIFT", "a", "b", "Another gateway"),
    ] {
        let (cause, explanation) = first(vec![finding(code, critical, left, right)]);
        assert!(cause.starts_with(expected), "{code}: {cause}");
        assert!(explanation.ranked_causes[0].evidence[0].starts_with(code));
        assert!(!explanation.actions.is_empty());
        assert!(explanation.clone().checked().is_ok());
    }
}

#[test]
fn more_and_worse_findings_make_surer() {
    let sure = |findings| first(findings).1.ranked_causes[0].confidence;
    let cors = |severity| finding("CORS_HEADER_DRIFT", severity, "a", "b");
    assert!(sure(vec![cors(Severity::Critical)]) > sure(vec![cors(Severity::Warn)]));
    assert!(sure(vec![cors(Severity::Warn)]) > sure(vec![cors(Severity::Info)]));
    let header = || finding("SECURITY_HEADER_DRIFT", Severity::Warn, "a", "b");
    assert!(sure(vec![header(), header()]) > sure(vec![header()]));
    assert!(sure(vec![header(); 50]) <= 0.95);
}

#[test]
fn many_differences_of_a_gateway_point_to_the_gateway() {
    let codes = ["CORS_HEADER_DRIFT", "CACHE_HEADER_DRIFT", "SECURITY_HEADER_DRIFT"];
    let findings = codes.map(|it| finding(it, Severity::Critical, "a", "b")).to_vec();
    let explanation = first(findings).1;
    let gateway = |it: &Cause| it.cause.starts_with("Another gateway") && it.evidence.len() == 3;
    assert!(explanation.ranked_causes.iter().any(gateway), "{explanation:?}");
    let order: Vec<f64> = explanation.ranked_causes.iter().map(|it| it.confidence).collect();
    assert!(order.is_sorted_by(|a, b| a >= b));
}

#[test]
fn new_recurring_flapping_and_resolved_are_told_apart() {
    let of = |code: &str, standing| FindingSummary {
        standing,
        ..finding(code, Severity::Warn, "a", "b")
    };
    let mut mixed = summary(vec![
        of("CORS_HEADER_DRIFT", Standing::New),
        of("CACHE_HEADER_DRIFT", Standing::Recurring { times: 3 }),
        of("TIMING_DRIFT", Standing::Flapping),
    ]);
    mixed.resolved = vec!["The status differs".into()];
    let explanation = explained(&mixed);
    let notes = explanation.notes.join("\n");
    for expected in [
        "New, so look at the latest change first: CORS_HEADER_DRIFT differs",
        "Known from earlier comparisons: CACHE_HEADER_DRIFT differs",
        "Comes and goes, so suspect one of several servers: TIMING_DRIFT differs",
        "Resolved: The status differs",
    ] {
        assert!(notes.contains(expected), "{notes}");
    }
    let text = &explanation.summary;
    assert!(text.contains("1 of them is new") && text.contains("One earlier difference has gone"));
    let old = summary(vec![of("CORS_HEADER_DRIFT", Standing::Recurring { times: 9 })]);
    assert!(explained(&old).notes[0].starts_with("All of it was there before"));
}

#[tokio::test]
async fn the_same_findings_have_the_same_explanation() {
    let findings = vec![finding("TIMING_DRIFT", Severity::Critical, "1", "2")];
    let input = summary(findings);
    let explainer: &dyn Explainer = &Rules;
    let one = explainer.explain(&input).await.unwrap();
    assert_eq!(one, explainer.explain(&input).await.unwrap());
    assert_eq!(explainer.name(), "rules (embedded)");
}
