//! Clients that keep the server waiting, and expensive queries: other clients are still served.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::{
    buckets::{ok, put, with_bucket_and},
    harness::{Server, get_url, put_url},
    object_views::increment,
    seed,
};

/// More than the connection slots of a port.
const CLIENTS: usize = 1_100;

/// Less time for clients than by default.
const HASTE: [&str; 2] = ["--client-timeout", "3"];

/// Sends a part of a request and waits.
fn begin(host: &str, part: &str) -> TcpStream {
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
    stream.write_all(part.as_bytes()).expect("it takes the beginning");
    stream
}

/// Everything that the server sent before it closed the connection.
fn end(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn serves(server: &Server) {
    for _ in 0..20 {
        assert_eq!(server.get("/healthz").status, 200);
        increment(server, "a", 1);
        assert_eq!(server.get("/objects/counter/a").status, 200);
    }
}

#[test]
fn clients_that_send_one_byte_and_wait_lose_their_places_and_get_an_answer() {
    let server = Server::with(tempfile::tempdir().expect("a temporary folder"), &HASTE);
    let part = "POST /v1/objects/counter/a/calls/increment HTTP/1.1\r\nHost: localhost\r\n\
        Content-Length: 100\r\n\r\n{";
    let slow: Vec<_> = (0..CLIENTS).map(|_| begin(server.host(), part)).collect();
    serves(&server);
    let answers: Vec<_> = slow.into_iter().map(end).collect();
    let slow = |it: &&String| it.starts_with("HTTP/1.1 408") && it.contains("slow_request");
    let full = |it: &&String| it.starts_with("HTTP/1.1 503") && it.contains("server_full");
    let (slow, full) = (answers.iter().filter(slow).count(), answers.iter().filter(full).count());
    assert_eq!(slow + full, CLIENTS, "each gets an answer");
    assert!(1_024 <= slow, "{slow} slow, {full} without a place");
    serves(&server);
}

#[test]
fn s3_clients_that_send_one_byte_and_wait_lose_their_places_and_get_an_answer() {
    let server = with_bucket_and("files", &HASTE);
    put(&server, "files/k", b"first");
    let presign = |method: &str| {
        let body = json!({ "key": "k", "method": method }).to_string();
        let answer = server.post_json("/v1/buckets/files/presign", &body, &[]);
        ok(&answer)["url"].as_str().unwrap().to_owned()
    };
    let (write, read) = (presign("PUT"), presign("GET"));
    let host = server.s3_url().strip_prefix("http://").unwrap().trim_end_matches('/');
    let path = write.split_once(host).unwrap().1;
    let part = format!("PUT {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\nx");
    let slow: Vec<_> = (0..CLIENTS).map(|_| begin(host, &part)).collect();
    assert_eq!(put_url(&write, b"whole").status, 200);
    assert_eq!(get_url(&read).body, "whole");
    let answers: Vec<_> = slow.into_iter().map(end).collect();
    let with = |code: &str| answers.iter().filter(|it| it.contains(code)).count();
    let (slow, full) = (with("<Code>RequestTimeout</Code>"), with("<Code>SlowDown</Code>"));
    assert_eq!(slow + full, CLIENTS, "{:?}", answers.last());
    assert!(1_024 <= slow, "{slow} slow, {full} without a place");
    assert_eq!(get_url(&read).body, "whole");
}

#[test]
fn a_client_with_a_low_send_rate_is_disconnected() {
    let server = Server::with(tempfile::tempdir().expect("a temporary folder"), &HASTE);
    let part = "POST /v1/objects/counter/a/calls/increment HTTP/1.1\r\nHost: localhost\r\n\
        Content-Length: 100000\r\n\r\n{";
    let mut slow = begin(server.host(), part);
    slow.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    // It never pauses for long, but its rate is too low.
    let mut answer = [0; 1_024];
    let read = loop {
        match slow.read(&mut answer) {
            Ok(read) => break read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                slow.write_all(b" ").expect("it is still there");
            }
            Err(error) => panic!("{error}"),
        }
    };
    let answer = String::from_utf8_lossy(&answer[..read]);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let server = with_bucket_and("files", &HASTE);
    // More than the socket buffers of both sides.
    let bytes = vec![b'x'; 64 << 20];
    let path = "/v1/buckets/files/objects/large";
    assert!(server.put_bytes(path, &bytes, &[]).status < 300);
    let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let stuck = begin(server.host(), &ask);
    let port = stuck.local_addr().unwrap().port();
    // Nothing is read here: the server must close the connection by itself.
    server.text_until("/metrics", |_| !has_connection(&server, port));
    assert!(end(stuck).len() < bytes.len(), "it was cut in the middle");
    assert_eq!(server.get_with(path, &[("range", "bytes=0-3")]).body, "xxxx");
}

#[test]
fn a_client_that_reads_slowly_stays_connected() {
    let server = with_bucket_and("files", &["--client-timeout", "5"]);
    let bytes = vec![b'x'; 64 << 20];
    let path = "/v1/buckets/files/objects/large";
    assert!(server.put_bytes(path, &bytes, &[]).status < 300);
    let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut slow = begin(server.host(), &ask);
    let port = slow.local_addr().unwrap().port();
    // 128 KiB per second, for longer than the timeout of a client that reads nothing.
    let mut piece = vec![0; 64 << 10];
    for _ in 0..24 {
        slow.read_exact(&mut piece).expect("the response continues");
        std::thread::park_timeout(Duration::from_millis(500));
    }
    assert!(has_connection(&server, port), "it was cut");
}

/// Whether the server still has the connection from this port: its end is established.
fn has_connection(server: &Server, port: u16) -> bool {
    sockets(server, port).is_some_and(|it| it.established)
}

struct Socket {
    established: bool,
    keeps_alive: bool,
}

/// The server's end of the connection from this port, as the system reports it.
fn sockets(server: &Server, port: u16) -> Option<Socket> {
    let (_, own) = server.host().rsplit_once(':').expect("a port");
    let own: u16 = own.parse().expect("a port");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux tells of its sockets");
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ends = |it: &str, port: u16| it.ends_with(&format!(":{port:04X}"));
        let is_it = ends(words[1], own) && ends(words[2], port);
        is_it.then(|| Socket {
            established: words[3] == "01",
            keeps_alive: words[5].starts_with("02"),
        })
    })
}

#[test]
fn a_connection_has_keepalive_probes() {
    let server = Server::empty();
    // The beginning of a head, so that the server waits.
    let stream = begin(server.host(), "GET / HTTP/1.1\r\n");
    let port = stream.local_addr().unwrap().port();
    server.text_until("/healthz", |_| sockets(&server, port).expect("it is there").keeps_alive);
}

/// More than slots; `STEADFAST_SOAK=1 ./test` opens 10,000, or as many as the system allows.
fn idle_clients() -> usize {
    if std::env::var_os("STEADFAST_SOAK").is_none() {
        return CLIENTS;
    }
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("it is allowed");
    let allowed = maximum.map_or(10_000, |it| usize::try_from(it).unwrap_or(usize::MAX));
    allowed.saturating_sub(1_000).min(10_000)
}

#[test]
fn idle_connections_block_no_client() {
    let server = Server::empty();
    let idle: Vec<_> = (0..idle_clients()).map(|_| begin(server.host(), "")).collect();
    eprintln!("{} idle connections", idle.len());
    assert!(CLIENTS <= idle.len(), "the system allows only {} connections", idle.len());
    serves(&server);
    drop(idle);
    serves(&server);
}

/// Connects from another address of this machine.
fn connect_from(address: [u8; 4], host: &str) -> TcpStream {
    let host = host.parse().expect("an address");
    let connected = seed::block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((address, 0)))?;
        socket.connect(host).await?.into_std()
    });
    let stream = connected.expect("it listens");
    stream.set_nonblocking(false).expect("a socket");
    stream
}

#[test]
fn a_peer_with_too_many_idle_connections_gets_no_more_and_blocks_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let flags = ["--access", "closed", "--connections-per-peer", "50"];
    let server = Server::with(folder, &flags).logged_in();
    let idle: Vec<_> = (0..50).map(|_| begin(server.host(), "")).collect();
    let mut refused = 0;
    for _ in 0..10 {
        // The server closes it at once: the others are closed after five seconds.
        refused += usize::from(end(begin(server.host(), "")).is_empty());
    }
    assert_eq!(refused, 10);
    let waits = |stream: &TcpStream| {
        stream.set_nonblocking(true).expect("a socket");
        stream.peek(&mut [0]).is_err_and(|it| it.kind() == ErrorKind::WouldBlock)
    };
    assert!(idle.iter().all(waits), "the first ones stay");
    // Another address of this machine is another peer.
    let mut other = connect_from([127, 0, 0, 2], server.host());
    let ask = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    other.write_all(ask.as_bytes()).expect("it takes the request");
    assert!(end(other).starts_with("HTTP/1.1 200"), "others are served");
    drop(idle);
    // Requests are refused until the server has noticed.
    let is_served = |_| server.try_get("/metrics").is_ok_and(|it| it.status == 200);
    assert!((0..1_000).any(is_served));
    let metrics = server.get("/metrics").body;
    let count = metrics.lines().find_map(|it| {
        it.strip_prefix("steadfast_connections_refused_total ")?.parse::<usize>().ok()
    });
    assert!(Some(10) <= count, "{metrics}");
}

#[test]
fn expensive_queries_time_out_and_do_not_delay_pages() {
    let server = Server::empty();
    increment(&server, "a", 1);
    let big = "hex(zeroblob(2000000))";
    let costly = [
        format!("SELECT trim({big} || 'x', {big} || '0')"),
        format!("SELECT rtrim('x' || {big}, {big} || '0')"),
        format!("SELECT instr({big}, {big} || '1')"),
        format!("SELECT replace({big}, substr({big}, 1, 2000000) || '1', 'x')"),
        format!("SELECT unhex({big} || 'x', {big} || 'y')"),
        format!("SELECT max({}) COLLATE NOCASE", vec![big; 100].join(", ")),
        format!("SELECT printf('%s', {})", vec![big; 100].join(", ")),
        format!("SELECT {big} LIKE '{}1'", "%_".repeat(400)),
        format!("SELECT json_patch(json_group_array({big}), '{{}}')"),
    ];
    std::thread::scope(|scope| {
        let asked: Vec<_> = (costly.iter().chain(&costly))
            .map(|sql| {
                let server = &server;
                let ask = move || {
                    let body = json!({ "sql": sql }).to_string();
                    server.post_json("/v1/objects/counter/a/sql", &body, &[])
                };
                (sql, scope.spawn(ask))
            })
            .collect();
        serves(&server);
        assert_eq!(server.get("/objects/counter/a/tables/counter").status, 200);
        for (sql, answer) in asked {
            let answer = answer.join().unwrap();
            assert!([422, 429].contains(&answer.status), "{sql:.40}: {}", answer.body);
        }
    });
    // Four queries run until their timeout; pages are answered before.
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
         SELECT count(*) FROM n";
    let body = json!({ "sql": endless }).to_string();
    let ask = format!(
        "POST /v1/objects/counter/a/sql HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let is_first = || {
        let asked: Vec<_> = (0..4).map(|_| begin(server.host(), &ask)).collect();
        let pages = ["/objects/counter/a", "/objects/counter/a/tables/counter"];
        assert!(pages.iter().all(|it| server.get(it).status == 200));
        let waits = |stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            stream.peek(&mut [0]).is_err()
        };
        // On a busy machine the four may have ended by now.
        asked.iter().all(waits)
    };
    assert!((0..20).any(|_| is_first()), "pages wait for questions");
    // The four queries timed out, so their slots are free.
    let body = json!({ "sql": "SELECT 1" }).to_string();
    assert_eq!(server.post_json("/v1/objects/counter/a/sql", &body, &[]).status, 200);
}
