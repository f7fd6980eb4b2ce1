//! Events for the subscribers of an organization.

use std::sync::atomic::Ordering;

use serde_json::Value;

use crate::{
    classifier::{BLUE, Classifier, RED, picture, upload},
    harness::Server,
    live::{Guest, Listener},
};

const EVENTS: &str = "/api/organizations/acme/events";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Two subscribers, over server-sent events and a WebSocket, that get the same events.
struct Ears {
    listener: Listener,
    guest: Guest,
}

impl Ears {
    fn open(server: &Server) -> Self {
        let listener = Listener::at(server, EVENTS, "");
        let url = format!("ws://{}{EVENTS}", server.host());
        let (socket, _) = tungstenite::client(url, server.connect()).expect("it is accepted");
        Self { listener, guest: Guest { socket } }
    }

    /// The next of a type, both ways.
    fn hear(&mut self, kind: &str) -> Value {
        let told = loop {
            let (_, told) = self.listener.event();
            if told["type"] == kind {
                break told;
            }
        };
        loop {
            let heard = self.guest.event().expect("it is open");
            if heard["type"] == kind {
                assert_eq!(heard, told);
                return told;
            }
        }
    }
}

#[test]
fn subscribers_get_every_change_over_a_websocket_and_as_events() {
    let classifier = Classifier::start();
    let server = classifier.serve(folder());
    let mut ears = Ears::open(&server);
    upload(&server, "acme", "a.png", &picture(RED));
    let received = ears.hear("upload_received");
    assert_eq!(received["name"], "a.png");
    let progress = ears.hear("workflow_progress");
    assert_eq!((&progress["status"], &progress["step"]), (&"running".into(), &"load-image".into()));
    let started = ears.hear("classification_workflow_started");
    assert_eq!(started["eventId"], received["eventId"]);
    assert_eq!(progress["workflowId"], started["workflowId"]);
    let progress = ears.hear("workflow_progress");
    assert_eq!(
        (&progress["status"], &progress["step"]),
        (&"classified".into(), &"persist-result".into())
    );
    let updated = ears.hear("classification_updated");
    assert_eq!((&updated["label"], &updated["eventId"]), (&"RED".into(), &received["eventId"]));
    server.delete("/api/organizations/acme/uploads/a.png");
    assert_eq!(ears.hear("upload_deleted")["name"], "a.png");
    server.put_bytes("/v1/buckets/uploads/objects/acme/no.png", b"no image", &[]);
    assert_eq!(ears.hear("classification_error")["name"], "no.png");
    server.put_bytes("/v1/buckets/uploads/objects/acme/a/b.png", &picture(BLUE), &[]);
    assert_eq!(ears.hear("upload_error")["name"], "acme/a/b.png");
    // A message that is no event is acknowledged and counted, and harms nobody.
    let sent = server.post_json("/v1/queues/upload-events/messages", r#"{"body":{"x":1}}"#, &[]);
    assert!((200..300).contains(&sent.status), "{}", sent.body);
    server.json_until("/v1/queues/upload-events", |it| it["depth"] == 0);
    for queue in ["upload-events", "upload-events-dlq"] {
        assert_eq!(server.json(&format!("/v1/queues/{queue}"))["dead"], 0);
    }
    // The dead-letter queue retries through an outage of hours.
    let settings = server.json("/v1/queues/upload-events-dlq");
    assert_eq!(settings["settings"]["maxRetries"], 1_000, "{settings}");
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("steadfast_upload_events_malformed_total 1"), "{metrics}");
}

#[test]
fn a_run_that_waits_for_its_model_says_so() {
    let models = folder();
    let flags = [
        "--uploads-models-pull",
        "never",
        "--uploads-models",
        models.path().to_str().expect("a text"),
    ];
    let server = Server::with(folder(), &flags);
    let mut ears = Ears::open(&server);
    upload(&server, "acme", "a.png", &picture(RED));
    assert_eq!(ears.hear("workflow_progress")["step"], "load-image");
    let told = ears.hear("workflow_progress");
    assert_eq!((&told["name"], &told["status"]), (&"a.png".into(), &"running".into()));
    assert_eq!(told["step"], "classify-image");
    assert!(told["message"].as_str().is_some_and(|it| it.contains("resnet-50")), "{told}");
}

#[test]
fn an_image_whose_classifier_is_down_is_tried_again_until_it_is_back() {
    let classifier = Classifier::start();
    classifier.is_down.store(true, Ordering::SeqCst);
    let server = classifier.serve(folder());
    upload(&server, "acme", "a.png", &picture(RED));
    let path = "/api/organizations/acme/uploads/a.png";
    server.json_until(path, |_| 0 < classifier.asked.load(Ordering::SeqCst));
    classifier.is_down.store(false, Ordering::SeqCst);
    let shown = server.json_until(path, |it| it["status"] == "classified");
    assert_eq!((&shown["classificationLabel"], &shown["error"]), (&"RED".into(), &Value::Null));
}
