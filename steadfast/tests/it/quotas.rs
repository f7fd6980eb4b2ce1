//! Quotas of organizations, over HTTP, from the command line, in the console and in `doctor`.

use serde_json::json;

use crate::harness::{Server, assert_fails_with, assert_usage_error, stdout};

#[test]
fn a_quota_is_set_shown_enforced_and_removed() {
    let server = Server::empty();
    server.put_json("/v1/buckets/photos", &json!({}));
    let put = |key: &str, len: usize| {
        server.put_bytes(&format!("/v1/buckets/photos/objects/{key}"), &vec![1; len], &[])
    };
    assert_eq!(put("acme/before", 30).status, 200);
    let set = ["quotas", "set", "acme", "--bytes", "1kB", "--objects", "2", "--spend", "12.5"];
    let told = stdout(&server.ask(&set));
    assert!(told.contains("set the quota of organization acme"), "{told}");
    let shown = server.json_until("/v1/quotas/acme", |it| it["isCounting"] == false);
    assert_eq!(shown["bytes"], json!({ "used": 30, "limit": 1_000 }));
    assert_eq!(shown["objects"], json!({ "used": 1, "limit": 2 }));
    assert_eq!(shown["spendMicros"], json!({ "used": 0, "limit": 12_500_000 }));

    put("acme/large", 1_001).assert_problem(413, "quota_too_large");
    put("acme/large", 971).assert_problem(507, "quota_bytes");
    assert_eq!(put("acme/large", 970).status, 200);
    put("acme/empty", 0).assert_problem(507, "quota_objects");
    assert_eq!(put("other/large", 2_000).status, 200);
    let told = stdout(&server.ask(&["quotas", "show", "acme"]));
    assert!(told.contains("1000 of 1000") && told.contains("$0.00 of $12.50"), "{told}");
    let checked = stdout(&server.ask(&["doctor"]));
    assert!(checked.contains("acme (bytes, objects)"), "{checked}");
    let page = server.get("/quotas").body;
    assert!(page.contains("<meter aria-label=\"bytes\"") && page.contains("acme"), "{page}");
    // Deleting is always possible, and makes room.
    assert_eq!(server.delete("/v1/buckets/photos/objects/acme/before").status, 200);
    assert_eq!(put("acme/empty", 0).status, 200);

    assert_eq!(server.put_json("/v1/quotas/beta", &json!({ "objects": 0 })).status, 200);
    let page = server.json("/v1/quotas?limit=1");
    let names = |it: &serde_json::Value| it["items"][0]["organization"].clone();
    assert_eq!(names(&page), "acme");
    let next = page["next"].as_str().unwrap().to_owned();
    assert_eq!(names(&server.json(&format!("/v1/quotas?cursor={next}"))), "beta");
    let listed = stdout(&server.ask(&["quotas", "list"]));
    assert!(listed.contains("970 of 1000") && listed.contains("0 of no limit"), "{listed}");

    let removed = stdout(&server.ask(&["quotas", "remove", "acme", "--yes"]));
    assert_eq!(removed, "removed the quota of organization acme\n");
    assert_eq!(put("acme/large", 5_000).status, 200);
    server.get("/v1/quotas/acme").assert_problem(404, "quota_not_found");
    assert_fails_with(&server.ask(&["quotas", "show", "acme"]), &["acme", "quota_not_found"]);
    let bad = server.put_json("/v1/quotas/artifacts", &json!({}));
    bad.assert_problem(400, "invalid_name");
    assert_usage_error(&server.ask(&["quotas", "set", "acme", "--bytes", "much"]), &["10GiB"]);
}

#[test]
fn a_spent_quota_refuses_new_generations_until_the_next_month() {
    let server = Server::empty();
    let ask = |workspace: &str, key: &str| {
        let input = json!({ "positivePrompt": "a boat", "width": 64, "height": 64 });
        let body = json!({ "model": "embedded:art@1", "input": input, "workspace": workspace });
        let key = [("idempotency-key", key)];
        server.post_json("/api/generations", &body.to_string(), &key)
    };
    let begun = ask("acme", "one");
    assert_eq!(begun.status, 202, "{}", begun.body);
    assert_eq!(server.put_json("/v1/quotas/acme", &json!({ "spendMicros": 0 })).status, 200);
    let refused = ask("acme", "two");
    refused.assert_problem(429, "quota_spend");
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=31 * 24 * 3_600).contains(&seconds), "{seconds}");
    // Accepted requests are finished, and a repetition gets the same answer.
    assert_eq!(ask("acme", "one").body, begun.body);
    assert_eq!(ask("other", "two").status, 202);
    assert_eq!(server.delete("/v1/quotas/acme").status, 200);
    assert_eq!(ask("acme", "two").status, 202);
}
