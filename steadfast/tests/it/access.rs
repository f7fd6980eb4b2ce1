//! Closed access: credentials, sessions, links, tenants and the audit log.

use std::{
    io::{BufRead, BufReader, Read, Seek, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{client::IntoClientRequest, http::HeaderValue};

use crate::harness::{Answer, Server, assert_fails_with, get_url, output, stdout, steadfast};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn closed() -> Server {
    Server::with(folder(), &["--access", "closed"])
}

fn admin(server: &Server) -> String {
    let text = std::fs::read_to_string(server.folder().join("admin.token")).expect("it is there");
    text.trim().to_owned()
}

/// A client with a token.
pub(crate) struct Holder<'a> {
    server: &'a Server,
    pub(crate) bearer: String,
    pub(crate) id: String,
}

impl<'a> Holder<'a> {
    pub(crate) fn new(server: &'a Server, spec: &Value) -> Self {
        let bearer = format!("Bearer {}", admin(server));
        let made = server.post_json("/v1/tokens", &spec.to_string(), &[("authorization", &bearer)]);
        assert_eq!(made.status, 201, "{}", made.body);
        let made = made.json();
        let bearer = format!("Bearer {}", made["token"].as_str().expect("a token"));
        Self { server, bearer, id: made["id"].as_str().expect("an id").to_owned() }
    }

    fn admin(server: &'a Server) -> Self {
        Self { server, bearer: format!("Bearer {}", admin(server)), id: String::new() }
    }

    fn get(&self, path: &str) -> Answer {
        self.server.get_with(path, &[("authorization", &self.bearer)])
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, body, &[])
    }

    fn post_with(&self, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
        let headers = [&[("authorization", self.bearer.as_str())], headers].concat();
        self.server.post_json(path, &body.to_string(), &headers)
    }

    fn delete(&self, path: &str) -> Answer {
        self.server.delete_with(path, &[("authorization", &self.bearer)])
    }

    pub(crate) fn revoke(&self) {
        let gone = Holder::admin(self.server).delete(&format!("/v1/tokens/{}", self.id));
        assert_eq!(gone.status, 200, "{}", gone.body);
    }
}

fn log_in(server: &Server, secret: &str, cookie: Option<&str>) -> Answer {
    let origin = ("origin", server.url.as_str());
    let mut headers = vec![origin, FORM];
    headers.extend(cookie.map(|it| ("cookie", it)));
    server.post_form("/login", &format!("token={secret}"), &headers)
}

fn cookie_of(answer: &Answer) -> String {
    answer.header("set-cookie").split(';').next().expect("a cookie").to_owned()
}

#[test]
fn closed_access_needs_a_credential_and_the_owner_of_the_folder_has_one() {
    let server = closed();
    let file = server.folder().join("admin.token");
    let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(server.greeting.contains("access       closed"), "{}", server.greeting);
    for path in ["/v1/queues", "/metrics", "/openapi.json", "/v1/doctor", "/v1/whoami"] {
        let refused = server.get(path);
        refused.assert_problem(401, "token_needed");
        assert_eq!(refused.header("www-authenticate"), "Bearer");
    }
    for path in ["/healthz", "/readyz", "/login"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    let who = stdout(&server.ask(&["whoami"]));
    assert!(who.contains("role          admin"), "{who}");
    let checked = stdout(&server.ask(&["doctor"]));
    assert!(checked.contains("closed, plain HTTP for this machine"), "{checked}");
    assert_fails_with(
        &output(steadfast().args(["queues", "list", "--server", &server.url])),
        &["token_needed"],
    );
    // It stays closed without the flag.
    let server = Server::on(server.kill());
    server.get("/v1/queues").assert_problem(401, "token_needed");
    assert_eq!(Holder::admin(&server).get("/v1/queues").status, 200);
}

#[test]
fn a_deleted_admin_token_is_revoked_when_the_server_writes_another_one() {
    let server = closed();
    let deleted = admin(&server);
    let folder = server.kill();
    std::fs::remove_file(folder.path().join("admin.token")).expect("it is deleted");
    let server = Server::on(folder);
    let bearer = format!("Bearer {deleted}");
    let old = server.get_with("/v1/queues", &[("authorization", &bearer)]);
    old.assert_problem(401, "token_revoked");
    let tokens = Holder::admin(&server).get("/v1/tokens").json();
    let items = tokens["items"].as_array().expect("tokens").iter();
    let living: Vec<_> = items.filter(|it| it["revokedAt"].is_null()).collect();
    assert_eq!(living.len(), 1, "{living:?}");
    assert!(living[0]["expiresAt"].is_string(), "{living:?}");
}

#[test]
fn a_restored_backup_revives_credentials_until_all_that_are_older_are_revoked() {
    let server = closed().logged_in();
    assert_eq!(server.put_json("/v1/buckets/files", &json!({})).status, 200);
    assert_eq!(server.put_bytes("/v1/buckets/files/objects/a", b"bytes", &[]).status, 200);
    let (leaked, key) = {
        let leaked = Holder::new(&server, &json!({ "role": "admin" }));
        let key = Holder::admin(&server).post("/v1/keys", &json!({})).json();
        ((leaked.bearer.clone(), leaked.id.clone()), key["accessKeyId"].clone())
    };
    let (folder, backup) = (server.kill(), self::folder());
    let copy = |from: &Path, to: &Path| {
        for name in ["steadfast.db", "steadfast.db-wal", "steadfast.db-shm"] {
            let _ = std::fs::remove_file(to.join(name));
            if from.join(name).exists() {
                std::fs::copy(from.join(name), to.join(name)).expect("it is copied");
            }
        }
    };
    copy(folder.path(), backup.path());
    let server = Server::on(folder).logged_in();
    assert_eq!(server.delete(&format!("/v1/tokens/{}", leaked.1)).status, 200);
    assert_eq!(server.delete(&format!("/v1/keys/{}", key.as_str().expect("an id"))).status, 200);
    // A second start, so that the blobs do not belong to the session after the backup.
    let folder = Server::on(server.kill()).kill();
    copy(backup.path(), folder.path());
    let server = Server::on(folder);
    let old = format!("Bearer {}", admin(&server));
    let status = |bearer: &str| server.get_with("/v1/queues", &[("authorization", bearer)]).status;
    assert_eq!([status(&leaked.0), status(&old)], [200, 200], "they are valid again");
    // An admin token makes another one, which is younger than the restore.
    let made = server.post_json("/v1/tokens", "{}", &[("authorization", &leaked.0)]);
    assert_eq!(made.status, 201, "{}", made.body);
    let found = stdout(&server.ask(&["doctor"]));
    let (_, rest) = found.split_once("`steadfast tokens revoke-older ").expect(&found);
    let time = rest.split('`').next().expect("a time").to_owned();
    assert!(!server.ask(&["tokens", "revoke-older", "yesterday", "--yes"]).status.success());
    let revoked = stdout(&server.ask(&["tokens", "revoke-older", &time, "--yes"]));
    assert_eq!(revoked, "revoked 3 tokens and 1 access keys\n");
    assert_eq!([status(&leaked.0), status(&old)], [401, 401]);
    let owner = Holder::admin(&server);
    assert_eq!(owner.get("/v1/keys").json()["items"], json!([]));
    let found = stdout(&server.ask(&["doctor"]));
    assert!(found.contains("older tokens and access keys are revoked"), "{found}");
}

#[test]
fn the_first_token_closes_access_at_once_and_revoking_it_does_not_open_it() {
    let server = Server::empty();
    assert!(server.greeting.contains("access       open"), "{}", server.greeting);
    assert_eq!(server.get("/v1/queues").status, 200);
    assert!(server.get_with("/", &[("accept", "text/html")]).body.contains("Access is open"));
    let made = server.post_json("/v1/tokens", r#"{"organization": "acme"}"#, &[]);
    assert_eq!(made.status, 201, "{}", made.body);
    server.get("/v1/queues").assert_problem(401, "token_needed");
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    assert!(server.ask(&["tokens", "revoke", &id, "--yes"]).status.success());
    server.get("/v1/queues").assert_problem(401, "token_needed");
}

#[test]
fn wrong_tokens_are_counted_and_logged_without_their_text() {
    let (folder, mut log) = (folder(), tempfile::tempfile().expect("a temporary file"));
    let mut command = steadfast();
    command.args(["--listen", "127.0.0.1:0", "--access", "closed", "--data"]).arg(folder.path());
    let own = log.try_clone().expect("a file");
    let Ok(server) = Server::greet_logging(command, folder, own.into()) else {
        panic!("it does not start")
    };
    for _ in 0..3 {
        let wrong = [("authorization", "Bearer sf_AAAAAAAAAA_hush")];
        server.get_with("/v1/queues", &wrong).assert_problem(401, "token_unknown");
    }
    server.get("/v1/queues").assert_problem(401, "token_needed");
    let metrics = Holder::admin(&server).get("/metrics").body;
    assert!(metrics.contains("\nsteadfast_credentials_refused_total 3\n"), "{metrics}");
    let mut text = String::new();
    log.rewind().and_then(|()| log.read_to_string(&mut text)).expect("it is read");
    let line = text.lines().find(|it| it.contains("token_unknown")).expect(&text);
    assert!(line.contains("127.0.0.1") && line.contains("/v1/queues"), "{line}");
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn a_login_link_works_once_and_a_session_ends_with_its_token() {
    let server = closed();
    let link = server.greeting.split_whitespace().find_map(|it| it.split_once("/login#"));
    let code = link.expect("it prints a link").1;
    let begun = log_in(&server, &format!("link:{code}"), None);
    assert_eq!((begun.status, begun.header("location")), (303, "/"));
    let set = begun.header("set-cookie");
    assert!(set.contains("; HttpOnly; SameSite=Lax") && !set.contains("Secure"), "{set}");
    let cookie = cookie_of(&begun);
    let page = server.get_with("/queues", &[("cookie", &cookie), ("accept", "text/html")]);
    assert!(page.status == 200 && page.body.contains("Log out"), "{}", page.body);
    let again = log_in(&server, &format!("link:{code}"), None);
    assert!(again.status == 401 && again.body.contains("was used or has expired"));
    // A page without a session leads to the login, and back.
    let asked = server.get_with("/queues/a?state=dead", &[("accept", "text/html")]);
    assert_eq!(asked.header("location"), "/login?next=%2Fqueues%2Fa%3Fstate%3Ddead");
    let out = server.post_form("/logout", "", &[("cookie", &cookie), FORM]);
    assert_eq!(out.status, 303);
    server.get_with("/v1/queues", &[("cookie", &cookie)]).assert_problem(401, "token_unknown");

    let holder = Holder::new(&server, &json!({ "role": "viewer" }));
    let cookie = cookie_of(&log_in(&server, holder.bearer.trim_start_matches("Bearer "), None));
    assert_eq!(server.get_with("/v1/queues", &[("cookie", &cookie)]).status, 200);
    holder.revoke();
    server.get_with("/v1/queues", &[("cookie", &cookie)]).assert_problem(401, "token_revoked");
}

#[test]
fn sessions_are_listed_and_one_of_them_is_ended() {
    let server = closed();
    let viewer = Holder::new(&server, &json!({ "role": "viewer" }));
    let (secret, foreign) = (viewer.bearer.trim_start_matches("Bearer "), admin(&server));
    let [one, other] = [secret, secret].map(|it| cookie_of(&log_in(&server, it, None)));
    let of_admin = cookie_of(&log_in(&server, &foreign, None));
    let status = |cookie: &str| server.get_with("/v1/queues", &[("cookie", cookie)]).status;
    let list = |holder: &Holder<'_>| holder.get("/v1/sessions").json()["items"].clone();
    let ids = |items: &Value| -> Vec<String> {
        let items = items.as_array().expect("sessions").iter();
        items.map(|it| it["id"].as_str().expect("an id").to_owned()).collect()
    };
    let (own, all) = (ids(&list(&viewer)), ids(&list(&Holder::admin(&server))));
    assert_eq!((own.len(), all.len()), (2, 3));
    let of_others = all.iter().find(|it| !own.contains(it)).expect("that of the admin");
    let refused = viewer.delete(&format!("/v1/sessions/{of_others}"));
    refused.assert_problem(404, "session_not_found");
    assert_eq!(viewer.delete(&format!("/v1/sessions/{}", own[0])).status, 200);
    let mut left = [status(&one), status(&other)];
    left.sort_unstable();
    assert_eq!((left, status(&of_admin)), ([200, 401], 200));
    let ended = server.ask(&["sessions", "end", &own[1]]);
    assert!(stdout(&ended).contains("ended session"), "{}", stdout(&ended));
    assert_eq!([status(&one), status(&other)], [401, 401]);
    let log = Holder::admin(&server).get("/v1/audit").body;
    assert!(log.contains("DELETE /v1/sessions/{id}"), "{log}");
}

#[test]
fn a_login_does_not_take_over_a_planted_session_and_leads_only_to_this_server() {
    let server = closed();
    let name = format!("steadfast-{}", server.host().rsplit(':').next().expect("a port"));
    let planted = format!("{name}=PLANTED");
    let begun = log_in(&server, &admin(&server), Some(&planted));
    let cookie = cookie_of(&begun);
    assert!(cookie.starts_with(&name) && cookie != planted, "{cookie}");
    server.get_with("/v1/queues", &[("cookie", &planted)]).assert_problem(401, "token_unknown");
    let form = format!("token={}&next=https%3A%2F%2Fevil.example%2F", admin(&server));
    let origin = ("origin", server.url.as_str());
    let begun = server.post_form("/login", &form, &[origin, FORM]);
    assert_eq!(begun.header("location"), "/");
    // Another page cannot use the session: neither a form nor a script.
    let foreign = [("cookie", cookie.as_str()), ("origin", "https://evil.example")];
    server.post("/v1/queues/q/pause", &foreign).assert_problem(403, "foreign_origin");
    let crossed = [("cookie", cookie.as_str()), ("sec-fetch-site", "cross-site")];
    server.post("/v1/queues/q/pause", &crossed).assert_problem(403, "foreign_origin");
}

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

#[test]
fn the_audit_log_has_who_did_what_and_notices_changes() {
    let server = closed();
    let viewer = Holder::new(&server, &json!({ "role": "viewer" }));
    viewer.post("/v1/queues/mail/purge", &json!({})).assert_problem(403, "role_needed");
    assert_eq!(Holder::admin(&server).post("/v1/queues/mail/pause", &json!({})).status, 200);
    log_in(&server, "wrong", None);
    let log = Holder::admin(&server).get("/v1/audit").json();
    let items = log["items"].as_array().expect("records");
    let shown: Vec<_> = items.iter().map(|it| (&it["action"], &it["outcome"])).collect();
    let has =
        |action: &str, outcome: &str| shown.iter().any(|it| it.0 == action && it.1 == outcome);
    assert!(has("POST /v1/tokens", "201"), "{shown:?}");
    assert!(has("POST /v1/queues/{queue}/purge", "role_needed"), "{shown:?}");
    let refused = items.iter().find(|it| it["outcome"] == "role_needed").expect("a record");
    assert_eq!(refused["token"], viewer.id.as_str());
    assert!(has("POST /v1/queues/{queue}/pause", "200"), "{shown:?}");
    assert!(has("POST /login", "401"), "{shown:?}");
    // The token of the machine came first.
    let (first, rest) = items.split_last().expect("records");
    assert_eq!(first["action"], "create the admin token");
    assert!(rest.iter().all(|it| it["client"] == "127.0.0.1"), "{items:?}");
    viewer.get("/v1/audit").assert_problem(403, "role_needed");
    let tail = stdout(&server.ask(&["audit", "tail"]));
    assert!(tail.contains("role_needed") && !tail.contains(&admin(&server)), "{tail}");
    let checked = stdout(&server.ask(&["doctor"]));
    assert!(checked.contains("records follow each other"), "{checked}");
}

#[test]
fn records_have_the_name_of_the_token_and_what_was_created_and_no_secret() {
    let server = closed().logged_in();
    let ann = Holder::new(&server, &json!({ "role": "member", "name": "ann of sales" }));
    assert!(server.put_json("/v1/buckets/photos", &json!({})).status < 300);
    assert!(server.put_bytes("/v1/buckets/photos/objects/a", b"a cat", &[]).status < 300);
    let link = ann.post("/v1/buckets/photos/presign", &json!({ "key": "a" }));
    assert_eq!(link.status, 200, "{}", link.body);
    let admin = Holder::admin(&server);
    let spec = json!({ "name": "backup", "bucket": "photos", "readOnly": true });
    let key = admin.post("/v1/keys", &spec).json();
    let rotated = admin.post(&format!("/v1/tokens/{}/rotate", ann.id), &json!({})).json();
    ann.revoke();
    let log = admin.get("/v1/audit").json();
    let items = log["items"].as_array().expect("records");
    let shows = |action: &str, facts: &[&str]| {
        let record = items.iter().find(|it| it["action"] == action).expect("a record");
        let detail = record["detail"].as_str().unwrap_or_default();
        assert!(facts.iter().all(|it| detail.contains(it)), "{record}");
        record.clone()
    };
    let token = ["token", &ann.id, "role member", "name ann of sales"];
    shows("POST /v1/tokens", &token);
    shows("POST /v1/tokens/{id}/rotate", &token);
    let id = key["accessKeyId"].as_str().expect("an id");
    shows("POST /v1/keys", &[id, "reads", "bucket photos", "name backup"]);
    let minted = shows("POST /v1/buckets/{bucket}/presign", &["GET photos/a, until 20"]);
    assert_eq!((&minted["token"], &minted["name"]), (&json!(ann.id), &json!("ann of sales")));
    let (all, text) = (log.to_string(), |it: &Value| it.as_str().expect("a text").to_owned());
    let secrets = [text(&key["secretAccessKey"]), text(&rotated["token"]), ann.bearer.clone()];
    let secrets = secrets.iter().map(|it| it.trim_start_matches("Bearer "));
    assert!(secrets.clone().all(|it| !all.contains(it)) && !all.contains("X-Amz-"), "{all}");
    for (verb, name) in
        [("audit tail", "ann of sales"), ("tokens list", "ann of sales"), ("keys list", "backup")]
    {
        let shown = stdout(&server.ask(&verb.split(' ').collect::<Vec<_>>()));
        assert!(shown.contains(name), "{shown}");
    }
    let of_ann = stdout(&server.ask(&["audit", "tail", "--actor", &ann.id]));
    assert!(of_ann.contains("presign") && !of_ann.contains("POST /v1/keys"), "{of_ann}");
    let page = admin.get("/audit?actor=ann+of+sales&action=&since=&until=");
    assert!(page.body.contains("presign") && !page.body.contains("POST /v1/keys"));
    // Each line is the record before the one above.
    let lines = stdout(&server.ask(&["audit", "export"]));
    let lines: Vec<Value> = lines.lines().map(|it| it.parse().expect("JSON")).collect();
    assert_eq!(lines.last().expect("a record")["number"], 1);
    let follows = |it: &[Value]| {
        let number = |it: &Value| it["number"].as_i64().expect("a number");
        number(&it[0]) == number(&it[1]) + 1 && it[0]["previous"] == it[1]["hash"]
    };
    assert!(items.len() <= lines.len() && lines.windows(2).all(follows), "{lines:?}");
}

#[test]
fn an_older_log_that_was_put_back_is_noticed_by_its_head_in_the_data_folder() {
    let stop = |mut server: Server| {
        server.signal(Signal::TERM);
        assert_eq!(server.wait(), Some(0));
        server.into_folder()
    };
    let change = |server: &Server| {
        let paused = Holder::admin(server).post("/v1/queues/mail/pause", &json!({}));
        assert_eq!(paused.status, 200, "{}", paused.body);
    };
    let check = |server: &Server, query: &str| {
        let doctor = Holder::admin(server).get(&format!("/v1/doctor{query}")).json();
        let checks = doctor["checks"].as_array().expect("checks").iter();
        let check = checks.clone().find(|it| it["name"] == "audit log").expect("a check");
        (check["status"].as_str().unwrap_or_default().to_owned(), check["detail"].to_string())
    };
    let (server, elsewhere) = (closed(), folder());
    change(&server);
    let data = stop(server);
    let (store, older) = (data.path().join("steadfast.db"), elsewhere.path().join("older.db"));
    std::fs::copy(&store, &older).expect("it is copied");
    let server = Server::on(data);
    change(&server);
    change(&server);
    assert_eq!(check(&server, "").0, "ok");
    let data = stop(server);
    std::fs::copy(&older, &store).expect("it is copied");
    let server = Server::on(data);
    let (status, detail) = check(&server, "");
    assert!(status == "failed" && detail.contains("audit-head"), "{status} {detail}");
    // New records do not hide it.
    for _ in 0..3 {
        change(&server);
    }
    let data = stop(server);
    let head = data.path().join("audit-head");
    let server = Server::on(data);
    assert_eq!(check(&server, "").0, "failed");
    // An operator who has restored the store says so.
    let data = stop(server);
    std::fs::remove_file(&head).expect("it is there");
    let server = Server::on(data);
    let (status, detail) = check(&server, "?deep=true");
    assert!(status == "ok" && detail.contains("all records follow"), "{status} {detail}");
    assert!(head.exists());
}

#[test]
fn a_network_address_needs_closed_access_and_a_safe_way() {
    let serve = |flags: &[&str]| {
        let folder = folder();
        let mut command = steadfast();
        command.args(["serve", "--s3-listen", "none", "--data"]).arg(folder.path()).args(flags);
        output(&mut command)
    };
    let open = serve(&["--listen", "0.0.0.0:0"]);
    assert_fails_with(&open, &["0.0.0.0:0", "--access closed"]);
    let unsafe_way = serve(&["--listen", "0.0.0.0:0", "--access", "closed"]);
    assert_fails_with(&unsafe_way, &["in the clear", "--tls-cert"]);
    assert_fails_with(&serve(&["--public-url", "https://s.example.org"]), &["--access closed"]);
}

#[test]
fn a_store_that_is_closed_needs_no_flag_to_listen_on_a_network() {
    let network = ["--listen", "0.0.0.0:0", "--trusted-proxy", "10.0.0.1"];
    let folder = Server::empty().kill();
    let mut open = steadfast();
    open.args(["serve", "--s3-listen", "none", "--data"]).arg(folder.path()).args(network);
    assert_fails_with(&output(&mut open), &["0.0.0.0:0", "--access closed"]);
    let folder = Server::with(folder, &["--access", "closed"]).kill();
    let mut closed = steadfast();
    closed.args(["serve", "--s3-listen", "none", "--data"]).arg(folder.path()).args(network);
    let Ok(server) = Server::greet(closed, folder) else { panic!("it does not start") };
    assert!(server.greeting.contains("http://0.0.0.0:"), "{}", server.greeting);
    let (local, token) = (server.url.replace("0.0.0.0", "127.0.0.1"), admin(&server));
    let mut doctor = steadfast();
    doctor.args(["doctor", "--server", &local, "--token", &token]);
    let checked = stdout(&output(&mut doctor));
    let way = "closed, plain HTTP for this machine and the trusted proxies 10.0.0.1/32";
    assert!(checked.contains(way), "{checked}");
}
