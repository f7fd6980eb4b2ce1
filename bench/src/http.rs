//! Calls of objects over HTTP, with connections that stay open: the server of this workspace,
//! compared to the best peer on a similar machine.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use crate::measure::{now, percentiles, rate, resident_mib_of, say};

/// The best peer (workerd), per second, from our own runs on a quiet machine with two cores.
const PEER_ONE: f64 = 1_712.0;
const PEER_MANY: f64 = 1_679.0;
/// And one call at a time, in milliseconds.
const PEER_P50: f64 = 0.78;
const PEER_P99: f64 = 2.1;

const CALLERS: usize = 64;

pub(crate) fn run() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let Some((mut child, address)) = serve(folder.path()) else { return };
    say("Objects over HTTP, 64 callers, connections stay open");
    for (shape, count, peer) in [("one object", 1, PEER_ONE), ("1,000 objects", 1_000, PEER_MANY)] {
        together(&address, shape, count, 10_000);
        let rate = together(&address, shape, count, 100_000);
        say(&format!("  {shape:<34} {rate:>9.0}/s {:>6.1} x the best peer", rate / peer));
    }
    let (p50, p99) = alone(&address, 5_000);
    say(&format!(
        "  one at a time: p50 {p50:.2} ms, p99 {p99:.2} ms (best peer {PEER_P50}, {PEER_P99})"
    ));
    let resident = resident_mib_of(&child.id().to_string());
    say(&format!("  resident                           {resident:>9.1} MiB"));
    // A benchmark leaves nothing running.
    let _ = child.kill();
    let _ = child.wait();
}

/// The server of this workspace, if it was built.
pub(crate) fn serve(folder: &std::path::Path) -> Option<(Child, String)> {
    let server = std::env::current_exe().expect("own path").with_file_name("steadfast");
    if !server.exists() {
        say("HTTP: skipped, build the server first: cargo build --release");
        return None;
    }
    Some(start(&server, folder))
}

pub(crate) fn start(server: &std::path::Path, folder: &std::path::Path) -> (Child, String) {
    let (child, mut addresses) = spawn(server, folder, "none", 1);
    (child, addresses.remove(0))
}

/// The server and the address of its S3 port, if it was built.
pub(crate) fn serve_s3(folder: &std::path::Path) -> Option<(Child, String, String)> {
    let server = std::env::current_exe().expect("own path").with_file_name("steadfast");
    if !server.exists() {
        say("S3: skipped, build the server first: cargo build --release");
        return None;
    }
    let (child, mut addresses) = spawn(&server, folder, "127.0.0.1:0", 2);
    let (s3, address) = (addresses.remove(1), addresses.remove(0));
    Some((child, address, s3))
}

/// Starts a server that prints this many addresses.
fn spawn(
    server: &std::path::Path,
    folder: &std::path::Path,
    s3: &str,
    count: usize,
) -> (Child, Vec<String>) {
    let mut child = Command::new(server)
        .args(["--data", &folder.display().to_string(), "--listen", "127.0.0.1:0"])
        .args(["--s3-listen", s3])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("server starts");
    let out = BufReader::new(child.stdout.take().expect("piped"));
    let addresses = out.lines().map_while(Result::ok).filter_map(|line| {
        let (_, rest) = line.split_once("http://")?;
        Some(rest.split(['/', ' ', '"']).next()?.to_owned())
    });
    let addresses: Vec<String> = addresses.take(count).collect();
    assert_eq!(addresses.len(), count, "server says where it listens");
    (child, addresses)
}

/// A client with a connection that stays open.
pub(crate) struct Caller {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Caller {
    pub(crate) fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("server answers");
        stream.set_nodelay(true).expect("option");
        Self { stream: BufReader::new(stream), host: address.into() }
    }

    fn increment(&mut self, name: &str) {
        self.post(&format!("/v1/objects/counter/{name}/calls/increment"), r#"{"by":1}"#);
    }

    /// One GET request, and its answer.
    pub(crate) fn get(&mut self, path: &str) -> String {
        self.ask(format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.host))
    }

    /// One POST request, and its answer.
    pub(crate) fn post(&mut self, path: &str, body: &str) -> String {
        self.ask(format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        ))
    }

    /// One PUT request with JSON.
    pub(crate) fn put_json(&mut self, path: &str, body: &str) -> String {
        self.ask(format!(
            "PUT {path} HTTP/1.1\r\nhost: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        ))
    }

    /// One PUT request with bytes.
    pub(crate) fn put(&mut self, path: &str, body: &str) -> String {
        self.ask(format!(
            "PUT {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        ))
    }

    /// Sends one file in a form.
    pub(crate) fn post_file(&mut self, path: &str, name: &str, file: &[u8]) -> String {
        let field = format!(
            "--part\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
        );
        let body = [field.as_bytes(), file, b"\r\n--part--\r\n"].concat();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\n\
             content-type: multipart/form-data; boundary=part\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.ask([head.as_bytes(), &body].concat())
    }

    fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        self.stream.get_mut().write_all(request.as_ref()).expect("request is sent");
        let mut length = 0;
        let mut line = String::new();
        for number in 0.. {
            line.clear();
            self.stream.read_line(&mut line).expect("answer");
            assert!(0 < number || line.starts_with("HTTP/1.1 20"), "{line}");
            if line == "\r\n" {
                break;
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().expect("a number");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("body");
        String::from_utf8(body).expect("text")
    }
}

fn together(address: &str, shape: &str, count: usize, calls: usize) -> f64 {
    let shape = shape.replace([' ', ','], "-");
    all_at_once(address, calls, |connection, number| {
        connection.increment(&format!("{shape}-{}", number % count));
    })
}

/// 64 callers, each with a connection of its own; calls per second.
pub(crate) fn all_at_once(
    address: &str,
    calls: usize,
    call: impl Fn(&mut Caller, usize) + Sync,
) -> f64 {
    let began = now();
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let call = &call;
            scope.spawn(move || {
                let mut connection = Caller::new(address);
                for number in 0..calls / CALLERS {
                    call(&mut connection, caller + CALLERS * number);
                }
            });
        }
    });
    rate(calls / CALLERS * CALLERS, began.elapsed())
}

fn alone(address: &str, calls: usize) -> (f64, f64) {
    one_by_one(address, calls, |connection, _| connection.increment("alone"))
}

/// One caller; the median and the 99th percentile in milliseconds.
pub(crate) fn one_by_one(
    address: &str,
    calls: usize,
    call: impl Fn(&mut Caller, usize),
) -> (f64, f64) {
    let mut connection = Caller::new(address);
    let times = (0..calls).map(|number| {
        let began = now();
        call(&mut connection, number);
        began.elapsed()
    });
    percentiles(times.collect())
}
