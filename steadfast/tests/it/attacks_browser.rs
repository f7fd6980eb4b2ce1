//! Stored files, logins and policies in a real browser.

use std::{
    io::{Read, Write},
    net::TcpListener,
};

use serde_json::{Value, json};

use crate::{
    access::Holder,
    browser::{Browser, Window},
    buckets::{ok, with_bucket},
    classifier::{RED, picture, upload},
    clock::Wall,
    harness::{Answer, Server, get_url_with, stderr},
};

const HTML: &str = "<!doctype html><html><body onload=\"document.title = 'ran'\">\
    <script>document.title = 'ran'</script><p>shown</p></body></html>";
const SVG: &str = "<svg xmlns='http://www.w3.org/2000/svg' \
    onload=\"document.documentElement.id = 'ran'\">\
    <script>document.documentElement.id = 'ran'</script><text y='20'>shown</text></svg>";
const SCRIPT: &str = "self.ran = true; if (!self.document) self.postMessage('ran')";
const STYLE: &str = "body { --ran: 1 }";

/// Whether a script of the page has run.
const RAN: &str = "document.title === 'ran' || document.documentElement.id === 'ran'";

/// The files, with the types that their owner gave them.
const FILES: [(&str, &str, &str); 4] = [
    ("page.html", "text/html", HTML),
    ("picture.svg", "image/svg+xml", SVG),
    ("script.js", "text/javascript", SCRIPT),
    ("style.css", "text/css", STYLE),
];

/// A server with the files in a bucket.
fn with_files() -> Server {
    let server = with_bucket("files");
    for (key, kind, text) in FILES {
        let path = format!("/v1/buckets/files/objects/{key}");
        ok(&server.put_bytes(&path, text.as_bytes(), &[("content-type", kind)]));
    }
    server
}

fn inline(server: &Server, key: &str) -> String {
    format!("{}/v1/buckets/files/objects/{key}?inline", server.url)
}

fn presigned(server: &Server, key: &str) -> String {
    presigned_for(server, key, "GET")
}

fn presigned_for(server: &Server, key: &str, method: &str) -> String {
    let body = json!({ "key": key, "method": method }).to_string();
    let answer = server.post_json("/v1/buckets/files/presign", &body, &[]);
    ok(&answer)["url"].as_str().expect("a URL").to_owned()
}

/// Serves a text once without any protection; returns its URL.
fn unprotected(kind: &'static str, text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a browser");
        let _ = stream.read(&mut [0; 4_096]);
        let head = format!("content-type: {kind}\r\ncontent-length: {}", text.len());
        let response = format!("HTTP/1.1 200 OK\r\n{head}\r\nconnection: close\r\n\r\n{text}");
        let _ = stream.write_all(response.as_bytes());
    });
    url
}

#[test]
fn stored_pages_and_pictures_run_no_script_on_either_port() {
    let Some(browser) = Browser::start() else { return };
    let server = with_files();
    let window = browser.open("data:text/html,");
    // These files do run where nothing prevents it.
    for (kind, text) in [("text/html", HTML), ("image/svg+xml", SVG)] {
        window.go(&unprotected(kind, text));
        window.wait_for(RAN);
    }
    for key in ["page.html", "picture.svg"] {
        for url in [inline(&server, key), presigned(&server, key)] {
            window.go(&url);
            let shown = "document.documentElement.textContent.includes('shown')";
            assert_eq!(window.evaluate(shown), true, "{url}");
            assert_eq!(window.evaluate(RAN), false, "{url}");
            assert_eq!(window.evaluate("origin"), "null", "it has no access to the server: {url}");
        }
    }
}

/// Loads a URL into the page in one way; returns `load`, `error`, or what the code did.
fn load(window: &Window<'_>, how: &str, url: &str) -> Value {
    let url = json!(url);
    let element = |make: &str| {
        format!(
            "new Promise((done) => {{ const it = {make}; \
             const style = () => getComputedStyle(document.body).getPropertyValue('--ran'); \
             it.onload = () => done(window.ran || style() === '1' ? 'ran' : 'load'); \
             it.onerror = () => done('error'); document.head.append(it); }})"
        )
    };
    let worker = |make: &str, port: &str| {
        format!(
            "new Promise((done) => {{ try {{ const it = {make}; it.onerror = () => done('error'); \
             {port}.onmessage = () => done('ran'); }} catch (error) {{ done('error'); }} }})"
        )
    };
    window.evaluate(&match how {
        "script" => {
            element(&format!("Object.assign(document.createElement('script'), {{ src: {url} }})"))
        }
        "style" => element(&format!(
            "Object.assign(document.createElement('link'), {{ rel: 'stylesheet', href: {url} }})"
        )),
        "worker" => worker(&format!("new Worker({url})"), "it"),
        "service worker" => {
            format!("navigator.serviceWorker.register({url}).then(() => 'ran', () => 'error')")
        }
        _ => panic!("{how} is unknown"),
    })
}

#[test]
fn stored_scripts_and_styles_are_not_used_by_pages_on_either_port() {
    let Some(browser) = Browser::start() else { return };
    let server = with_files();
    let window = browser.open(&format!("{}/buckets", server.url));
    let (script, style) = (inline(&server, "script.js"), inline(&server, "style.css"));
    // The policy of our own pages admits nothing without a nonce.
    assert_eq!(load(&window, "script", &script), "error");
    assert_eq!(load(&window, "style", &style), "error");
    // A page without such a policy gets nothing from the server.
    window.bypass_policies();
    window.go(&format!("{}/buckets", server.url));
    for (how, url) in [
        ("script", &script),
        ("style", &style),
        ("worker", &script),
        ("service worker", &script),
        ("script", &presigned(&server, "script.js")),
        ("style", &presigned(&server, "style.css")),
    ] {
        assert_eq!(load(&window, how, url), "error", "{how} {url}");
    }
    // The window can load what is ours: the test is able to fail.
    let own = format!("{}/assets/steadfast.css", server.url);
    assert_eq!(load(&window, "style", &own), "load");
    assert_eq!(load(&window, "script", &unprotected("text/javascript", SCRIPT)), "ran");
}

#[test]
fn a_stored_file_is_refused_as_code_by_its_destination() {
    let server = with_files();
    let asked = json!({ "model": "embedded:art@1", "count": 1,
        "input": { "positivePrompt": "a", "width": 128, "height": 64, "seed": 3 } });
    let id = server.post_json("/api/generations", &asked.to_string(), &[]).json()["id"].clone();
    let path = format!("/api/generations/{}", id.as_str().expect("an id"));
    let made = server.json_until(&path, |it| it["status"] == "ready");
    let artifact = made["artifacts"][0]["id"].as_str().expect("an id");
    assert!(upload(&server, "acme", "a.png", &picture(RED)).status < 300);
    let own = [
        "/v1/buckets/files/objects/script.js?inline".to_owned(),
        "/v1/buckets/files/objects/script.js".to_owned(),
        format!("/artifacts/{artifact}/file.png"),
        "/api/organizations/acme/uploads/a.png/image".to_owned(),
    ];
    let url = presigned(&server, "script.js");
    let s3 = |dest: &str| get_url_with(&url, &[("sec-fetch-dest", dest)]);
    let http =
        |path: &str, dest: &str| -> Answer { server.get_with(path, &[("sec-fetch-dest", dest)]) };
    for dest in ["script", "style", "worker", "sharedworker", "serviceworker", "audioworklet"] {
        for path in &own {
            http(path, dest).assert_problem(403, "foreign_origin");
        }
        let refused = s3(dest);
        assert!(refused.status == 403 && refused.body.contains("AccessDenied"), "{refused:?}");
    }
    for dest in ["document", "empty"] {
        assert_eq!(http(&own[0], dest).body, SCRIPT);
        assert_eq!(s3(dest).body, SCRIPT);
    }
    assert_eq!(http("/assets/steadfast.css", "style").status, 200);
}

/// The status, the ETag and the text of a response that a page gets, or `error`.
fn fetched(window: &Window<'_>, url: &str, options: &str) -> Value {
    window.evaluate(&format!(
        "fetch({}, {options}).then(async (it) => [it.status, it.headers.get('etag'), \
         await it.text()], () => 'error')",
        json!(url)
    ))
}

#[test]
fn a_page_of_an_allowed_origin_uploads_and_downloads_and_no_other_page() {
    let Some(browser) = Browser::start() else { return };
    let server = with_bucket("files");
    let (app, other) = (unprotected("text/html", HTML), unprotected("text/html", HTML));
    let allow = ["buckets", "cors", "put", "files", "app", "--origin", app.trim_end_matches('/')];
    let what = ["--method", "GET,PUT", "--header", "content-type", "--expose", "etag"];
    let set = server.ask(&[&allow[..], &what].concat());
    assert!(set.status.success(), "{}", stderr(&set));
    let own = browser.open(&app);
    let put = presigned_for(&server, "a", "PUT");
    let upload = "{ method: 'PUT', body: 'sent', headers: { 'content-type': 'text/x' } }";
    let sent = fetched(&own, &put, upload);
    assert_eq!((&sent[0], sent[1].is_string()), (&json!(200), true), "{sent}");
    let get = presigned(&server, "a");
    let found = fetched(&own, &get, "{}");
    assert_eq!((&found[0], &found[1], &found[2]), (&json!(200), &sent[1], &json!("sent")));
    // An error can be read as well; a method that no rule allows is not sent.
    assert_eq!(fetched(&own, &get.replace("/files/a", "/files/b"), "{}")[0], 403);
    assert_eq!(fetched(&own, &get, "{ method: 'DELETE' }"), "error");
    assert_eq!(fetched(&own, &get, "{ credentials: 'include' }"), "error");
    let foreign = browser.open(&other);
    assert_eq!(fetched(&foreign, &put, upload), "error");
    assert_eq!(fetched(&foreign, &get, "{}"), "error");
    assert_eq!(ok(&server.get("/v1/buckets/files/objects"))["items"][0]["sequence"], 1);
}

/// The pages that a new server has.
const PAGES: [&str; 16] = [
    "/",
    "/streams",
    "/streams/pending",
    "/processes",
    "/objects",
    "/workflows",
    "/queues",
    "/buckets",
    "/audit",
    "/sessions",
    "/docs",
    "/search?q=a",
    "/chat",
    "/drift",
    "/generations",
    "/uploads/demo",
];

#[test]
fn a_session_begins_with_a_login_and_ends_with_logout_revocation_and_time() {
    let Some(browser) = Browser::start() else { return };
    let (folder, flags) =
        (tempfile::tempdir().expect("a temporary folder"), ["--access", "closed"]);
    let wall = Wall::of();
    let server = match &wall {
        Some(wall) => wall.serve(folder, &flags),
        None => Server::with(folder, &flags),
    }
    .logged_in();
    let link = server.greeting.split_whitespace().find(|it| it.contains("/login#"));
    let admin = browser.open(link.expect("it prints a link"));
    admin.wait_for("location.pathname === '/' && document.querySelector('.logout') !== null");
    assert_eq!(admin.evaluate("document.cookie + location.hash"), "", "scripts see no secret");
    for page in PAGES {
        admin.go(&format!("{}{page}", server.url));
        let status = "performance.getEntriesByType('navigation')[0].responseStatus";
        assert_eq!(admin.evaluate(status), 200, "{page}");
    }
    // Every message so far would be a violation of a policy.
    browser.assert_quiet();
    let viewer = browser.open(&format!("{}/queues", server.url));
    viewer.wait_for("location.pathname === '/login'");
    let log_in = |holder: &Holder<'_>| {
        viewer.write("input[name=token]", holder.bearer.trim_start_matches("Bearer "));
        viewer.press_enter();
        viewer.wait_for("location.pathname === '/queues'");
    };
    let is_asked_to_log_in = || {
        viewer.go(&format!("{}/queues", server.url));
        viewer.wait_for("location.pathname === '/login'");
    };
    let holder = Holder::new(&server, &json!({ "role": "viewer" }));
    log_in(&holder);
    viewer.click(".logout button");
    viewer.wait_for("location.pathname === '/login'");
    is_asked_to_log_in();
    log_in(&holder);
    // The admin revokes it in the other window.
    let revoke = format!("fetch('/v1/tokens/{}', {{ method: 'DELETE' }})", holder.id);
    assert_eq!(admin.evaluate(&format!("{revoke}.then((it) => it.status)")), 200);
    is_asked_to_log_in();
    if let Some(wall) = wall {
        log_in(&Holder::new(&server, &json!({ "role": "viewer" })));
        wall.ahead(11 * 3_600);
        viewer.go(&format!("{}/queues", server.url));
        assert_eq!(viewer.evaluate("location.pathname"), "/queues", "11 hours without use");
        wall.ahead(24 * 3_600);
        is_asked_to_log_in();
    }
    browser.assert_quiet();
}
