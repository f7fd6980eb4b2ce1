//! Generations over HTTP, with the embedded provider.

use serde_json::{Value, json};

use crate::{harness::Server, live::Guest};

const GENERATIONS: &str = "/api/generations";

fn ask(server: &Server, count: u32, prompt: &str) -> String {
    let body = json!({
        "model": "embedded:art@1",
        "input": { "positivePrompt": prompt, "width": 128, "height": 64, "seed": 3 },
        "count": count,
        "tags": ["test"],
    });
    let answer = server.post_json(GENERATIONS, &body.to_string(), &[]);
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.json()["id"].as_str().expect("an id").to_owned()
}

fn ready(server: &Server, id: &str) -> Value {
    server.json_until(&format!("{GENERATIONS}/{id}"), |it| it["status"] == "ready")
}

#[test]
fn what_is_asked_for_appears_in_the_library_and_stays() {
    let server = Server::empty();
    let id = ask(&server, 3, "a quiet harbour");
    let shown = ready(&server, &id);
    assert_eq!((&shown["ready"], &shown["failed"]), (&json!(3), &json!(0)));
    let artifacts = shown["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 3);
    let list = server.json("/api/artifacts?tag=test");
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    let mut seen = Vec::new();
    for item in list["items"].as_array().unwrap() {
        let (bytes, headers) = server.bytes(item["fileUrl"].as_str().unwrap());
        assert_eq!(headers["content-type"], "image/png");
        assert!(headers["cache-control"].to_str().unwrap().contains("immutable"));
        let image = image::load_from_memory(&bytes).unwrap();
        assert_eq!((image.width(), image.height()), (128, 64));
        seen.push(bytes);
    }
    seen.dedup();
    assert_eq!(seen.len(), 3, "each has a seed of its own");
    let server = Server::on(server.kill());
    assert_eq!(ready(&server, &id)["artifacts"], shown["artifacts"]);
}

#[test]
fn files_are_given_in_part_in_other_sizes_and_not_again() {
    let server = Server::empty();
    let id = ask(&server, 1, "a mountain");
    let shown = ready(&server, &id);
    let artifact = shown["artifacts"][0]["id"].as_str().unwrap();
    let file = format!("/artifacts/{artifact}/file.png");
    let (whole, headers) = server.bytes(&file);
    let etag = headers["etag"].to_str().unwrap();
    let same = server.get_with(&file, &[("if-none-match", etag)]);
    assert_eq!((same.status, same.body.len()), (304, 0));
    assert!(same.header("cache-control").ends_with("immutable"));
    let (small, headers) = server.bytes(&format!("{file}?w=32"));
    assert_eq!(headers["content-type"], "image/jpeg");
    let small = image::load_from_memory(&small).unwrap();
    assert_eq!((small.width(), small.height()), (32, 16));
    let part = server.get_with(&file, &[("range", "bytes=1-3")]);
    assert_eq!((part.status, part.body.as_str()), (206, "PNG"));
    assert_eq!(part.header("content-range"), format!("bytes 1-3/{}", whole.len()));
    let beyond = server.get_with(&file, &[("range", "bytes=99999999-")]);
    assert_eq!(beyond.status, 416);
    for bad in ["?w=0", "?h=4096"] {
        server.get(&format!("{file}{bad}")).assert_problem(400, "bad_request");
    }
    server.get(&format!("/artifacts/{artifact}/file.gif")).assert_problem(404, "unknown_artifact");
}

#[test]
fn what_cannot_be_asked_for_says_why_and_makes_nothing() {
    let server = Server::empty();
    let input = json!({ "positivePrompt": "x x", "width": 128, "height": 128 });
    let long: Vec<String> = (0..21).map(|it| it.to_string()).collect();
    for (body, status, code) in [
        (json!({ "model": "none:1@1", "input": input }), 422, "model_unknown"),
        (
            json!({ "model": "embedded:art@1", "input": input, "provider": "x" }),
            422,
            "model_unknown",
        ),
        (json!({ "model": "embedded:art@1", "input": input, "count": 0 }), 400, "invalid_count"),
        (json!({ "model": "embedded:art@1", "input": input, "count": 17 }), 400, "invalid_count"),
        (json!({ "model": "embedded:art@1", "input": {} }), 422, "generation_input_invalid"),
        (json!({ "model": "embedded:art@1", "input": 3 }), 400, "bad_request"),
        (
            json!({ "model": "embedded:art@1", "input": input, "tags": ["a".repeat(65)] }),
            400,
            "invalid_tag",
        ),
        (json!({ "model": "embedded:art@1", "input": input, "tags": long }), 400, "too_many_tags"),
        (json!({ "input": input }), 400, "bad_request"),
        (
            json!({ "model": "embedded:art@1", "count": 2,
                "input": { "positivePrompt": "x x", "seed": i64::MAX } }),
            422,
            "generation_input_invalid",
        ),
    ] {
        server.post_json(GENERATIONS, &body.to_string(), &[]).assert_problem(status, code);
    }
    let unknown = "0190b0a0-0000-7000-8000-000000000001";
    for path in [unknown, "x", "..%2Fx"] {
        let path = format!("{GENERATIONS}/{path}");
        server.get(&path).assert_problem(404, "unknown_generation");
        server.delete(&path).assert_problem(404, "unknown_generation");
        server
            .post_json(&format!("{path}/cancel"), "", &[])
            .assert_problem(404, "unknown_generation");
    }
    let webhook = format!("/webhooks/runware/{unknown}/{unknown}/00");
    let awake = || {
        let metrics = server.get("/metrics").body;
        let count = metrics.lines().find_map(|it| it.strip_prefix("steadfast_objects_awake "));
        count.and_then(|it| it.parse::<u64>().ok()).expect("a number")
    };
    let before = awake();
    server.post_json(&webhook, "{}", &[]).assert_problem(404, "unknown_generation");
    // Nor is its body read: it is never sent here.
    let head = format!("POST {webhook} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let answer = server.raw(&format!("{head}Content-Length: 1000000\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(awake() <= before, "a wrong secret loads nobody");
    assert_eq!(server.json(GENERATIONS)["items"], json!([]));
    let made = server.json("/v1/objects/generation");
    assert_eq!(made["items"], json!([]), "nobody was made by being asked for");
}

#[test]
fn a_request_with_a_key_is_one_request() {
    let server = Server::empty();
    let body = |prompt: &str| {
        // The seed is chosen by the server, each time another one.
        let input = json!({ "positivePrompt": prompt, "width": 64, "height": 64 });
        json!({ "model": "embedded:art@1", "input": input }).to_string()
    };
    let key = [("idempotency-key", "k-1")];
    let first = server.post_json(GENERATIONS, &body("one"), &key).json();
    assert_eq!(server.post_json(GENERATIONS, &body("one"), &key).json(), first);
    server.post_json(GENERATIONS, &body("two"), &key).assert_problem(409, "key_reused");
    ready(&server, first["id"].as_str().unwrap());
    assert_eq!(server.json(GENERATIONS)["items"].as_array().unwrap().len(), 1);
    // One that was deleted is not made again behind its owner's back.
    server.delete(&format!("{GENERATIONS}/{}", first["id"].as_str().unwrap()));
    assert_eq!(server.post_json(GENERATIONS, &body("one"), &key).json(), first);
    assert_eq!(server.json(GENERATIONS)["items"], json!([]));
}

#[test]
fn artifacts_are_tagged_filtered_and_deleted_with_their_bytes() {
    let server = Server::empty();
    let id = ask(&server, 2, "two boats");
    let shown = ready(&server, &id);
    let artifact = shown["artifacts"][0]["id"].as_str().unwrap();
    let tag = format!("/api/artifacts/{artifact}/tags/best%20one");
    assert_eq!(server.put_bytes(&tag, b"", &[]).status, 204);
    let tagged = server.json("/api/artifacts?tag=best%20one");
    assert_eq!(tagged["items"][0]["id"], *artifact);
    let tags = server.json("/api/tags")["items"].clone();
    assert_eq!(
        tags,
        json!([
            { "tag": "best one", "generations": 0, "artifacts": 1 },
            { "tag": "test", "generations": 1, "artifacts": 2 },
        ])
    );
    assert_eq!(server.delete(&tag).status, 204);
    assert_eq!(server.json("/api/artifacts?tag=best%20one")["items"], json!([]));
    assert_eq!(server.delete(&format!("/api/artifacts/{artifact}")).status, 202);
    server.get(&format!("/artifacts/{artifact}/file")).assert_problem(404, "unknown_artifact");
    assert_eq!(server.delete(&format!("{GENERATIONS}/{id}")).status, 202);
    server.get(&format!("{GENERATIONS}/{id}")).assert_problem(404, "unknown_generation");
    server.json_until("/v1/buckets/generations/objects", |it| it["items"] == json!([]));
}

#[test]
fn a_tag_right_after_the_answer_is_taken() {
    let server = Server::empty();
    for number in 0..20 {
        let id = ask(&server, 1, &format!("boat {number}"));
        let tag = format!("{GENERATIONS}/{id}/tags/now");
        assert_eq!(server.put_bytes(&tag, b"", &[]).status, 204);
        let shown = server.json(&format!("{GENERATIONS}/{id}"));
        assert_eq!(shown["tags"], json!(["now", "test"]));
    }
}

#[test]
fn artifacts_that_are_announced_as_ready_are_in_the_library() {
    let server = Server::empty();
    let id = ask(&server, 8, "eight bells");
    let url = format!("ws://{}{GENERATIONS}/{id}/events", server.host());
    let (socket, _) = tungstenite::client(url, server.connect()).unwrap();
    let mut guest = Guest { socket };
    while server.json(&format!("{GENERATIONS}/{id}"))["status"] == "active" {
        let told = guest.event().unwrap();
        if told["task"]["status"] == "ready" {
            let artifact = told["task"]["artifactId"].as_str().unwrap();
            assert_eq!(server.get(&format!("/api/artifacts/{artifact}")).status, 200);
            assert!(!server.bytes(&format!("/artifacts/{artifact}/file?w=8")).0.is_empty());
        }
        if told["type"] == "generation_finished" {
            break;
        }
    }
    assert_eq!(ready(&server, &id)["ready"], 8);
}

#[test]
fn subscribers_get_artifacts_one_by_one() {
    let server = Server::empty();
    let id = ask(&server, 4, "four winds");
    let url = format!("ws://{}{GENERATIONS}/{id}/events", server.host());
    let (socket, _) = tungstenite::client(url, server.connect()).unwrap();
    let mut guest = Guest { socket };
    if server.json(&format!("{GENERATIONS}/{id}"))["status"] == "active" {
        loop {
            let told = guest.event().unwrap();
            if told["type"] == "generation_finished" {
                assert_eq!(told["generation"]["ready"], 4);
                break;
            }
            assert_eq!(told["type"], "task_changed");
        }
    }
    assert_eq!(ready(&server, &id)["artifacts"].as_array().unwrap().len(), 4);
}
