//! Starting and stopping.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use rustix::process::Signal;
use steadfast_store::Store;

use crate::{
    harness::{Server, assert_fails_with, run},
    seed,
};

#[test]
fn the_greeting_shows_address_data_folder_and_next_steps() {
    let server = Server::seeded();
    let greeting = &server.greeting;
    assert!(greeting.contains(&format!("{}/", server.url)), "{greeting}");
    assert!(greeting.contains(server.folder().to_str().unwrap()), "{greeting}");
    assert!(greeting.contains(&format!("streams list --server {}", server.url)), "{greeting}");
}

#[test]
fn a_missing_data_folder_is_created() {
    let outer = tempfile::tempdir().unwrap();
    let folder = tempfile::Builder::new().tempdir_in(outer.path()).unwrap();
    std::fs::remove_dir(folder.path()).unwrap();
    let server = Server::on(folder);
    assert!(server.folder().join("steadfast.db").is_file());
}

#[test]
fn both_signals_stop_it_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = Server::seeded();
        server.signal(signal);
        assert_eq!(server.wait(), Some(0));
        let store = seed::open(server.folder());
        assert_eq!(store.owner().unclean_until, None, "the store records a clean shutdown");
    }
}

/// A client that has requested some megabytes and has read the first line of the response.
fn slow_reader(server: &Server) -> BufReader<TcpStream> {
    let mut stream = server.connect();
    stream
        .write_all(b"GET /v1/streams/stream/large/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("it takes the request");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("it answers");
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    reader
}

fn wait_until_it_does_not_listen(server: &Server) {
    while TcpStream::connect(server.host()).is_ok() {
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
}

fn with_large_messages() -> Server {
    let folder = tempfile::tempdir().expect("a folder");
    seed::fill_large(folder.path(), 8);
    Server::on(folder)
}

#[test]
fn an_answer_in_flight_is_finished_before_it_stops() {
    let mut server = with_large_messages();
    let mut reader = slow_reader(&server);
    server.signal(Signal::TERM);
    wait_until_it_does_not_listen(&server);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"}"), "the answer is complete");
    assert!(7 << 20 < rest.len(), "{} bytes", rest.len());
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_second_signal_stops_it_at_once() {
    let mut server = with_large_messages();
    let _reader = slow_reader(&server);
    server.signal(Signal::TERM);
    wait_until_it_does_not_listen(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(1));
}

#[test]
fn a_taken_port_names_the_flag() {
    let server = Server::seeded();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let output = run(&["serve", "--listen", server.host(), "--data", data.to_str().unwrap()]);
    assert_fails_with(&output, &["--listen", server.host()]);
    assert!(!data.exists(), "nothing is made for a server that does not start");
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8787"] {
        let output = run(&["--listen", open, "--data", data]);
        assert_fails_with(&output, &["--listen", open, "127.0.0.1"]);
    }
    assert_eq!(run(&["--listen", "8787", "--data", data]).status.code(), Some(2));
}

#[test]
fn a_second_process_on_one_folder_is_refused() {
    let server = Server::seeded();
    let data = server.folder().to_str().unwrap();
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
    assert_fails_with(&output, &[data, "served by another process"]);
}

#[test]
fn a_file_of_another_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("steadfast.db"), "not a database, but a text").unwrap();
    let output = run(&["--listen", "127.0.0.1:0", "--data", folder.path().to_str().unwrap()]);
    assert_fails_with(&output, &["not a steadfast store"]);
}

#[test]
fn a_store_of_an_unknown_kind_is_a_mistake_in_usage() {
    let output = run(&["serve", "--store", "mysql://x"]);
    assert_eq!(output.status.code(), Some(2));
}
