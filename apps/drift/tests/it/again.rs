//! A side that gives no answer is asked again before that is reported.

use std::sync::atomic::Ordering;

use steadfast_core::{Object, test::TestApp};
use steadfast_drift::{
    EnvPair, Status,
    diff::{Code, EnvDiff, Severity},
};

use crate::stage::{Environment, RETRIES, create, ended};

laws!(
    one_connection_that_ends_is_a_warning_and_what_both_sides_answer_is_compared,
    a_side_that_never_answers_is_critical_after_all_retries,
);

async fn compared(app: &TestApp, left: &Environment, right: &Environment) -> EnvDiff {
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let shown = ended(app, &pair, &id).await;
    assert_eq!(shown.status, Status::Completed, "{shown:?}");
    shown.result.unwrap().diff.unwrap()
}

async fn one_connection_that_ends_is_a_warning_and_what_both_sides_answer_is_compared(
    app: &TestApp,
) {
    let (left, right) = (Environment::dropping(1, "one"), Environment::dropping(2, "one"));
    let diff = compared(app, &left, &right).await;
    let failures = || diff.findings.iter().filter(|it| it.code == Code::ProbeFailure);
    let found: Vec<_> = failures().map(|it| (&*it.id, it.severity)).collect();
    let expected = ["PROBE_FAILURE:probe:left", "PROBE_FAILURE:probe:right"];
    assert_eq!(found, expected.map(|it| (it, Severity::Warn)), "{diff:?}");
    assert!(failures().any(|it| it.message.contains("right side answered request 3")), "{diff:?}");
    assert_eq!(diff.max_severity, Severity::Warn, "{diff:?}");
    assert!(diff.status.is_some(), "the answers are compared");
    let (left, right) = (Environment::dropping(1, "one"), Environment::start("two"));
    let diff = compared(app, &left, &right).await;
    let codes: Vec<Code> = diff.findings.iter().map(|it| it.code).collect();
    assert!(codes.contains(&Code::BodyHashDrift), "drift behind a failure is found: {diff:?}");
}

async fn a_side_that_never_answers_is_critical_after_all_retries(app: &TestApp) {
    let (left, right) = (Environment::start("one"), Environment::dropping(usize::MAX, "one"));
    let diff = compared(app, &left, &right).await;
    assert_eq!(diff.max_severity, Severity::Critical);
    assert_eq!(diff.findings[0].code, Code::ProbeFailure);
    assert_eq!(right.asked.load(Ordering::SeqCst), 1 + RETRIES);
    assert_eq!(left.asked.load(Ordering::SeqCst), 1, "who answers is not asked again");
}
