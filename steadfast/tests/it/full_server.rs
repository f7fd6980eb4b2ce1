//! A server whose places are all taken: requests without a place get 503, operators and health
//! checks are served, and one caller takes at most a share of the places for waiting.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use serde_json::json;

use crate::{
    access::Holder,
    damaged_blobs::files,
    harness::{Answer, Server, steadfast, until},
    runs::start,
};

/// Files that the process may open: 64 for itself, and 9 for 4 places of each of two ports.
const FILES: usize = 500;
const PLACES: usize = 96;

/// A server with few places, behind a proxy on this machine, and a run that waits. Clients that
/// neither send nor read stay for longer than a test takes.
fn small() -> Server {
    let program = steadfast();
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {FILES}; exec \"$@\""), "sh"]);
    command.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.args(["--listen", "127.0.0.1:0", "--access", "closed"]);
    command.args(["--trusted-proxy", "127.0.0.1", "--client-timeout", "3600"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::begin(command, folder).expect("it greets").logged_in();
    assert_eq!(start(&server, "", "o-1").status, 201);
    server
}

/// Sends a request for a client behind the proxy, and does not wait for the answer.
fn send(server: &Server, bearer: &str, client: u8, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.host()).expect("it listens");
    let ask = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.0.0.{client}\r\n\
         Authorization: {bearer}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(ask.as_bytes()).expect("it takes the request");
    stream
}

const WAITING: &str = "/v1/workflows/order/runs/o-1?wait=60";

/// Those that have got an answer, which is the same for all.
fn answered(streams: &mut [TcpStream], expected: &str) -> usize {
    let mut count = 0;
    for stream in streams {
        stream.set_nonblocking(true).expect("a socket");
        let mut head = [0; 64];
        match stream.peek(&mut head) {
            Ok(read) => {
                let head = String::from_utf8_lossy(&head[..read]);
                assert!(head.starts_with(&format!("HTTP/1.1 {expected}")), "{head}");
                count += 1;
            }
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
        }
    }
    count
}

fn is_served(answer: &Answer) {
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn long_polls_of_one_token_or_address_leave_places_for_everyone() {
    let server = small();
    let viewer = || Holder::new(&server, &json!({ "role": "viewer" }));
    let (greedy, other) = (viewer(), viewer());
    // Three quarters of the places are for waiting, and half of those for one token.
    let share = PLACES * 3 / 8;
    let mut streams: Vec<TcpStream> =
        (0..150_u8).map(|client| send(&server, &greedy.bearer, client, WAITING)).collect();
    until("the rest is refused", || answered(&mut streams, "429") == 150 - share);
    is_served(&server.get("/healthz"));
    let doctor = server.get("/v1/doctor").body;
    assert!(doctor.contains("may open 500 files, so a port has 96 places"), "{doctor}");
    let ask = |holder: &Holder<'_>, path: &str| {
        server.get_with(path, &[("authorization", &holder.bearer)])
    };
    is_served(&ask(&other, "/v1/workflows/order/runs/o-1"));
    is_served(&ask(&other, "/v1/workflows/order/runs/o-1?wait=0"));
    // From one address the same, whatever the tokens are.
    drop(streams);
    let holders: Vec<_> = (0..10).map(|_| viewer()).collect();
    let mut streams: Vec<TcpStream> =
        (0..150).map(|it| send(&server, &holders[it % 10].bearer, 1, WAITING)).collect();
    until("the rest is refused", || 150 - share - 5 <= answered(&mut streams, "429"));
    is_served(&ask(&other, "/v1/workflows/order/runs/o-1"));
}

#[test]
fn requests_without_a_place_get_503_and_operators_and_health_checks_get_through() {
    let server = small();
    assert!(server.put_json("/v1/buckets/files", &json!({})).status < 300);
    // More than the buffers of a socket: the answer lasts until its client reads.
    let blob = "/v1/buckets/files/objects/large";
    assert!(server.put_bytes(blob, &vec![7; 16 << 20], &[]).status < 300);
    let viewer = Holder::new(&server, &json!({ "role": "viewer" }));
    let mut stuck: Vec<TcpStream> = (0..PLACES)
        .map(|it| send(&server, &viewer.bearer, u8::try_from(it).expect("a byte"), blob))
        .collect();
    let ask = |path: &str| server.get_with(path, &[("authorization", &viewer.bearer)]);
    until("all places are taken", || answered(&mut stuck, "200") == PLACES);
    let refused = ask("/v1/queues");
    refused.assert_problem(503, "server_full");
    assert_eq!(refused.header("retry-after"), "1");
    for _ in 0..5 {
        is_served(&server.get("/healthz"));
        is_served(&server.get("/readyz"));
        // An operator has the admin token.
        is_served(&server.get("/v1/queues"));
        ask("/v1/queues").assert_problem(503, "server_full");
    }
    // Requests in flight are not cut: a client that reads gets everything.
    drop(stuck.split_off(8));
    for mut stream in stuck {
        stream.set_nonblocking(false).expect("a socket");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("the whole answer");
        assert!(received.starts_with(b"HTTP/1.1 200") && 16 << 20 < received.len());
    }
    until("places are free", || ask("/v1/queues").status == 200);
}

#[test]
fn a_long_poll_and_an_upload_end_with_their_token() {
    let server = small();
    assert!(server.put_json("/v1/buckets/files", &json!({})).status < 300);
    let member = Holder::new(&server, &json!({ "role": "member" }));
    let blobs = server.folder().join("blobs");
    let before = files(&blobs).len();
    let mut poll = send(&server, &member.bearer, 1, WAITING);
    let mut upload = TcpStream::connect(server.host()).expect("it listens");
    let ask = format!(
        "PUT /v1/buckets/files/objects/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n\
         Content-Length: 10000000\r\nConnection: close\r\n\r\n",
        member.bearer
    );
    upload.write_all(ask.as_bytes()).expect("it takes the request");
    upload.write_all(&[7; 2_000_000]).expect("it takes the beginning");
    until("the upload has begun", || before < files(&blobs).len());
    member.revoke();
    let mut said = String::new();
    poll.read_to_string(&mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 401") && said.contains("token_revoked"), "{said}");
    let mut said = String::new();
    let _ = upload.read_to_string(&mut said);
    assert!(said.starts_with("HTTP/1.1 401") && said.contains("token_revoked"), "{said}");
    assert_eq!(server.get("/v1/buckets/files/objects/a").status, 404);
}
