//! One test for each primitive.

use std::{net::TcpStream, process::Command};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

use crate::harness::{Server, until};

#[test]
fn an_account_keeps_its_balance_over_a_kill_and_refuses_to_go_below_zero() {
    let server = Server::start(env!("CARGO_BIN_EXE_object"));
    let call = |server: &Server, message: &str, cents: u32| {
        let path = format!("/v1/objects/account/ada/calls/{message}");
        server.post(&path, &json!({ "cents": cents }))
    };
    assert_eq!(call(&server, "deposit", 500).json(), 500);
    assert_eq!(call(&server, "withdraw", 200).json(), 300);
    let server = server.kill_and_restart();
    let refused = call(&server, "withdraw", 301);
    assert_eq!((refused.status, &*refused.code()), (422, "balance_too_low"));
    assert_eq!(call(&server, "withdraw", 300).json(), 0);
}

#[test]
fn an_order_continues_after_a_kill_without_a_second_invoice() {
    let server = Server::start(env!("CARGO_BIN_EXE_workflow"));
    let run = "/v1/workflows/order/runs/o-1";
    let start = json!({ "id": "o-1", "input": { "cents": 900 } });
    assert_eq!(server.post("/v1/workflows/order/runs", &start).status, 201);
    until(&json!("waiting"), || server.get(run).json()["status"].clone());
    let server = server.kill_and_restart();
    let paid = server.post(&format!("{run}/events/payment"), &json!({ "cents": 900 }));
    assert_eq!(paid.status, 200, "{paid:?}");
    let ended = server.get(&format!("{run}?wait=30")).json();
    assert_eq!(ended["output"], "shipped, invoice o-1 is paid");
    let steps = ended["steps"].as_array().expect("the steps are a list");
    let invoice = steps.iter().find(|it| it["name"] == "invoice").expect("a step");
    assert_eq!(invoice["attempts"].as_array().map(Vec::len), Some(1), "{invoice}");
}

#[test]
fn a_seat_is_charged_once_and_then_booked() {
    let server = Server::start(env!("CARGO_BIN_EXE_process"));
    let reserve = json!({ "type": "Reserve", "data": "12a" });
    let decided = server.post("/v1/processes/booking/12a/inputs", &reserve).json();
    assert_eq!(decided["outputs"][0]["type"], "Charge");
    let status = || server.get("/v1/processes/booking/12a").json()["status"].clone();
    until(&json!("completed"), status);
    let again = server.post("/v1/processes/booking/12a/inputs", &reserve).json();
    assert_eq!(again["ignored"], true);
    let shown = server.run(&["processes", "show", "booking", "12a"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("Charged"), "{shown:?}");
}

#[test]
fn mail_reaches_its_mailbox_once_and_mail_without_a_recipient_is_a_dead_letter() {
    let server = Server::start(env!("CARGO_BIN_EXE_queue"));
    let send = |to: &str| {
        let mail = json!({ "body": { "to": to, "text": "hello" } });
        assert_eq!(server.post("/v1/queues/mail/messages", &mail).status, 201);
    };
    send("ada");
    send("");
    until(&json!([["hello"]]), || server.rows("mailbox", "ada", "SELECT * FROM mail"));
    until(&json!(1), || server.get("/v1/queues/mail-dead").json()["ready"].clone());
    let query = ["objects", "sql", "mailbox", "ada", "SELECT * FROM mail"];
    let asked = server.run(&query);
    assert!(String::from_utf8_lossy(&asked.stdout).contains("hello"), "{asked:?}");
}

#[test]
fn a_client_in_another_process_sends_mail() {
    let server = Server::start(env!("CARGO_BIN_EXE_queue"));
    let client = |url: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_client"));
        command.args([url, "grace", "from elsewhere"]).output().expect("the program runs")
    };
    let sent = client(&server.url);
    assert!(String::from_utf8_lossy(&sent.stdout).starts_with("sent; "), "{sent:?}");
    let mails = || server.rows("mailbox", "grace", "SELECT * FROM mail");
    until(&json!([["from elsewhere"]]), mails);
    let nobody = client("http://127.0.0.1:1");
    let text = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(!nobody.status.success() && text.contains("nothing was sent"), "{text}");
}

#[test]
fn the_album_follows_the_bucket() {
    let server = Server::start(env!("CARGO_BIN_EXE_bucket"));
    let photos = || server.rows("album", "all", "SELECT name, bytes FROM photo ORDER BY name");
    server.put("/v1/buckets/photos/objects/cat.jpg", b"meow").json();
    until(&json!([["cat.jpg", 4]]), photos);
    server.put("/v1/buckets/photos/objects/cat.jpg", b"purr, purr").json();
    until(&json!([["cat.jpg", 10]]), photos);
    assert_eq!(server.get("/v1/buckets/photos/objects/cat.jpg").body, "purr, purr");
}

#[test]
fn a_line_reaches_all_connections_and_those_that_missed_it() {
    let server = Server::start(env!("CARGO_BIN_EXE_live"));
    let (mut ada, mut bob) = (connect(&server, ""), server.events(&path("connect")));
    ada.send(Message::text("hello")).expect("it is sent");
    assert_eq!((text(&mut ada), event(&mut bob)), (json!("hello"), json!("hello")));
    let say =
        |server: &Server, text: &str| server.post(&path("calls/say"), &json!({ "text": text }));
    say(&server, "how are you?").json();
    assert_eq!((text(&mut ada), event(&mut bob)), (json!("how are you?"), json!("how are you?")));
    let server = server.kill_and_restart();
    // The number of the last line that this client has seen.
    let mut again = connect(&server, "after=1");
    assert_eq!(text(&mut again), "how are you?");
}

fn path(rest: &str) -> String {
    format!("/v1/objects/room/lobby/{rest}")
}

fn connect(server: &Server, query: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(server.host()).expect("it listens");
    let url = format!("ws://{}{}?{query}", server.host(), path("connect"));
    tungstenite::client(url, stream).expect("it accepts the connection").0
}

/// The next text of a WebSocket.
fn text(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        if let Message::Text(text) = socket.read().expect("the connection is open") {
            return serde_json::from_str(&text).expect("the text is JSON");
        }
    }
}

/// The next server-sent event.
fn event(lines: &mut impl Iterator<Item = String>) -> Value {
    let data = lines.find_map(|it| it.strip_prefix("data: ").map(str::to_owned));
    serde_json::from_str(&data.expect("the stream is open")).expect("the data is JSON")
}

#[test]
fn a_reminder_fires_once_after_a_kill() {
    let server = Server::start(env!("CARGO_BIN_EXE_later"));
    let tea = json!({ "of": "tea", "seconds": 1 });
    server.post("/v1/objects/desk/ada/calls/remind", &tea).json();
    let server = server.kill_and_restart();
    until(&json!([["tea"]]), || server.rows("desk", "ada", "SELECT of FROM rang"));
}
