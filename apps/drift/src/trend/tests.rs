use super::*;
use crate::diff::{Change, ProbeOutcome};

fn finding(id: &str) -> PastFinding {
    let (code, severity) = (Code::UnknownDrift, Severity::Info);
    PastFinding { id: id.into(), code, severity, message: id.into() }
}

fn past(name: &str, ids: &[&str]) -> Past {
    let findings = ids.iter().map(|it| finding(it)).collect();
    Past { comparison_id: name.into(), is_complete: true, findings }
}

fn failed(name: &str) -> Past {
    Past { is_complete: false, ..past(name, &["PROBE_FAILURE:probe:left"]) }
}

fn diff(ids: &[&str], is_complete: bool) -> EnvDiff {
    let found = |id: &&str| crate::diff::DiffFinding {
        id: (*id).into(),
        code: Code::UnknownDrift,
        category: crate::diff::Category::Unknown,
        severity: Severity::Info,
        message: (*id).into(),
        left_value: None,
        right_value: None,
        evidence: Vec::new(),
        recommendations: Vec::new(),
    };
    EnvDiff {
        schema_version: 1,
        comparison_id: "now".into(),
        left_probe_id: "l".into(),
        right_probe_id: "r".into(),
        probe: ProbeOutcome {
            left_ok: is_complete,
            right_ok: true,
            left_error_code: None,
            right_error_code: None,
            outcome_changed: false,
            response_present: is_complete,
        },
        status: Some(Change::of(200, 200)),
        final_url: None,
        headers: None,
        redirects: None,
        content: None,
        timing: None,
        cf: None,
        platform: None,
        tls: None,
        findings: ids.iter().map(found).collect(),
        max_severity: Severity::Info,
    }
}

fn ids(findings: &[PastFinding]) -> Vec<&str> {
    findings.iter().map(|it| &*it.id).collect()
}

#[test]
fn without_a_past_nothing_is_new() {
    let trend = Trend::of(&diff(&["a"], true), &[]);
    assert_eq!(trend, Trend::default());
}

#[test]
fn new_recurring_and_resolved_are_told_apart() {
    let earlier = [past("2", &["a", "gone"]), past("1", &["a", "b", "older"])];
    let trend = Trend::of(&diff(&["a", "b", "new"], true), &earlier);
    assert_eq!(trend.compared_with, 2);
    assert_eq!(trend.new, ["new"]);
    assert_eq!(ids(&trend.resolved), ["gone"]);
    let of = |at: usize| {
        let it = &trend.recurring[at];
        (&*it.id, it.times, &*it.since, it.is_flapping)
    };
    assert_eq!(of(0), ("a", 2, "1", false));
    assert_eq!(of(1), ("b", 1, "1", true));
}

#[test]
fn what_could_not_be_looked_at_has_not_gone() {
    let down = diff(&["PROBE_FAILURE:probe:left"], false);
    let trend = Trend::of(&down, &[past("1", &["a"])]);
    assert_eq!(trend.new, ["PROBE_FAILURE:probe:left"]);
    assert!(trend.resolved.is_empty());
}

#[test]
fn after_an_outage_the_comparison_before_it_counts() {
    let earlier = [failed("3"), failed("2"), past("1", &["a", "b"])];
    let trend = Trend::of(&diff(&["a"], true), &earlier);
    assert_eq!(ids(&trend.resolved), ["b", "PROBE_FAILURE:probe:left"]);
    assert!(trend.new.is_empty());
    assert!(!trend.recurring[0].is_flapping);
}
