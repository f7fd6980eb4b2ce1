//! Rights of tokens: rates, scopes and organizations, and the end of all that a token has begun.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use serde_json::json;
use tungstenite::{client::IntoClientRequest, http::HeaderValue};

use super::{Holder, closed, folder};
use crate::harness::{Server, get_url};

/// A WebSocket to a chat.
fn socket(holder: &Holder<'_>) -> tungstenite::WebSocket<TcpStream> {
    let url = format!("ws://{}/v1/objects/chat/lobby/connect?name=ann", holder.server.host());
    let mut request = url.into_client_request().expect("a request");
    let bearer = HeaderValue::from_str(&holder.bearer).expect("a header");
    request.headers_mut().insert("authorization", bearer);
    tungstenite::client(request, holder.server.connect()).expect("it is accepted").0
}

#[test]
fn texts_beyond_the_rate_of_a_token_are_refused_and_later_ones_are_not() {
    let server = Server::with(folder(), &["--access", "closed", "--rate-limit", "50"]);
    let holder = Holder::new(&server, &json!({ "role": "member" }));
    let mut socket = socket(&holder);
    for _ in 0..300 {
        socket.send("ping".into()).expect("it is sent");
    }
    let mut read_to = |part: &str| {
        // At the rate of the token, that many texts would take more than three minutes.
        for _ in 0..10_000 {
            socket.send("ping".into()).expect("it is sent");
            let frame = socket.read().expect("the connection is open");
            if frame.is_text() && frame.to_text().expect("a text").contains(part) {
                return;
            }
        }
        panic!("no text has {part}");
    };
    read_to("pong");
    read_to("rate_limited");
    read_to("pong");
}

#[test]
fn a_revoked_token_ends_its_sockets_and_streams() {
    let server = closed();
    let holder = Holder::new(&server, &json!({ "role": "member" }));
    let mut socket = socket(&holder);
    let mut stream = server.connect();
    let ask = format!(
        "GET /v1/objects/chat/lobby/connect?name=bob HTTP/1.1\r\nHost: {}\r\nAuthorization: {}\r\n\
         Accept: text/event-stream\r\n\r\n",
        server.host(),
        holder.bearer
    );
    stream.write_all(ask.as_bytes()).expect("it is sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|it| it.contains("connected")), "it is accepted");
    holder.revoke();
    let closed = loop {
        if let tungstenite::Message::Close(frame) = socket.read().expect("a frame") {
            break frame.expect("a reason");
        }
    };
    assert_eq!(u16::from(closed.code), 1008);
    assert!(lines.any(|it| it.contains("revoked or has expired")), "the stream says why");
}

#[test]
fn presigned_urls_end_with_the_token_that_made_them() {
    let server = closed().logged_in();
    assert_eq!(server.put_json("/v1/buckets/files", &json!({})).status, 200);
    let blob = server.put_bytes("/v1/buckets/files/objects/a", b"bytes", &[]);
    assert_eq!(blob.status, 200, "{}", blob.body);
    let presign = |holder: &Holder<'_>, seconds: u32| {
        let body = json!({ "key": "a", "expiresSeconds": seconds });
        holder.post("/v1/buckets/files/presign", &body)
    };
    let url =
        |holder: &Holder<'_>| presign(holder, 60).json()["url"].as_str().expect("a URL").to_owned();
    let member = || Holder::new(&server, &json!({ "role": "member" }));
    let (revoked, rotated, last) = (member(), member(), member());
    let urls = [url(&revoked), url(&rotated), url(&last)];
    assert!(urls.iter().all(|it| get_url(it).body == "bytes"));
    revoked.revoke();
    let rotate = format!("/v1/tokens/{}/rotate", rotated.id);
    assert_eq!(Holder::admin(&server).post(&rotate, &json!({})).status, 201);
    assert_eq!(urls.each_ref().map(|it| get_url(it).status), [403, 403, 200]);
    // A URL cannot be signed anew for another token: the ids are no secrets, the keys are.
    let forged = urls[0].replace(&revoked.id, &last.id);
    assert_eq!(get_url(&forged).status, 403);
    let too_long = presign(&last, 24 * 60 * 60 + 1);
    too_long.assert_problem(400, "invalid_input");
    assert!(too_long.body.contains("24 hours"), "{}", too_long.body);
    assert_eq!(presign(&Holder::admin(&server), 7 * 24 * 60 * 60).status, 200);
}

#[test]
fn scopes_limit_a_token_to_its_resources() {
    let server = closed();
    let scopes = json!({ "role": "member", "scopes": ["queue:mail:send", "object:chat/*:call"] });
    let holder = Holder::new(&server, &scopes);
    let sent = holder.post("/v1/queues/mail/messages", &json!({ "body": 1 }));
    assert_eq!(sent.status, 201, "{}", sent.body);
    holder.post("/v1/queues/other/messages", &json!({})).assert_problem(403, "scope_needed");
    holder.get("/v1/queues/mail/messages").assert_problem(403, "scope_needed");
    holder.get("/v1/queues").assert_problem(403, "scope_needed");
    // An escaped slash is part of a name, not of the path.
    let tricked = holder.post("/v1/objects/counter%2Fx/chat/calls/increment", &json!({ "by": 1 }));
    tricked.assert_problem(403, "scope_needed");
    let wrong = Holder::admin(&server).post("/v1/tokens", &json!({ "scopes": ["mail:send"] }));
    assert_eq!(wrong.status, 400, "{}", wrong.body);
}

#[test]
fn scopes_limit_a_token_of_an_organization_to_its_routes() {
    let server = closed();
    let spec = |role: &str, scope: &str| {
        Holder::new(&server, &json!({ "organization": "acme", "role": role, "scopes": [scope] }))
    };
    let reader = spec("member", "route:api/organizations/acme/uploads*:read");
    let uploads = |organization: &str| format!("/api/organizations/{organization}/uploads");
    assert_eq!(reader.get(&uploads("acme")).status, 200);
    reader.post(&uploads("acme"), &json!({})).assert_problem(403, "scope_needed");
    reader.get(&uploads("other")).assert_problem(403, "scope_needed");
    reader.get("/api/organizations/acme%2Fuploads/uploads").assert_problem(403, "scope_needed");
    reader.get("/api/artifacts").assert_problem(403, "scope_needed");
    reader.get("/v1/queues").assert_problem(403, "role_needed");
    // A scope for everything reaches nothing of another organization.
    let wide = spec("member", "route:*:*");
    assert_eq!(wide.get(&uploads("acme")).status, 200);
    assert_eq!(wide.get(&uploads("other")).status, 404);
    wide.get("/").assert_problem(403, "role_needed");
    // On the platform it limits a token to pages, as a token for metrics.
    let metrics = json!({ "role": "viewer", "scopes": ["route:metrics:read"] });
    let metrics = Holder::new(&server, &metrics);
    assert_eq!(metrics.get("/metrics").status, 200);
    metrics.get("/openapi.json").assert_problem(403, "scope_needed");
    metrics.get("/v1/queues").assert_problem(403, "scope_needed");
}

#[test]
fn an_admin_of_an_organization_manages_its_tokens_and_nothing_else() {
    let server = closed();
    let acme = Holder::new(&server, &json!({ "organization": "acme", "role": "admin" }));
    let other = Holder::new(&server, &json!({ "organization": "other" }));
    let platform = Holder::new(&server, &json!({ "role": "viewer" }));
    let operator = acme.post("/v1/tokens", &json!({ "role": "operator" }));
    operator.assert_problem(400, "invalid_input");
    let foreign = acme.post("/v1/tokens", &json!({ "organization": "other" }));
    foreign.assert_problem(403, "role_needed");
    let made = acme.post("/v1/tokens", &json!({ "role": "viewer" }));
    assert_eq!((made.status, &made.json()["organization"]), (201, &json!("acme")), "{}", made.body);
    let made = made.json()["id"].as_str().expect("an id").to_owned();
    let listed = acme.get("/v1/tokens").json()["items"].clone();
    let listed = listed.as_array().expect("tokens").iter();
    let mut listed: Vec<_> = listed.map(|it| it["id"].as_str().expect("an id")).collect();
    listed.sort_unstable();
    let mut own = [&*made, &*acme.id];
    own.sort_unstable();
    assert_eq!(listed, own);
    for foreign in [&other.id, &platform.id] {
        let path = format!("/v1/tokens/{foreign}");
        acme.delete(&path).assert_problem(404, "token_not_found");
        let rotate = format!("{path}/rotate");
        acme.post(&rotate, &json!({})).assert_problem(404, "token_not_found");
        let overlap = json!({ "overlapHours": 1 });
        acme.post(&rotate, &overlap).assert_problem(404, "token_not_found");
    }
    assert_eq!(platform.get("/v1/queues").status, 200, "its secret is the same");
    let rotated = acme.post(&format!("/v1/tokens/{made}/rotate"), &json!({ "overlapHours": 1 }));
    assert_eq!((rotated.status, &rotated.json()["organization"]), (201, &json!("acme")));
    assert_eq!(acme.delete(&format!("/v1/tokens/{made}")).status, 200);
    let older = json!({ "before": "2100-01-01T00:00:00Z" });
    acme.post("/v1/tokens/revoke-older", &older).assert_problem(403, "role_needed");
    for path in ["/v1/keys", "/v1/audit", "/v1/quotas", "/v1/queues", "/"] {
        acme.get(path).assert_problem(403, "role_needed");
    }
    acme.post("/v1/keys", &json!({})).assert_problem(403, "role_needed");
    other.get("/v1/tokens").assert_problem(403, "role_needed");
    let scopes = json!({ "organization": "acme", "role": "admin", "scopes": ["route:*:*"] });
    let limited = Holder::new(&server, &scopes);
    limited.post("/v1/tokens", &json!({})).assert_problem(403, "scope_needed");
    let log = Holder::admin(&server).get("/v1/audit").body;
    assert!(log.contains(&acme.id) && log.contains("POST /v1/tokens/{id}/rotate"), "{log}");
}

#[test]
fn two_tokens_have_their_own_idempotency_keys() {
    let server = closed();
    let holder = |name: &str| {
        Holder::new(
            &server,
            &json!({ "role": "operator", "scopes": [], "expiresDays": name.len() }),
        )
    };
    let (one, other) = (holder("a"), holder("bb"));
    let path = "/v1/objects/counter/c/calls/increment";
    let call = |who: &Holder<'_>, by: i64| {
        who.post_with(path, &json!({ "by": by }), &[("idempotency-key", "k")])
    };
    assert_eq!(call(&one, 3).body, "3");
    assert_eq!(call(&other, 5).body, "8");
    assert_eq!(call(&one, 3).body, "3", "a repetition");
    call(&other, 6).assert_problem(409, "key_reused");
}

#[test]
fn organizations_see_only_their_own_comparisons_and_generations() {
    let server = closed();
    let member = |name: &str| Holder::new(&server, &json!({ "organization": name }));
    let (acme, other) = (member("acme"), member("other"));
    let urls = json!({ "leftUrl": format!("{}/api/demo/staging", server.url),
        "rightUrl": format!("{}/api/demo/production", server.url) });
    let begun = acme.post("/api/compare", &urls);
    if begun.status != 202 {
        // Loopback addresses may be refused; the identity of the pair does not depend on them.
        assert_eq!(begun.status, 422, "{}", begun.body);
        return;
    }
    let begun = begun.json();
    let (id, pair) = (begun["comparisonId"].as_str().unwrap(), begun["pairKey"].as_str().unwrap());
    assert_eq!(acme.get(&format!("/api/compare/{id}")).status, 200);
    assert_eq!(acme.get("/api/pairs").json()["items"].as_array().unwrap().len(), 1);
    assert_eq!(other.get(&format!("/api/compare/{id}")).status, 404);
    assert_eq!(other.get(&format!("/api/compare/{id}/events")).status, 404);
    assert_eq!(other.get(&format!("/api/pairs/{pair}/comparisons")).status, 404);
    assert!(other.get("/api/pairs").json()["items"].as_array().unwrap().is_empty());
    let workspace = other.get("/api/generations?workspace=acme");
    workspace.assert_problem(404, "workspace_not_found");
    let body = json!({ "workspace": "acme", "model": "embedded:image", "input": {} });
    let created = other.post("/api/generations", &body);
    assert!(400 <= created.status && created.status < 500, "{}", created.body);
}
