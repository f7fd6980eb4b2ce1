//! TLS on all ports, proxies in front of the server, and the port for webhooks.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpStream, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Output,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use steadfast::{
    Object,
    api::{Code, buckets as b, connect, payload},
};
use steadfast_counter::{Counter, Increment};
use steadfast_fake_runware::FakeRunware;
use tempfile::TempDir;

use crate::{
    generations_runware::{ask, ended, flags, folder, free_host},
    harness::{
        Server, assert_fails_with, assert_usage_error, output, run, stderr, stdout, steadfast,
        until,
    },
};

/// More than the connection slots of a port.
const CLIENTS: usize = 1_100;

/// Files of a private authority and of a server that it has certified.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(folder());
        files.certify("ca.pem", "127.0.0.1");
        files
    }

    /// Creates an authority, and the pair of a server with this name.
    fn certify(&self, authority: &str, name: &str) {
        let root_key = KeyPair::generate().expect("a certificate");
        let mut root = CertificateParams::default();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_pem = root.self_signed(&root_key).expect("a certificate").pem();
        let (key, issuer) =
            (KeyPair::generate().expect("a certificate"), Issuer::new(root, root_key));
        let server = CertificateParams::new([name.to_owned()]).expect("a certificate");
        let server = server.signed_by(&key, &issuer).expect("a certificate");
        let files =
            [(authority, root_pem), ("cert.pem", server.pem()), ("key.pem", key.serialize_pem())];
        for (file, text) in files {
            fs::write(self.0.path().join(file), text).expect("a file");
        }
    }

    fn path(&self, file: &str) -> String {
        self.0.path().join(file).display().to_string()
    }

    fn serve(&self) -> Server {
        let (cert, key) = (self.path("cert.pem"), self.path("key.pem"));
        Server::with(folder(), &["--tls-cert", &cert, "--tls-key", &key])
    }

    /// Asks a server by the command line; trusts this authority.
    fn ask(&self, url: &str, authority: &str) -> Output {
        run(&["streams", "list", "--server", url, "--ca", &self.path(authority)])
    }
}

#[test]
fn the_command_line_asks_over_https_and_trusts_its_authority_only() {
    let files = Files::new();
    let server = files.serve();
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.greeting);
    let told = files.ask(&server.url, "ca.pem");
    assert!(told.status.success() && !stdout(&told).is_empty(), "{}", stderr(&told));
    let ca = files.path("ca.pem");
    let mut by_variable = steadfast();
    by_variable.args(["doctor", "--server", &server.url]).env("STEADFAST_CA_FILE", &ca);
    let told = output(&mut by_variable);
    assert!(told.status.success(), "{}", stderr(&told));
    // An authority that the system does not know.
    assert_fails_with(&server.ask(&["streams", "list"]), &["--ca FILE"]);
    // Another authority.
    let other = Files::new();
    let told = other.ask(&server.url, "ca.pem");
    assert_fails_with(&told, &["invalid peer certificate", "nothing was sent"]);
    // A name that the certificate does not have.
    let localhost = server.url.replace("127.0.0.1", "localhost");
    assert_fails_with(&files.ask(&localhost, "ca.pem"), &["not valid for name"]);
    let plain = server.url.replace("https://", "http://");
    assert_fails_with(&run(&["streams", "list", "--server", &plain]), &["tls_needed", "https://"]);
    assert_fails_with(&files.ask(&server.url, "nowhere.pem"), &["--ca", "nowhere.pem"]);
    assert_fails_with(&files.ask(&server.url, "key.pem"), &["--ca", "no certificate"]);
    let without = Server::empty();
    let https = without.url.replace("http://", "https://");
    assert_fails_with(&files.ask(&https, "ca.pem"), &["does not speak TLS"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_calls_and_stores_over_https() {
    let files = Files::new();
    let server = files.serve();
    let connection = connect(&server.url).ca_file(files.path("ca.pem")).unwrap();
    let client = connection.client();
    assert_eq!(client.call(Counter::at("a"), Increment { by: 3 }).await.unwrap(), 3);
    let untrusted = connect(&server.url).client();
    let error = untrusted.call(Counter::at("a"), Increment { by: 3 }).await.unwrap_err();
    assert_eq!(error.code(), "store_unavailable", "{error}");
    // More than the buffers of both sides.
    let bytes = vec![b'x'; 16 << 20];
    let create = b::PutBucket { bucket: "files".into(), ..b::PutBucket::default() };
    connection.send(&create).await.unwrap();
    let path = "/v1/buckets/files/objects/large";
    let request = connection.start("PUT", path).body(payload(bytes.clone())).unwrap();
    connection.bytes(request).await.unwrap();
    let request = connection.start("GET", path).body(payload("")).unwrap();
    assert!(connection.bytes(request).await.unwrap() == bytes);
    // The S3 port speaks TLS, too.
    assert!(server.s3_url().starts_with("https://"), "{}", server.greeting);
    let body = json!({ "key": "large", "method": "GET" }).to_string();
    let request = connection.start("POST", "/v1/buckets/files/presign");
    let request = request.header("content-type", "application/json").body(payload(body)).unwrap();
    let presigned = connection.bytes(request).await.unwrap();
    let presigned: serde_json::Value = serde_json::from_slice(&presigned).unwrap();
    let url = presigned["url"].as_str().unwrap();
    let s3 = connect(server.s3_url()).ca_file(files.path("ca.pem")).unwrap();
    let path = url.strip_prefix(server.s3_url()).expect("a URL of the S3 port");
    let request = s3.start("GET", path).body(payload("")).unwrap();
    assert!(s3.bytes(request).await.unwrap() == bytes);
    let host = server.s3_url().strip_prefix("https://").unwrap().trim_end_matches('/');
    let refused = raw(host, "GET /files HTTP/1.1\r\nHost: localhost\r\n");
    assert!(refused.contains("<Code>InvalidRequest</Code>"), "{refused}");
}

#[test]
fn a_changed_certificate_needs_no_restart_and_a_broken_one_is_logged() {
    let files = Files::new();
    let data = folder();
    let log = files.path("log");
    let mut command = steadfast();
    command.args(["--listen", "127.0.0.1:0", "--data"]).arg(data.path());
    command.args(["--tls-cert", &files.path("cert.pem"), "--tls-key", &files.path("key.pem")]);
    let server = Server::greet_logging(command, data, fs::File::create(&log).unwrap().into());
    let server = server.expect("it greets");
    files.certify("second.pem", "127.0.0.1");
    until("the new certificate is used", || files.ask(&server.url, "second.pem").status.success());
    assert!(!files.ask(&server.url, "ca.pem").status.success());
    fs::write(files.path("key.pem"), "no key").unwrap();
    let said = || fs::read_to_string(&log).unwrap();
    until("the broken key is logged", || said().contains("changed certificate not used"));
    assert!(said().contains("key.pem has no private key"), "{}", said());
    let told = files.ask(&server.url, "second.pem");
    assert!(told.status.success(), "{}", stderr(&told));
    assert_eq!(said().matches("changed certificate not used").count(), 1);
}

#[test]
fn doctor_names_a_tls_key_and_settings_that_other_users_may_read() {
    let files = Files::new();
    let [cert, key, settings] = ["cert.pem", "key.pem", "settings.toml"].map(|it| files.path(it));
    fs::write(&settings, "[generations]\nrunware-key = \"hush\"\n").unwrap();
    for (mode, is_named) in [(0o644, true), (0o600, false)] {
        for file in [&key, &settings] {
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
        }
        let flags = ["--config", &settings, "--tls-cert", &cert, "--tls-key", &key];
        let server = Server::with(folder(), &flags);
        let told = run(&["doctor", "--server", &server.url, "--ca", &files.path("ca.pem")]);
        let told = stdout(&told);
        assert!(told.contains("seal key"), "{told}");
        for file in [&key, &settings] {
            assert_eq!(told.contains(file.as_str()), is_named, "{told}");
        }
    }
}

#[test]
fn slow_handshakes_take_no_slots_from_others() {
    let files = Files::new();
    let server = files.serve();
    let begin = |_| {
        let mut stream = TcpStream::connect(server.host()).expect("it listens");
        // The beginning of a record of a handshake.
        stream.write_all(&[22, 3, 1]).expect("it takes the beginning");
        stream
    };
    let slow: Vec<_> = (0..CLIENTS).map(begin).collect();
    for _ in 0..3 {
        let told = files.ask(&server.url, "ca.pem");
        assert!(told.status.success(), "{}", stderr(&told));
    }
    for mut stream in slow {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "it was closed without an answer");
    }
}

#[test]
fn a_server_does_not_start_with_a_transport_that_is_not_safe() {
    let (data, files) = (folder(), Files::new());
    let fails = |flags: &[&str], words: &[&str]| {
        let mut command = steadfast();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data.path());
        assert_fails_with(&output(command.args(flags)), words);
    };
    let (cert, key) = (files.path("cert.pem"), files.path("key.pem"));
    fails(&["--tls-cert", &cert], &["--tls-cert needs --tls-key"]);
    fails(&["--tls-cert", "/nowhere", "--tls-key", &key], &["--tls-cert /nowhere", "cannot be"]);
    fails(&["--tls-cert", &cert, "--tls-key", &cert], &["--tls-key", "has no private key"]);
    fails(&["--public-url", "https://gate.example.org"], &["--access closed", "--webhooks-listen"]);
    let secure = ["--tls-cert", &cert, "--tls-key", &key, "--webhooks-listen", "0.0.0.0:0"];
    fails(&secure, &["--webhooks-listen 0.0.0.0:0 is open to other machines"]);
    assert!(is_empty(data.path()), "nothing was opened");
    // Two such networks would name everybody.
    for network in ["0.0.0.0/0", "::/0", "0.0.0.0/1,128.0.0.0/1", "::/1,8000::/1"] {
        let told = run(&["config", "show", "--trusted-proxy", network]);
        assert_usage_error(&told, &["--trusted-proxy", "addresses of proxies only"]);
    }
}

/// An address of this machine in a network; `None` if it has none. Nothing is sent.
fn network_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}

#[test]
fn without_tls_this_machine_is_served_at_all_of_its_addresses() {
    let Some(address) = network_address() else {
        eprintln!("this machine is in no network");
        return;
    };
    let mut command = steadfast();
    command.args(["--listen", "0.0.0.0:0", "--access", "closed"]);
    command.args(["--trusted-proxy", "203.0.113.1"]);
    let Ok(server) = Server::begin(command, folder()) else { panic!("it does not start") };
    let port = server.greeting.split_whitespace().find_map(|it| it.split_once("://0.0.0.0:"));
    let port = port.expect("a port").1.trim_end_matches('/');
    for host in [&*address, "127.0.0.1"] {
        let ask = "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\n";
        let answer = raw(&format!("{host}:{port}"), ask);
        assert!(answer.starts_with("HTTP/1.1 401"), "{host}: {answer}");
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a file").next().is_none()
}

#[test]
fn a_proxy_in_front_of_open_access_is_refused() {
    let server = Server::empty();
    let host = server.host();
    for request in [
        // nginx with `proxy_pass` and nothing else.
        format!("GET /v1/streams HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n"),
        // The lines that its guides recommend.
        format!(
            "GET /v1/streams HTTP/1.1\r\nHost: {host}\r\nX-Real-IP: 203.0.113.9\r\n\
             X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n"
        ),
        // Caddy.
        format!(
            "GET /v1/streams HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: 203.0.113.9\r\n\
             X-Forwarded-Host: gate.example.org\r\nX-Forwarded-Proto: https\r\nVia: 2.0 Caddy\r\n\
             Connection: close\r\n"
        ),
        format!(
            "POST /webhooks/runware/g/t/secret HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Forwarded: for=203.0.113.9\r\nContent-Length: 0\r\n"
        ),
    ] {
        let answer = server.raw(&format!("{request}\r\n"));
        let code = Code::ForwardedInOpenMode.tag();
        assert!(answer.contains(" 403 ") && answer.contains(code), "{request}: {answer}");
    }
    assert_eq!(server.get("/v1/streams").status, 200);
}

#[test]
fn the_port_for_webhooks_serves_nothing_else() {
    let server = Server::with(folder(), &["--webhooks-listen", "127.0.0.1:0"]);
    let line = server.greeting.lines().find(|it| it.trim_start().starts_with("webhooks "));
    let url = line.and_then(|it| it.split_whitespace().last()).expect("its address");
    let host = url.strip_prefix("http://").expect("plain HTTP").trim_end_matches('/');
    for path in [
        "/",
        "/healthz",
        "/metrics",
        "/openapi.json",
        "/v1/streams",
        "/generations",
        "/api/generations",
        "/assets/steadfast.css",
        "/webhooks",
        "/webhooks/",
        "/webhooks/none",
        "/webhooks/../v1/streams",
        "/webhooks/%2e%2e/v1/streams",
        "//webhooks/runware/g/t/secret",
        "/%77ebhooks/runware/g/t/secret",
    ] {
        for method in ["GET", "POST"] {
            let answer = raw(host, &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n"));
            assert!(answer.starts_with("HTTP/1.1 404"), "{method} {path}: {answer}");
            assert!(answer.contains("route_not_found"), "{method} {path}: {answer}");
        }
    }
    // Any host and the headers of a proxy are accepted, and the handler decides.
    let hook = "POST /webhooks/runware/g/t/secret HTTP/1.1\r\nHost: gate.example.org\r\n";
    let answer = raw(host, &format!("{hook}X-Forwarded-For: 203.0.113.9\r\n"));
    assert!(answer.contains("unknown_generation"), "{answer}");
    // The other port does not accept them for a foreign host any more.
    assert!(raw(server.host(), hook).contains("foreign_host"));
}

/// Sends a request without a body to a host; returns the whole answer.
fn raw(host: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(host).expect("it listens");
    let request = format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it takes the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn a_provider_reports_to_the_port_for_webhooks() {
    let fake = FakeRunware::start().expect("it starts");
    let hooks = free_host();
    let mut flags = flags(&fake, Some(&hooks), None, 3);
    flags.extend(["--webhooks-listen".to_owned(), hooks]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::with(folder(), &flags);
    let late = ask(&server, "late-webhook never-done", true);
    assert_eq!(ended(&server, &late)["tasks"][0]["error"]["code"], "timeout");
    for task in fake.tasks() {
        fake.send_webhook(&task);
    }
    // Nothing but the webhook can have told it.
    server.json_until(&format!("/api/generations/{late}"), |it| it["status"] == "ready");
}
