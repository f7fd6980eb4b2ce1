//! `Idempotency-Key` on every POST: a repeated request gets the same response and is applied once;
//! another request with the same key is refused.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    classifier::{BLUE, RED, form, picture},
    cluster::Cluster,
    harness::{Answer, Server, stderr, stdout},
};

/// The response to a repetition.
enum Repeat {
    /// The first response.
    Same,
    /// A refusal that names the created item: the response had a secret.
    Secret,
    /// A new response: it is a read.
    Ignored,
    /// The same refusal: nothing was applied, so nothing is recorded.
    Refused(&'static str),
}

/// A request: its path, its body, and the type of the body.
#[derive(Clone)]
struct Request(String, Vec<u8>, String);

fn request(path: impl Into<String>, body: &Value) -> Request {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Request(path.into(), body.into(), "application/json".into())
}

/// A server, and the routes that were tried.
struct Walk {
    server: Server,
    tried: BTreeSet<&'static str>,
    /// The header of requests after access was closed.
    bearer: Option<String>,
}

impl Walk {
    fn send(&self, it: &Request, key: &str) -> Answer {
        let mut headers = vec![("content-type", it.2.as_str()), ("idempotency-key", key)];
        headers.extend(self.authorization());
        self.server.post_bytes(&it.0, &it.1, &headers)
    }

    fn authorization(&self) -> Option<(&str, &str)> {
        self.bearer.as_deref().map(|it| ("authorization", it))
    }

    fn json(&self, path: &str) -> Value {
        let headers: Vec<_> = self.authorization().into_iter().collect();
        self.server.get_with(path, &headers).json()
    }

    /// A request without a key, as preparation.
    fn prepare(&self, path: &str, body: &Value) -> Value {
        let answer = self.server.post_json(path, &body.to_string(), &[]);
        assert!(answer.status < 300, "{path}: {}", answer.body);
        answer.json()
    }

    /// Sends a request twice with one key, and another one with the same key. The body is the first
    /// response.
    #[track_caller]
    fn post(&mut self, route: &'static str, one: &Request, other: &Request, then: Repeat) -> Value {
        assert!(self.tried.insert(route), "{route} is tried twice");
        let (first, second) = (self.send(one, route), self.send(one, route));
        if let Repeat::Refused(code) = then {
            first.assert_problem(409, code);
            second.assert_problem(409, code);
            return first.json();
        }
        assert!(first.status < 300, "{route}: {}", first.body);
        let third = self.send(other, route);
        match then {
            Repeat::Same => {
                assert_eq!((second.status, &second.body), (first.status, &first.body), "{route}");
                third.assert_problem(409, "key_reused");
            }
            Repeat::Secret => {
                second.assert_problem(409, "key_reused");
                third.assert_problem(409, "key_reused");
            }
            Repeat::Ignored => assert_eq!((second.status, third.status), (200, 200), "{route}"),
            Repeat::Refused(_) => {}
        }
        first.json()
    }
}

#[test]
fn every_post_is_applied_once_per_key() {
    every_post(Server::empty());
}

#[test]
fn every_post_is_applied_once_per_key_on_postgres() {
    let cluster = Cluster::start();
    let folder = tempfile::tempdir().expect("a folder");
    every_post(Server::with(folder, &["--store", &cluster.url]));
}

#[test]
fn a_repetition_after_a_kill_gets_the_recorded_answer() {
    let mut server = Server::empty();
    let send = json!({ "messages": [{ "body": 1 }, { "body": 2 }, { "body": 3 }] });
    assert_eq!(server.post_json("/v1/queues/q/messages", &send.to_string(), &[]).status, 201);
    let order = json!({ "input": { "orderId": "o", "amount": 5 } }).to_string();
    let requests = [
        ("/v1/queues/q/messages/pull", r#"{"batchSize": 1}"#),
        ("/v1/queues/q/purge", "{}"),
        ("/v1/queues/q/pause", ""),
        ("/v1/workflows/order/runs", &*order),
    ];
    let ask = |server: &Server| {
        let ask = |it: &(&str, &str)| server.post_json(it.0, it.1, &[("idempotency-key", "k")]);
        requests.map(|it| ask(&it)).map(|it| (it.status, it.body))
    };
    let first = ask(&server);
    let id = |body: &str| serde_json::from_str::<Value>(body).unwrap()["id"].clone();
    for _ in 0..2 {
        server = Server::on(server.kill());
        let again = ask(&server);
        assert_eq!(again[..3], first[..3]);
        assert_eq!(id(&again[3].1), id(&first[3].1), "the same run, which may be further");
    }
    let list = server.json("/v1/workflows/order/runs");
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
}

#[test]
fn the_command_line_accepts_the_same_keys() {
    let server = Server::empty();
    server.post_json("/v1/queues/q/messages", r#"{"body": 1}"#, &[]);
    let ask = |args: &[&str]| {
        let output = server.ask(&[args, &["--idempotency-key", "k", "--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    let first = ask(&["queues", "pause", "q"]);
    assert_eq!(server.post("/v1/queues/q/resume", &[]).status, 200);
    assert_eq!(ask(&["queues", "pause", "q"]), first);
    assert_eq!(server.json("/v1/queues/q")["paused"], false);
    let purge = ["queues", "purge", "q", "--yes"];
    assert_eq!(ask(&purge), ask(&purge));
    let reused = server.post("/v1/queues/q/purge", &[("idempotency-key", "k")]);
    assert_eq!(reused.json()["purged"], 1, "the key of the command line is that of the request");
}

fn every_post(server: Server) {
    let mut walk = Walk { server, tried: BTreeSet::new(), bearer: None };
    objects_and_processes(&mut walk);
    queues(&mut walk);
    dead_messages(&mut walk);
    runs(&mut walk);
    buckets(&mut walk);
    generations_and_drift(&mut walk);
    uploads(&mut walk);
    // From here on every request needs a token.
    secrets(&mut walk);
    // A repetition gives another secret or link, or revokes nothing more.
    walk.tried.extend(["/v1/tokens/{id}/rotate", "/v1/keys/{id}/rotate", "/v1/login-links"]);
    walk.tried.insert("/v1/tokens/revoke-older");
    // Providers may repeat callbacks freely: a task ends once.
    walk.tried.insert("/webhooks/{provider}/{generation}/{task}/{token}");
    let described = walk.json("/openapi.json");
    let paths = described["paths"].as_object().expect("paths");
    let is_post = |it: &Value| it["post"].is_object() && it["post"]["tags"][0] != "pages";
    let posts: BTreeSet<&str> =
        paths.iter().filter(|it| is_post(it.1)).map(|it| it.0.as_str()).collect();
    assert_eq!(posts, walk.tried, "try each POST in this test");
    let ignore = [
        "/v1/objects/{class}/{name}/sql",
        "/v1/buckets/{bucket}/presign",
        "/v1/tokens/{id}/rotate",
        "/v1/tokens/revoke-older",
        "/v1/keys/{id}/rotate",
        "/v1/login-links",
        "/webhooks/{provider}/{generation}/{task}/{token}",
    ];
    for path in posts {
        let parameters = paths[path]["post"]["parameters"].to_string();
        let takes_key = parameters.contains("Idempotency-Key");
        assert_eq!(takes_key, !ignore.contains(&path), "{path}: {parameters}");
    }
}

fn objects_and_processes(walk: &mut Walk) {
    let call = "/v1/objects/counter/visits/calls/increment";
    walk.post(
        "/v1/objects/{class}/{name}/calls/{message}",
        &request(call, &json!({ "by": 1 })),
        &request(call, &json!({ "by": 2 })),
        Repeat::Same,
    );
    let value = walk.server.post_json("/v1/objects/counter/visits/calls/read", "", &[]);
    assert_eq!(value.body, "1");
    let sql = "/v1/objects/counter/visits/sql";
    walk.post(
        "/v1/objects/{class}/{name}/sql",
        &request(sql, &json!({ "sql": "SELECT 1" })),
        &request(sql, &json!({ "sql": "SELECT 2" })),
        Repeat::Ignored,
    );
    let input = |guest: &str| {
        let data = json!({ "groupCheckoutId": "g-1", "clerkId": "c",
            "guestStayAccountIds": [guest], "now": 1 });
        request(
            "/v1/processes/group-checkout/g-1/inputs",
            &json!({ "type": "InitiateGroupCheckout", "data": data }),
        )
    };
    let route = "/v1/processes/{name}/{id}/inputs";
    walk.post(route, &input("a"), &input("b"), Repeat::Same);
}

fn depth(walk: &Walk, queue: &str) -> Value {
    walk.server.json(&format!("/v1/queues/{queue}"))["depth"].clone()
}

fn queues(walk: &mut Walk) {
    let send = "/v1/queues/q/messages";
    walk.post(
        "/v1/queues/{queue}/messages",
        &request(send, &json!({ "body": 1 })),
        &request(send, &json!({ "body": 2 })),
        Repeat::Same,
    );
    assert_eq!(depth(walk, "q"), 1);
    walk.prepare("/v1/queues/other/messages", &json!({ "body": 1 }));
    let verb =
        |queue: &str, verb: &str| request(format!("/v1/queues/{queue}/{verb}"), &Value::Null);
    let pause = (verb("q", "pause"), verb("other", "pause"));
    let paused = walk.post("/v1/queues/{queue}/pause", &pause.0, &pause.1, Repeat::Same);
    assert_eq!(paused["paused"], true);
    let resume = (verb("q", "resume"), verb("other", "resume"));
    let resumed = walk.post("/v1/queues/{queue}/resume", &resume.0, &resume.1, Repeat::Same);
    assert_eq!(resumed["paused"], false);
    let again = walk.send(&pause.0, "/v1/queues/{queue}/pause");
    assert_eq!(again.json(), paused, "the answer to the first pause");
    assert_eq!(walk.server.json("/v1/queues/q")["paused"], false, "a repetition does not pause");
    let pull = "/v1/queues/q/messages/pull";
    walk.prepare(send, &json!({ "messages": [{ "body": 3 }, { "body": 4 }] }));
    let pulled = walk.post(
        "/v1/queues/{queue}/messages/pull",
        &request(pull, &json!({ "batchSize": 2 })),
        &request(pull, &json!({ "batchSize": 1 })),
        Repeat::Same,
    );
    assert_eq!(walk.server.json("/v1/queues/q")["inFlight"], 2);
    let (ack, lease) = ("/v1/queues/q/messages/ack", &pulled["items"][0]["leaseId"]);
    let acked = walk.post(
        "/v1/queues/{queue}/messages/ack",
        &request(ack, &json!({ "acks": [{ "leaseId": lease }] })),
        &request(ack, &json!({ "retries": [{ "leaseId": lease }] })),
        Repeat::Same,
    );
    assert_eq!(acked, json!({ "acked": 1, "retried": 0, "lost": [] }));
    let sent = walk.prepare(send, &json!({ "body": "wrong" }))["ids"][0].clone();
    let edit = format!("/v1/queues/q/messages/{}/edit", sent.as_str().expect("an id"));
    walk.post(
        "/v1/queues/{queue}/messages/{id}/edit",
        &request(&edit, &json!({ "body": "right" })),
        &request(&edit, &json!({ "body": "other" })),
        Repeat::Same,
    );
    assert_eq!(depth(walk, "q"), 3);
    let redrive = "/v1/queues/other/redrive";
    let moved = walk.post(
        "/v1/queues/{queue}/redrive",
        &request(redrive, &json!({ "to": "q" })),
        &request(redrive, &json!({ "to": "third" })),
        Repeat::Same,
    );
    assert_eq!((&moved["moved"], depth(walk, "q")), (&json!(1), json!(4)));
    let purge = "/v1/queues/q/purge";
    let purged = walk.post(
        "/v1/queues/{queue}/purge",
        &request(purge, &json!({})),
        &request(purge, &json!({ "state": "dead" })),
        Repeat::Same,
    );
    assert_eq!((&purged["purged"], depth(walk, "q")), (&json!(3), json!(1)));
    walk.prepare(send, &json!({ "body": "later" }));
    assert_eq!(walk.send(&request(purge, &json!({})), "/v1/queues/{queue}/purge").json(), purged);
    assert_eq!(depth(walk, "q"), 2, "what was sent since stays");
}

/// A message without attempts left.
fn dead(walk: &Walk) -> String {
    let sent = walk.prepare("/v1/queues/strict/messages", &json!({ "body": 1 }));
    let pulled = walk.prepare("/v1/queues/strict/messages/pull", &json!({ "batchSize": 1 }));
    let retry = json!({ "retries": [{ "leaseId": pulled["items"][0]["leaseId"] }] });
    walk.prepare("/v1/queues/strict/messages/ack", &retry);
    sent["ids"][0].as_str().expect("an id").to_owned()
}

fn dead_messages(walk: &mut Walk) {
    walk.server.put_json("/v1/queues/strict", &json!({ "maxRetries": 0 }));
    let ids = [dead(walk), dead(walk)];
    let revive = ids.map(|it| request(format!("/v1/messages/{it}/revive"), &Value::Null));
    walk.post("/v1/messages/{message}/revive", &revive[0], &revive[1], Repeat::Same);
    assert_eq!(walk.server.json("/v1/queues/strict")["dead"], 1);
}

fn runs(walk: &mut Walk) {
    let start = "/v1/workflows/invoice/runs?wait=20";
    let invoice = |name: &str| {
        let input = json!({ "customer": name, "amounts": [1] });
        request(start, &json!({ "input": input }))
    };
    let route = "/v1/workflows/{workflow}/runs";
    let started = walk.post(route, &invoice("Ada"), &invoice("Bob"), Repeat::Same);
    assert_eq!((&started["created"], &started["status"]), (&json!(true), &json!("complete")));
    let list = walk.server.json("/v1/workflows/invoice/runs");
    assert_eq!(list["items"].as_array().expect("a list").len(), 1, "{list}");
    for id in ["o-1", "o-2"] {
        let input = json!({ "orderId": id, "amount": 500 });
        walk.prepare("/v1/workflows/order/runs", &json!({ "id": id, "input": input }));
        let path = format!("/v1/workflows/order/runs/{id}");
        walk.server.json_until(&path, |it| it["status"] == "waiting");
    }
    let run = "/v1/workflows/order/runs/o-1";
    let event = format!("{run}/events/other");
    walk.post(
        "/v1/workflows/{workflow}/runs/{id}/events/{event}",
        &request(&event, &json!({ "amount": 1 })),
        &request(&event, &json!({ "amount": 2 })),
        Repeat::Same,
    );
    let events = walk.server.json(run)["events"].clone();
    assert_eq!(events.as_array().expect("a list").len(), 1, "{events}");
    for (route, verb, status) in [
        ("/v1/workflows/{workflow}/runs/{id}/pause", "pause", "paused"),
        ("/v1/workflows/{workflow}/runs/{id}/resume", "resume", "queued"),
        ("/v1/workflows/{workflow}/runs/{id}/terminate", "terminate", "terminated"),
        ("/v1/workflows/{workflow}/runs/{id}/restart", "restart", "queued"),
    ] {
        let at = |id: &str| request(format!("/v1/workflows/order/runs/{id}/{verb}"), &Value::Null);
        let view = walk.post(route, &at("o-1"), &at("o-2"), Repeat::Same);
        assert_eq!(view["status"], status, "{verb}: {view}");
    }
    assert_eq!(walk.server.json(run)["restarts"], 1);
    // None of its steps waits for its next attempt.
    let retry = request("/v1/workflows/order/runs/o-2/retry", &Value::Null);
    let route = "/v1/workflows/{workflow}/runs/{id}/retry";
    walk.post(route, &retry, &retry, Repeat::Refused("wrong_status"));
    let path = "/v1/workflows/order/runs/o-2";
    assert_eq!(walk.server.json(path)["status"], "waiting", "nothing was done to the other run");
}

fn buckets(walk: &mut Walk) {
    assert_eq!(walk.server.put_json("/v1/buckets/files", &json!({})).status, 200);
    let presign = "/v1/buckets/files/presign";
    let put = |key: &str| request(presign, &json!({ "key": key, "method": "PUT" }));
    walk.post("/v1/buckets/{bucket}/presign", &put("a"), &put("b"), Repeat::Ignored);
}

fn generations_and_drift(walk: &mut Walk) {
    let ask = |prompt: &str| {
        let input = json!({ "positivePrompt": prompt, "width": 64, "height": 64 });
        request("/api/generations", &json!({ "model": "embedded:art@1", "input": input }))
    };
    let asked = walk.post("/api/generations", &ask("one"), &ask("two"), Repeat::Same);
    let path = format!("/api/generations/{}", asked["id"].as_str().expect("an id"));
    walk.server.json_until(&path, |it| it["status"] == "ready");
    let list = walk.server.json("/api/generations");
    assert_eq!(list["items"].as_array().expect("a list").len(), 1, "{list}");
    let verb = |verb: &str| request(format!("{path}/{verb}"), &Value::Null);
    // A generation has its own keys, for all its verbs.
    let (cancel, retry) = (verb("cancel"), verb("retry"));
    walk.post("/api/generations/{id}/cancel", &cancel, &retry, Repeat::Same);
    let nothing = Repeat::Refused("nothing_to_retry");
    walk.post("/api/generations/{id}/retry", &retry, &retry, nothing);
    let demo = |name: &str| format!("{}/api/demo/{name}", walk.server.url);
    let (left, right) = (demo("staging"), demo("production"));
    let compare = |label: &str| {
        let body = json!({ "leftUrl": left, "rightUrl": right, "leftLabel": label });
        request("/api/compare", &body)
    };
    let (one, other) = (compare("one"), compare("two"));
    walk.post("/api/compare", &one, &other, Repeat::Same);
}

fn uploads(walk: &mut Walk) {
    let uploads = "/api/organizations/acme/uploads";
    let send = |path: &str, bytes: &[u8]| {
        let (kind, body) = form("cat.png", bytes);
        Request(path.into(), body, kind)
    };
    let (one, other) = (send(uploads, &picture(RED)), send(uploads, &picture(BLUE)));
    let route = "/api/organizations/{organization}/uploads";
    let first = walk.post(route, &one, &other, Repeat::Same);
    // Another organization has its own keys.
    let theirs = send("/api/organizations/other/uploads", &picture(BLUE));
    assert_eq!(walk.send(&theirs, route).status, 202);
    let events = walk.server.json(&format!("{uploads}/cat.png"));
    assert_eq!(events["version"], first["version"], "{events}");
    let retry = |name: &str| request(format!("{uploads}/{name}/retry"), &Value::Null);
    let route = "/api/organizations/{organization}/uploads/{name}/retry";
    let retried = walk.post(route, &retry("cat.png"), &retry("dog.png"), Repeat::Same);
    assert_eq!(retried["retries"], 1, "{retried}");
    assert_eq!(walk.server.json(&format!("{uploads}/cat.png"))["retries"], 1);
}

fn secrets(walk: &mut Walk) {
    let count =
        |walk: &Walk, path: &str| walk.json(path)["items"].as_array().expect("a list").len();
    let keys = count(walk, "/v1/keys");
    let make = |bucket: &str| request("/v1/keys", &json!({ "bucket": bucket }));
    let made = walk.post("/v1/keys", &make("photos"), &make("files"), Repeat::Secret);
    assert_eq!(count(walk, "/v1/keys"), keys + 1);
    let again = walk.send(&make("photos"), "/v1/keys").json();
    let id = made["accessKeyId"].as_str().expect("an id");
    assert!(again["detail"].as_str().expect("a text").contains(id), "{again}");
    let admin = walk.prepare("/v1/tokens", &json!({ "role": "admin" }));
    walk.bearer = Some(format!("Bearer {}", admin["token"].as_str().expect("a token")));
    let tokens = count(walk, "/v1/tokens");
    let make = |name: &str| request("/v1/tokens", &json!({ "organization": name }));
    let made = walk.post("/v1/tokens", &make("acme"), &make("other"), Repeat::Secret);
    assert_eq!(count(walk, "/v1/tokens"), tokens + 1);
    let again = walk.send(&make("acme"), "/v1/tokens").json();
    let id = made["id"].as_str().expect("an id");
    assert!(again["detail"].as_str().expect("a text").contains(id), "{again}");
}
