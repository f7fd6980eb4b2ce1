//! Callers: what handlers and the audit log learn of them, and what each may take.

use super::*;

#[tokio::test]
async fn a_turn_distinguishes_a_caller_from_the_program_itself() {
    let program = App::new("host").object(Porter).routes("/porter", porter_routes);
    let program = program.test().await.unwrap();
    let site = router(&program, Policy::HostDecides).unwrap();
    assert_eq!(text(answer(&site, "/porter/outside").await).await, "\"Anonymous\"");
    assert_eq!(text(answer(&site, "/porter/inside").await).await, "\"Internal\"");
    // A host program that knows its callers sets them.
    let known = site.layer(Extension(object::Caller::Internal));
    assert_eq!(text(answer(&known, "/porter/outside").await).await, "\"Internal\"");
    let own = router(&program, Policy::Loopback).unwrap();
    let own = own.layer(Extension(object::Caller::Internal));
    let request = Request::get("/porter/outside").header("host", "localhost");
    let response = ask(&own, request.body(Body::empty()).unwrap()).await;
    assert_eq!(text(response).await, "\"Anonymous\"");
}

#[tokio::test]
async fn a_turn_sees_the_principal_of_its_caller() {
    let program = App::new("host").object(Porter).routes("/porter", porter_routes);
    let program = program.test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let member = program.tokens().create(TokenSpec::member("acme"), None).await.unwrap();
    let shown = text(bearing(&site, "GET", "/porter/outside", &member.secret).await).await;
    for part in ["Principal", &member.token.id, "acme", "Member"] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    assert!(!shown.contains(&member.secret), "{shown}");
    // By the API of the server.
    let operator = program.tokens().create(TokenSpec::role(Role::Operator), None).await.unwrap();
    let call = "/v1/objects/porter/a/calls/ask";
    let shown = text(bearing(&site, "POST", call, &operator.secret).await).await;
    assert!(shown.contains(&operator.token.id) && shown.contains("Operator"), "{shown}");
    // A route that acts as the program itself.
    let shown = text(bearing(&site, "GET", "/porter/inside", &operator.secret).await).await;
    assert_eq!(shown, "\"Internal\"");
}

#[tokio::test]
async fn the_audit_log_has_changes_by_routes_of_applications_and_no_calls() {
    fn shop() -> Routes {
        let member = Needs::of_organization(Role::Member);
        Routes::new("shop")
            .delete("/things/{id}", member, "Deletes", async || "")
            .post("/orders", member, "Orders", async || {
                Problem::of(steadfast_api::Code::BadRequest, "some were stored").into_response()
            })
            .post("/carts", member, "Empties", async || {
                Problem::not_found("cart_not_found", "no").into_response()
            })
            .post("/clicks", member.unrecorded(), "Counts", async || "")
            .get("/things", Needs::of_organization(Role::Viewer), "Lists", async || "")
    }
    let program = App::new("host").object(Porter).queue(MAIL).routes("/shop", shop);
    let program = program.test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let create = async |spec| program.tokens().create(spec, None).await.unwrap();
    let acme = create(TokenSpec::member("acme")).await;
    let member = create(TokenSpec::role(Role::Member)).await;
    // The first request closes access.
    assert_eq!(bearing(&site, "GET", "/shop/things", &acme.secret).await.status(), 200);
    // A task of its own writes the use of the token.
    let uses = async || program.tokens().list(None, 9).await.unwrap();
    while uses().await.iter().all(|it| it.last_used_at.is_none()) {
        tokio::task::yield_now().await;
    }
    let commits = program.store().activity().commits;
    let deleted = bearing(&site, "DELETE", "/shop/things/t-1", &acme.secret).await;
    assert_eq!(deleted.status(), 200);
    assert_eq!(program.store().activity().commits, commits + 1, "its record");
    for (method, path) in [("POST", "/shop/clicks"), ("GET", "/shop/things")] {
        assert_eq!(bearing(&site, method, path, &acme.secret).await.status(), 200, "{path}");
    }
    assert_eq!(program.store().activity().commits, commits + 1);
    // Requests without an effect have a budget; others may have had one.
    for _ in 0..30 {
        assert_eq!(bearing(&site, "POST", "/shop/orders", &acme.secret).await.status(), 400);
        assert_eq!(bearing(&site, "POST", "/shop/carts", &acme.secret).await.status(), 404);
    }
    // Calls and sends of members are data.
    for path in ["/v1/objects/porter/a/calls/ask", "/v1/queues/mail/messages"] {
        let answer = bearing(&site, "POST", path, &member.secret).await;
        assert!(answer.status() != 403 && answer.status() != 401, "{path}");
    }
    bearing(&site, "POST", "/v1/queues/mail/purge", &member.secret).await;
    let records = program.audit().list(None, 99).await.unwrap();
    let count = |action: &str| records.iter().filter(|it| it.event.action == action).count();
    let first = records.last().unwrap();
    assert_eq!((&*first.event.action, &*first.event.outcome), ("DELETE /shop/things/{id}", "200"));
    assert_eq!(first.event.target, "/shop/things/t-1");
    assert_eq!(first.event.token.as_ref(), Some(&acme.token.id));
    assert_eq!(count("POST /shop/orders"), 30);
    let carts = count("POST /shop/carts");
    assert!((20..30).contains(&carts), "{carts}");
    assert_eq!(count("POST /v1/queues/{queue}/purge"), 1, "refused");
    assert_eq!(records.len(), 2 + 30 + carts);
}

#[tokio::test]
async fn bodies_without_a_credential_have_little_memory_and_block_no_token() {
    fn open() -> Routes {
        Routes::new("open").post("/read", Needs::NOTHING, "Reads", async |_: Bytes| "read")
    }
    let program = App::new("host").routes("/open", open).test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let member = program.tokens().create(TokenSpec::role(Role::Member), None).await.unwrap();
    // The first request closes access.
    assert_eq!(bearing(&site, "POST", "/open/read", &member.secret).await.status(), 200);
    let waiting = Arc::new(AtomicUsize::new(0));
    let unfinished = || {
        let (waiting, mut is_counted) = (waiting.clone(), false);
        let first = stream::once(ready(Ok::<_, Infallible>(vec![b'x'; 1 << 20])));
        let rest = stream::poll_fn(move |_| {
            let was_counted = std::mem::replace(&mut is_counted, true);
            waiting.fetch_add(usize::from(!was_counted), Ordering::Relaxed);
            Poll::Pending
        });
        Body::from_stream(first.chain(rest))
    };
    let send = |body: Body| {
        let request = Request::post("/open/read").header("host", "localhost");
        site.clone().oneshot(request.body(body).unwrap())
    };
    let slow: Vec<_> = (0..16).map(|_| tokio::spawn(send(unfinished()))).collect();
    while waiting.load(Ordering::Relaxed) < slow.len() {
        tokio::task::yield_now().await;
    }
    let refused = text(send(Body::from(vec![b'x'; 4_097])).await.unwrap()).await;
    assert!(refused.contains("\"busy\""), "{refused}");
    let small = send(Body::from(vec![b'x'; 4_096])).await.unwrap();
    assert_eq!(small.status(), 200, "a login has no more bytes");
    assert_eq!(bearing(&site, "POST", "/open/read", &member.secret).await.status(), 200);
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_token_takes_at_most_half_of_the_places_of_exports() {
    let program = App::new("host").object(Porter).test().await.unwrap();
    program.call(Porter::at("a"), Ask).await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let create = async || program.tokens().create(TokenSpec::role(Role::Viewer), None).await;
    let (one, other) = (create().await.unwrap(), create().await.unwrap());
    let path = "/v1/objects/porter/a/export";
    let export = async |token: &str| bearing(&site, "GET", path, token).await;
    // A response holds its place until its body is dropped.
    let held = [export(&one.secret).await, export(&one.secret).await];
    assert!(held.iter().all(|it| it.status() == 200));
    let (third, another) = tokio::join!(export(&one.secret), export(&other.secret));
    assert_eq!((third.status().as_u16(), another.status().as_u16()), (429, 200));
    drop(held);
    assert_eq!(export(&one.secret).await.status(), 200);
}

#[tokio::test]
async fn refusals_of_one_network_share_a_budget_and_displace_no_change() {
    fn shop() -> Routes {
        Routes::new("shop").delete("/things/{id}", Role::Operator, "Deletes", async || "")
    }
    let program = App::new("host").routes("/shop", shop).test().await.unwrap();
    let runtime = (*program).clone();
    let server = Arc::new(Server::new(runtime, Location::Host, Policy::Loopback));
    let site = app::router(server.clone()).unwrap();
    let admin = program.tokens().create(TokenSpec::role(Role::Admin), None).await.unwrap();
    // The first request closes access.
    assert_eq!(bearing(&site, "GET", "/v1/queues", &admin.secret).await.status(), 200);
    let log_in = async |address: &str| {
        let request = Request::post("/login").header("host", "localhost");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let mut request = request.body(Body::from("token=wrong")).unwrap();
        let peer = address.parse().unwrap();
        let client = ClientInfo::direct(peer, Scheme::Http, request.uri(), request.headers());
        request.extensions_mut().insert(ConnectionInfo::of(client).await);
        ask(&site, request).await.status().as_u16()
    };
    let records = async || {
        let records = program.audit().list(None, 999).await.unwrap();
        records.into_iter().map(|it| it.event).collect::<Vec<_>>()
    };
    let wait = async || {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(90)).await;
        tokio::time::resume();
    };
    // A client has all addresses of an IPv6 network. One record has the number of the others.
    let lost = |_| u64::from(server.rates.record_refusal(None, "2001:db8::").is_none());
    let lost: u64 = (0..60).map(lost).sum();
    wait().await;
    assert_eq!(log_in("2001:db8::7").await, 401);
    assert_eq!(records().await[0].repeated, Some(lost));
    // Nothing is left for refusals. A change is recorded.
    for it in 0..1_000 {
        server.rates.record_refusal(None, &it.to_string());
        server.rates.record_refusal(Some(&it.to_string()), "");
    }
    for _ in 0..3 {
        assert_eq!(log_in("203.0.113.9").await, 401);
    }
    assert_eq!(bearing(&site, "DELETE", "/shop/things/t-1", &admin.secret).await.status(), 200);
    let known = records().await;
    assert_eq!((known.len(), &*known[0].action), (2, "DELETE /shop/things/{id}"));
    wait().await;
    assert_eq!(log_in("203.0.113.9").await, 401);
    assert_eq!(records().await[0].repeated, Some(3));
}

#[tokio::test]
async fn a_new_token_is_answered_although_that_of_the_machine_cannot_be_written() {
    let (program, data) = (App::new("host").test().await.unwrap(), tempfile::tempdir().unwrap());
    let mut server = Server::new((*program).clone(), Location::Host, Policy::Loopback);
    server.data = Some(data.path().to_owned());
    let server = Arc::new(server);
    let site = app::router(server.clone()).unwrap();
    let obstacle = data.path().join("admin.token.part");
    std::fs::create_dir(&obstacle).unwrap();
    let created = post(&site, "/v1/tokens", None, r#"{"role": "admin"}"#).await;
    assert_eq!(created.status(), 201);
    let id = created.headers()["x-request-id"].to_str().unwrap().to_owned();
    let created: serde_json::Value = serde_json::from_str(&text(created).await).unwrap();
    let token = created["token"].as_str().unwrap();
    // The token that has closed access has a record, too.
    let newest = program.audit().list(None, 1).await.unwrap().pop().unwrap().event;
    assert_eq!((&*newest.action, &*newest.outcome), ("POST /v1/tokens", "201"));
    assert_eq!(newest.request_id, id, "that of the response");
    assert!(newest.detail.unwrap().contains("role admin"));
    std::fs::remove_dir(&obstacle).unwrap();
    let id = server.close_access().await.unwrap().unwrap().id;
    // A new secret would not be in the file.
    for body in ["{}", r#"{"overlapHours": 1}"#] {
        let rotated = post(&site, &format!("/v1/tokens/{id}/rotate"), Some(token), body).await;
        assert_eq!(rotated.status(), 409);
    }
    assert_eq!(bearing(&site, "DELETE", &format!("/v1/tokens/{id}"), token).await.status(), 200);
    let written = std::fs::read_to_string(data.path().join("admin.token")).unwrap();
    assert_ne!(program.tokens().by_secret(written.trim()).await.unwrap().id, id);
    let older = r#"{"before": "2100-01-01T00:00:00Z"}"#;
    assert_eq!(post(&site, "/v1/tokens/revoke-older", Some(token), older).await.status(), 200);
    let newest = program.audit().list(None, 1).await.unwrap().pop().unwrap().event;
    assert_eq!(newest.detail.unwrap(), "before 2100-01-01T00:00:00.000Z: 2 tokens, 0 access keys");
}

#[tokio::test]
async fn an_admin_of_an_organization_revokes_expired_tokens_and_changes_few_per_second() {
    let program = App::new("host").test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let day = Duration::from_hours(24);
    let create = async |spec| program.tokens().create(spec, None).await.unwrap();
    let admin = create(TokenSpec { role: Role::Admin, ..TokenSpec::member("acme") }).await.secret;
    let short = TokenSpec { expires_in: Some(day), ..TokenSpec::member("acme") };
    let (expired, member) = (create(short).await.token.id, create(TokenSpec::member("acme")).await);
    program.advance(2 * day).await;
    let expired = format!("/v1/tokens/{expired}");
    assert_eq!(bearing(&site, "DELETE", &expired, &admin).await.status(), 200);
    let path = format!("/v1/tokens/{}/rotate", member.token.id);
    let rotate = async || post(&site, &path, Some(&admin), r#"{"overlapHours": 1}"#).await;
    assert_eq!(rotate().await.status(), 201);
    let again = text(rotate().await).await;
    assert!(again.contains("\"conflict\"") && again.contains("was replaced by"), "{again}");
    let mut statuses = Vec::new();
    while !statuses.contains(&429) && statuses.len() < 1_000 {
        statuses.push(rotate().await.status().as_u16());
    }
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn an_access_key_that_was_replaced_is_not_rotated_again() {
    let program = App::new("host").test().await.unwrap();
    let site = router(&program, Policy::Loopback).unwrap();
    let sent = async |path: &str, body: &str| {
        let response = post(&site, path, None, body).await;
        let status = response.status().as_u16();
        (status, serde_json::from_str::<serde_json::Value>(&text(response).await).unwrap())
    };
    let (_, old) = sent("/v1/keys", "{}").await;
    let old = old["accessKeyId"].as_str().unwrap();
    let rotate = format!("/v1/keys/{old}/rotate");
    let (status, new) = sent(&rotate, r#"{"overlapHours": 1}"#).await;
    assert_eq!(status, 201, "{new}");
    let (status, again) = sent(&rotate, r#"{"overlapHours": 1}"#).await;
    assert_eq!((status, &again["code"]), (409, &serde_json::json!("conflict")), "{again}");
    let by = format!("`{old}` was replaced by `{}`", new["accessKeyId"].as_str().unwrap());
    assert!(again["detail"].as_str().unwrap().contains(&by), "{again}");
}
