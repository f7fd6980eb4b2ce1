//! The routes below a prefix with a parameter: its value is not one of an operation.

use super::*;

const PAYROLL: Queue<String> = Queue::named("payroll");

/// Whether a queue is paused, and its number of messages.
async fn state(site: &Router, queue: &str) -> (bool, u64) {
    let found = text(answer(site, &format!("/acme/durable/v1/queues/{queue}")).await).await;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    (found["paused"] == true, found["depth"].as_u64().unwrap_or(0))
}

#[tokio::test]
async fn a_parameter_in_the_prefix_of_a_host_is_no_value_of_an_operation() {
    let program = App::new("host").queue(MAIL).queue(PAYROLL).test().await.unwrap();
    let scopes = vec!["queue:mail:send".parse().unwrap()];
    let spec = TokenSpec { scopes, ..TokenSpec::role(Role::Member) };
    let secret = program.tokens().create(spec, None).await.unwrap().secret;
    let principal = Arc::new(program.tokens().authenticate(&secret).await.unwrap());
    let durable = router(&program, Policy::HostDecides).unwrap();
    let site = Router::new().nest_service("/{tenant}/durable", durable);
    let known = site.clone().layer(Extension(object::Caller::Principal(principal)));
    for (prefix, queue, expected) in
        [("payroll", "mail", 201), ("a%2Fb", "mail", 201), ("mail", "payroll", 403)]
    {
        let path = format!("/{prefix}/durable/v1/queues/{queue}/messages");
        let response = post(&known, &path, None, r#"{"body": "x"}"#).await;
        assert_eq!(response.status(), expected, "{path}: {}", text(response).await);
    }
    let form = Request::post("/payroll/durable/queues/mail/pause").header("host", HOST);
    let response = ask(&site, form.body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), 303, "{}", text(response).await);
    assert_eq!(state(&site, "mail").await, (true, 2));
    assert_eq!(state(&site, "payroll").await, (false, 0));
}
