//! Closed access: the first credential, logins, sessions, and addresses to listen on.

mod audit;
mod rights;

use std::{os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{Answer, Server, assert_fails_with, output, stdout, steadfast};

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
    assert_eq!(list(&viewer)[0]["client"], "127.0.0.1");
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
