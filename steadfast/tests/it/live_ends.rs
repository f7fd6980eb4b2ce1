//! The end of live connections: shutdown, kill, and slow readers.

use std::{collections::BTreeMap, thread};

use rustix::process::Signal;
use serde_json::json;

use crate::{
    harness::Server,
    live::{Guest, Listener},
};

#[test]
fn a_shutdown_closes_connections_and_every_room_sees_it() {
    let mut server = Server::empty();
    let mut guests: Vec<Guest> =
        (0..20).map(|number| Guest::come(&server, "lobby", &format!("name=n{number}"))).collect();
    server.signal(Signal::TERM);
    for guest in &mut guests {
        assert_eq!(guest.end(), (1001, "the server stops; connect again".into()));
    }
    assert_eq!(server.wait(), Some(0));
    let server = Server::on(server.into_folder());
    let mut ann = Guest::come(&server, "lobby", "name=ann");
    assert_eq!(ann.expect_event("here")["names"], json!(["ann"]), "nobody was forgotten");
}

#[test]
fn after_a_kill_reconnected_clients_see_every_line_once_and_no_ghosts() {
    let mut server = Server::empty();
    let mut heard: BTreeMap<i64, String> = BTreeMap::new();
    let mut sent = 0;
    for round in 0..5 {
        let last = heard.keys().next_back().copied().unwrap_or(0);
        let mut ann = Guest::come(&server, "lobby", &format!("name=ann&after={last}"));
        let _bob = Guest::come(&server, "lobby", "name=bob");
        // Lines without a response are sent again with the same key.
        let first = heard.len();
        for number in first..first + 20 {
            ann.say(&format!("k{number}"), &format!("line {number}"));
        }
        sent = sent.max(first + 20);
        while heard.len() < first + 3 + round {
            let line = ann.expect_event("line");
            let (id, text) = (line["id"].as_i64().unwrap(), line["text"].as_str().unwrap());
            let before = heard.insert(id, text.to_owned());
            assert!(before.is_none_or(|it| it == text), "line {id} is another one now");
        }
        server = Server::on(server.kill());
    }
    let history = json!({ "after": 0, "limit": 500 }).to_string();
    let found = server.post_json("/v1/objects/chat/lobby/calls/history", &history, &[]).json();
    let found = found.as_array().unwrap();
    let texts: Vec<&str> = found.iter().map(|it| it["text"].as_str().unwrap()).collect();
    for (line, (id, text)) in found.iter().zip(&heard) {
        assert_eq!((line["id"].as_i64(), line["text"].as_str()), (Some(*id), Some(&**text)));
    }
    assert!(heard.len() <= found.len() && found.len() <= sent, "{} {}", heard.len(), found.len());
    let expected: Vec<String> = (0..found.len()).map(|number| format!("line {number}")).collect();
    assert_eq!(texts, expected, "each once, in the order in which they were said");
    let mut cy = Guest::come(&server, "lobby", "name=cy");
    assert_eq!(cy.expect_event("here")["names"], json!(["cy"]), "the others went with the server");
}

/// Sends long lines until the client that does not read has left the room.
fn say_until_it_is_gone(mut writer: Guest) -> usize {
    let text = "é".repeat(2_000);
    for number in 0.. {
        writer.say(&format!("k{number}"), &text);
        loop {
            let event = writer.event().expect("the writer reads");
            if event["kind"] == "line" {
                break;
            }
            let names = event["names"].as_array().cloned().unwrap_or_default();
            if !names.is_empty() && !names.contains(&json!("slow")) {
                return number;
            }
        }
    }
    unreachable!()
}

#[test]
fn a_client_that_does_not_read_is_closed_with_1013_and_others_are_not_delayed() {
    let server = Server::empty();
    let mut slow = Guest::come(&server, "lobby", "name=slow");
    let mut ann = Guest::come(&server, "lobby", "name=ann");
    let writer = Guest::come(&server, "lobby", "name=writer");
    let says = thread::spawn(move || say_until_it_is_gone(writer));
    let reads = thread::spawn(move || {
        // Two are in the room before the writer joins, and after the slow one has left.
        let mut seen = 0;
        while seen < 3 {
            let here = ann.expect_event("here");
            let count = here["names"].as_array().map_or(0, Vec::len);
            seen = if count == 3 || seen == 2 { seen.max(2) + usize::from(count == 2) } else { 1 };
        }
    });
    let number = says.join().expect("the writer is not held up");
    assert!(10 < number);
    reads.join().expect("the reader is notified");
    let (code, reason) = slow.end();
    assert_eq!(code, 1013, "{reason}");
}

#[test]
fn an_event_client_that_does_not_read_is_disconnected() {
    let mut server = Server::empty();
    let slow = Listener::come(&server, "name=slow", "");
    let writer = Guest::come(&server, "lobby", "name=writer");
    assert!(10 < say_until_it_is_gone(writer));
    // Nor does it delay the shutdown.
    server.signal(Signal::TERM);
    assert_eq!(server.wait(), Some(0));
    drop(slow);
}
