//! Messages that objects send, as other clients see them.

use std::sync::Arc;

use serde_json::{Value, json};
use steadfast_store::{Json, Message, Store, Streams};

use crate::{
    harness::{Server, stderr, stdout},
    seed,
};

const SENDER: &str = "object/sender/s";

fn message(action: &'static str, message_type: &str, data: &Value, target: &str) -> Message {
    let json = |value: &Value| Json::parse(&value.to_string()).expect("JSON");
    let beside = json!({"to": target, "outcome": "performed"});
    let message = Message::new(message_type, json(data)).expect("a message").action(action);
    message.metadata(json(&beside)).expect("a message").to(&seed::address(target))
}

/// A folder of a program with more classes.
fn fill(folder: &std::path::Path) {
    let _alone = seed::alone();
    let messages = vec![
        message("call", "increment", &json!({"by": 2}), "object/counter/a"),
        message("wake", "alarm", &json!({"dueAt": 1}), "object/counter/none"),
        message("call", "increment", &json!({"by": "x"}), "object/counter/a"),
        message("call", "say", &json!(null), "object/parrot/p"),
        message("wake", "alarm", &json!({"dueAt": 1}), "object/parrot/p"),
        message("perform", "mail", &json!({}), SENDER),
        message("enqueue", "mail", &json!({}), "queue/mail/0"),
        message("start", "import", &json!({}), "run/import/1"),
    ];
    seed::block_on(async {
        let store = Arc::new(seed::open(folder));
        let streams = Streams::new(store.clone());
        streams.append(&seed::address(SENDER), 0, messages).await.expect("appended");
        store.close().await;
    });
}

fn column(stream: &Value, name: &str) -> Vec<String> {
    let items = stream["items"].as_array().expect("a list");
    items.iter().map(|it| it[name].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn messages_to_objects_are_delivered_and_those_of_other_programs_wait() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let server = Server::on(folder);
    let path = format!("/v1/streams/{SENDER}");
    let settled = |it: &Value| column(it, "state")[..3] == ["done", "done", "dead"];
    let stream = server.json_until(&path, settled);
    assert_eq!(column(&stream, "state")[3..], ["pending"; 5], "{stream}");
    let error = stream["items"][2]["error"].as_str().unwrap();
    assert!(error.contains("malformed at `by`"), "{error}");
    assert_eq!(server.post("/v1/objects/counter/a/calls/read", &[]).body, "2");
    assert_eq!(server.post("/v1/objects/counter/none/calls/read", &[]).body, "0");
    assert_eq!(column(&server.json("/v1/streams/pending"), "action").len(), 5);
}

#[test]
fn pages_command_line_and_doctor_show_messages_of_objects() {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    let server = Server::on(folder);
    let path = format!("/v1/streams/{SENDER}");
    server.json_until(&path, |it| column(it, "state")[2] == "dead");
    for page in ["/", "/streams", "/streams/pending", "/streams/dead", "/processes"] {
        assert_eq!(server.get(page).status, 200, "{page}");
    }
    let page = server.get(&format!("/streams/{SENDER}"));
    assert_eq!(page.status, 200);
    let shown = server.ask(&["streams", "show", SENDER]);
    for word in ["increment", "alarm", "say", "mail", "import", "malformed at `by`"] {
        assert!(page.body.contains(word), "{word}");
        assert!(stdout(&shown).contains(word), "{}{}", stdout(&shown), stderr(&shown));
    }
    // An object that has sent nothing is not in the list of streams, and its pages work.
    server.post_json("/v1/objects/counter/b/calls/increment", r#"{"by": 1}"#, &[]);
    assert_eq!(server.json("/v1/streams")["items"].as_array().unwrap().len(), 1);
    assert_eq!(server.json("/v1/streams/object/counter/b")["items"], json!([]));
    assert_eq!(server.get("/streams/object/counter/b").status, 200);
    let doctor = server.json("/v1/doctor");
    assert_eq!(doctor["ok"], true, "{doctor}");
    let folder = server.stop();
    let offline = crate::harness::run(&["doctor", "--data", folder.to_str().unwrap()]);
    assert!(offline.status.success(), "{}", stdout(&offline));
    std::fs::remove_dir_all(folder).unwrap();
}
