//! From start to ready, and the memory of an idle server. Needs the server's binary next to this
//! one.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    time::Duration,
};

use crate::measure::{median, now, resident_mib_of, say};

const ROUNDS: usize = 5;

pub(crate) fn run() {
    let program = std::env::current_exe().expect("our own path").with_file_name("steadfast");
    if !program.exists() {
        say("Start: skipped, build the server first (cargo build --release)");
        return;
    }
    let (mut times, mut resident) = (Vec::new(), 0.0_f64);
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().expect("temporary folder");
        let began = now();
        let mut server = Command::new(&program)
            .args(["serve", "--listen", "127.0.0.1:0", "--s3-listen", "none", "--data"])
            .arg(folder.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("server starts");
        let stdout = BufReader::new(server.stdout.take().expect("piped"));
        let greeting = stdout.lines().map_while(Result::ok);
        let address = greeting.filter_map(|line| {
            line.split_once("http://").map(|(_, rest)| rest.trim_end_matches('/').to_owned())
        });
        ready(&address.take(1).next().expect("server says where it is"));
        times.push(began.elapsed());
        resident = resident.max(resident_mib_of(&server.id().to_string()));
        server.kill().expect("server is killed");
        server.wait().expect("server ends");
    }
    say("Start on an empty folder");
    say(&format!("  ready after                        {:>9.1?}", median(times)));
    say(&format!("  resident memory when idle          {resident:>9.1} MiB"));
}

fn ready(address: &str) {
    let mut stream = TcpStream::connect(address).expect("server listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout is set");
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answer is read");
    assert!(answer.starts_with("HTTP/1.1 200"), "not ready: {answer}");
}
