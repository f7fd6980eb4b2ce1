//! Every hole of the note, closed.

use std::sync::atomic::Ordering;

use serde_json::json;
use steadfast_core::{Object, Workflow, test::TestApp};
use steadfast_drift::{
    AttachExplanation, CompareEnvironments, EnvPair, ListPairs, Overdue, Pairs, SaveProbe,
    SaveResult, Status,
    envelope::{Side, SignalEnvelope},
    pair::pair_key_of,
};

use crate::stage::{Environment, ROUNDS, RUNNING_MAX, all, begin, create, ended, failed, find};

laws!(
    two_environments_are_compared_and_explained,
    hole_1_sixty_comparisons_in_one_millisecond_keep_exactly_fifty,
    hole_2_what_is_under_way_is_never_forgotten,
    hole_3_what_was_never_begun_is_not_under_way,
    hole_4_the_same_id_is_one_comparison_and_one_run,
    hole_2_one_more_than_may_run_is_refused_until_one_has_ended,
    hole_5_and_9_an_end_is_final_whoever_speaks_later,
    hole_5_a_late_result_does_not_change_a_failed_comparison,
    hole_6_the_id_of_a_comparison_names_its_run_and_leads_to_its_pair,
    hole_7_a_pair_has_a_database_of_its_own,
    hole_8_spellings_are_one_pair_and_directions_are_told_apart,
    hole_11_what_a_server_says_is_kept_within_limits,
    hole_12_a_redirect_to_where_nobody_may_go_is_not_followed,
    a_comparison_that_takes_too_long_fails_and_stays_failed,
);
laws!(also on postgres:
    hole_1_sixty_comparisons_in_one_millisecond_keep_exactly_fifty,
    hole_4_the_same_id_is_one_comparison_and_one_run,
    hole_5_and_9_an_end_is_final_whoever_speaks_later,
);

fn envelope(id: &str, side: Side) -> SignalEnvelope {
    let error = json!({ "code": "timeout", "message": "as the test wants" });
    let envelope = json!({
        "schemaVersion": 1, "comparisonId": id, "probeId": format!("{id}:{}", side.as_str()),
        "side": side, "requestedUrl": "http://127.0.0.1/", "capturedAt": "2026-01-01T00:00:00Z",
        "result": { "ok": false, "error": error },
    });
    serde_json::from_value(envelope).unwrap()
}

async fn two_environments_are_compared_and_explained(app: &TestApp) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let (pair, first) = create(&left.url, &right.url, 1);
    app.call(EnvPair::at(&pair), first.clone()).await.unwrap();
    let shown = ended(app, &pair, &first.comparison_id).await;
    assert_eq!(shown.status, Status::Completed, "{shown:?}");
    let result = shown.result.unwrap();
    let diff = result.diff.unwrap();
    assert!(!diff.findings.is_empty());
    assert!(result.left.is_some() && result.right.is_some());
    assert!(!result.explanation.unwrap().summary.is_empty());
    let pairs = app.call(Pairs::at(Pairs::ALL), ListPairs { limit: 9, after: None }).await.unwrap();
    assert_eq!((pairs.len(), &pairs[0].pair_key), (1, &pair));
    // The second time it is known.
    let (_, second) = create(&left.url, &right.url, 2);
    app.call(EnvPair::at(&pair), second.clone()).await.unwrap();
    let trend = ended(app, &pair, &second.comparison_id).await.result.unwrap().trend.unwrap();
    assert_eq!((trend.compared_with, trend.new.len()), (1, 0));
    assert!(!trend.recurring.is_empty());
    // The other way round it has no history.
    let (same, back) = create(&right.url, &left.url, 3);
    assert_eq!(same, pair);
    app.call(EnvPair::at(&pair), back.clone()).await.unwrap();
    let trend = ended(app, &pair, &back.comparison_id).await.result.unwrap().trend.unwrap();
    assert_eq!(trend.compared_with, 0, "history compares the same direction only");
}

async fn hole_1_sixty_comparisons_in_one_millisecond_keep_exactly_fifty(app: &TestApp) {
    let (left, right) = (Environment::silent(), Environment::start("two"));
    let (pair, _) = create(&left.url, &right.url, 0);
    let ids = begin(app, &left.url, &right.url, 1..61).await;
    // The clock does not advance.
    for id in &ids {
        assert!(app.call(EnvPair::at(&pair), failed(id, "test")).await.unwrap());
    }
    let kept: Vec<String> =
        all(app, &pair).await.into_iter().map(|it| it.comparison_id).rev().collect();
    assert_eq!(kept, ids[10..], "the last fifty, in their order");
}

async fn hole_2_what_is_under_way_is_never_forgotten(app: &TestApp) {
    let (left, right) = (Environment::silent(), Environment::start("two"));
    let (pair, _) = create(&left.url, &right.url, 0);
    let running = begin(app, &left.url, &right.url, 0..1).await.remove(0);
    let ids = begin(app, &left.url, &right.url, 1..61).await;
    for id in &ids {
        app.call(EnvPair::at(&pair), failed(id, "test")).await.unwrap();
    }
    assert_eq!(all(app, &pair).await.len(), 51);
    assert_eq!(find(app, &pair, &running).await.unwrap().status, Status::Running);
    // A message about a forgotten comparison is refused, and changes nothing.
    assert!(!app.call(EnvPair::at(&pair), failed(&ids[0], "late")).await.unwrap());
    let save = SaveProbe {
        comparison_id: ids[0].clone(),
        side: Side::Left,
        envelope: envelope(&ids[0], Side::Left),
    };
    assert!(!app.call(EnvPair::at(&pair), save).await.unwrap());
    assert_eq!(find(app, &pair, &ids[0]).await, None);
    assert!(app.call(EnvPair::at(&pair), failed(&running, "test")).await.unwrap());
}

async fn hole_2_one_more_than_may_run_is_refused_until_one_has_ended(app: &TestApp) {
    let (left, right) = (Environment::silent(), Environment::silent());
    let ids = begin(app, &left.url, &right.url, 0..RUNNING_MAX).await;
    let (pair, more) = create(&left.url, &right.url, RUNNING_MAX);
    let refused = app.call(EnvPair::at(&pair), more.clone()).await.unwrap_err();
    assert_eq!(refused.code(), "too_many_running");
    assert_eq!(find(app, &pair, &more.comparison_id).await, None);
    // A repeated request for a running comparison is answered.
    let (_, first) = create(&left.url, &right.url, 0);
    app.call(EnvPair::at(&pair), first).await.unwrap();
    assert!(app.call(EnvPair::at(&pair), failed(&ids[0], "test")).await.unwrap());
    let shown = app.call(EnvPair::at(&pair), more).await.unwrap();
    assert_eq!(shown.status, Status::Running);
}

async fn hole_3_what_was_never_begun_is_not_under_way(app: &TestApp) {
    let (pair, create) = create("http://127.0.0.1:1/", "http://127.0.0.1:2/", 1);
    assert_eq!(find(app, &pair, &create.comparison_id).await, None);
}

async fn hole_4_the_same_id_is_one_comparison_and_one_run(app: &TestApp) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let (pair, create) = create(&left.url, &right.url, 1);
    for _ in 0..3 {
        app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
    }
    ended(app, &pair, &create.comparison_id).await;
    assert_eq!(all(app, &pair).await.len(), 1);
    assert_eq!(left.asked.load(Ordering::SeqCst), 1 + ROUNDS, "probed once, and looked at again");
}

async fn hole_5_and_9_an_end_is_final_whoever_speaks_later(app: &TestApp) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
    let shown = ended(app, &pair, &id).await;
    assert!(!app.call(EnvPair::at(&pair), failed(&id, "late")).await.unwrap());
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let envelope: SignalEnvelope = shown.result.clone().unwrap().left.unwrap();
    let late = SaveProbe { comparison_id: id.clone(), side: Side::Right, envelope };
    assert!(!app.call(EnvPair::at(&pair), late).await.unwrap());
    assert_eq!(find(app, &pair, &id).await, Some(shown));
}

async fn hole_5_a_late_result_does_not_change_a_failed_comparison(app: &TestApp) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let (pair, first) = create(&left.url, &right.url, 1);
    let id = first.comparison_id.clone();
    app.call(EnvPair::at(&pair), first).await.unwrap();
    let done = ended(app, &pair, &id).await.result.unwrap();
    let (left, right) = (Environment::silent(), Environment::silent());
    let (pair, second) = create(&left.url, &right.url, 1);
    let id = second.comparison_id.clone();
    app.call(EnvPair::at(&pair), second).await.unwrap();
    assert!(app.call(EnvPair::at(&pair), failed(&id, "test")).await.unwrap());
    let before = find(app, &pair, &id).await;
    let late = SaveResult {
        comparison_id: id.clone(),
        diff: done.diff.unwrap(),
        trend: done.trend.unwrap(),
        explanation: done.explanation.clone(),
        explanation_error: None,
    };
    assert!(!app.call(EnvPair::at(&pair), late).await.unwrap());
    let (comparison_id, explanation) = (id.clone(), done.explanation);
    let attach = AttachExplanation { comparison_id, explanation, error: None };
    assert!(!app.call(EnvPair::at(&pair), attach).await.unwrap());
    assert_eq!(find(app, &pair, &id).await, before);
    let shown = before.unwrap();
    assert_eq!((shown.status, shown.error.unwrap().code.as_str()), (Status::Failed, "test"));
}

async fn a_comparison_that_takes_too_long_fails_and_stays_failed(app: &TestApp) {
    let (left, right) = (Environment::silent(), Environment::start("two"));
    let (pair, create) = create(&left.url, &right.url, 1);
    app.call(EnvPair::at(&pair), create.clone()).await.unwrap();
    // The message of the alarm; the run still waits for the silent side.
    let overdue = Overdue { comparison_id: create.comparison_id.clone() };
    app.call(EnvPair::at(&pair), overdue).await.unwrap();
    app.settle().await;
    let shown = find(app, &pair, &create.comparison_id).await.unwrap();
    assert_eq!((shown.status, shown.error.unwrap().code.as_str()), (Status::Failed, "timeout"));
}

async fn hole_6_the_id_of_a_comparison_names_its_run_and_leads_to_its_pair(app: &TestApp) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    assert_eq!(pair_key_of(&id), Some(pair.as_str()));
    app.call(EnvPair::at(&pair), create).await.unwrap();
    ended(app, &pair, &id).await;
    let shown = find(app, &pair, &id).await.unwrap();
    let run = format!("{id}-{}", shown.sequence);
    app.runs().look(CompareEnvironments::NAME, &run).await.unwrap();
}

async fn hole_7_a_pair_has_a_database_of_its_own(app: &TestApp) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let third = Environment::start("three");
    let (one, first) = create(&left.url, &right.url, 1);
    let (two, second) = create(&left.url, &third.url, 1);
    app.call(EnvPair::at(&one), first.clone()).await.unwrap();
    app.call(EnvPair::at(&two), second.clone()).await.unwrap();
    ended(app, &one, &first.comparison_id).await;
    ended(app, &two, &second.comparison_id).await;
    assert_eq!((all(app, &one).await.len(), all(app, &two).await.len()), (1, 1));
    assert_eq!(find(app, &two, &first.comparison_id).await, None);
}

async fn hole_8_spellings_are_one_pair_and_directions_are_told_apart(app: &TestApp) {
    let (left, right) = (Environment::start("one"), Environment::start("two"));
    let shouted = left.url.replace("http", "HTTP");
    let (pair, first) = create(&left.url, &right.url, 1);
    let (same, second) = create(&format!("{shouted}?#part"), &right.url, 2);
    let (back, third) = create(&right.url, &left.url, 3);
    assert_eq!((&same, &back), (&pair, &pair));
    let mut compared_with = Vec::new();
    for create in [first, second, third] {
        let id = create.comparison_id.clone();
        app.call(EnvPair::at(&pair), create).await.unwrap();
        let result = ended(app, &pair, &id).await.result.unwrap();
        compared_with.push(result.trend.unwrap().compared_with);
    }
    assert_eq!(compared_with, [0, 1, 0]);
}

async fn hole_11_what_a_server_says_is_kept_within_limits(app: &TestApp) {
    let many: String = (0..150).map(|it| format!("x-{it}: {}\r\n", "y".repeat(400))).collect();
    let body = "z".repeat(3 << 20);
    let head = format!("HTTP/1.1 200 OK\r\n{many}content-length: {}\r\n", body.len());
    let left = Environment::answering(format!("{head}connection: close\r\n\r\n{body}"));
    let right = Environment::start("two");
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let shown = ended(app, &pair, &id).await;
    assert_eq!(shown.status, Status::Completed, "{:?}", shown.error);
    let envelope = shown.result.unwrap().left.unwrap();
    assert!(envelope.result.response().is_some(), "{:?}", envelope.result.failure());
    assert!(serde_json::to_string(&envelope).unwrap().len() < 200 << 10);
}

async fn hole_12_a_redirect_to_where_nobody_may_go_is_not_followed(app: &TestApp) {
    let to = "http://169.254.169.254/latest/meta-data/";
    let head = format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n");
    let left = Environment::answering(format!("{head}connection: close\r\n\r\n"));
    let right = Environment::start("two");
    let (pair, create) = create(&left.url, &right.url, 1);
    let id = create.comparison_id.clone();
    app.call(EnvPair::at(&pair), create).await.unwrap();
    let shown = ended(app, &pair, &id).await;
    assert_eq!(shown.status, Status::Completed);
    let envelope = shown.result.unwrap().left.unwrap();
    assert_eq!(envelope.result.failure().unwrap().error.code.as_str(), "ssrf_blocked");
}
