//! Workspaces of generations over HTTP: each has a library of its own.

use serde_json::{Value, json};

use crate::harness::Server;

const GENERATIONS: &str = "/api/generations";

fn body(workspace: Option<&str>) -> Value {
    let input = json!({ "positivePrompt": "a quay", "width": 128, "height": 64, "seed": 3 });
    let mut body = json!({ "model": "embedded:art@1", "input": input, "tags": ["quays"] });
    if let Some(workspace) = workspace {
        body["workspace"] = workspace.into();
    }
    body
}

fn ask(server: &Server, workspace: Option<&str>, key: &str) -> String {
    let body = body(workspace).to_string();
    let answer = server.post_json(GENERATIONS, &body, &[("idempotency-key", key)]);
    assert_eq!(answer.status, 202, "{}", answer.body);
    answer.json()["id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_workspace_has_its_own_generations_artifacts_tags_and_keys() {
    let server = Server::empty();
    let (ours, theirs) = (ask(&server, Some("team-1"), "k"), ask(&server, None, "k"));
    assert_ne!(ours, theirs, "a key belongs to its workspace");
    assert_eq!(ask(&server, Some("default"), "k"), theirs, "which is meant without a name");
    let path = format!("{GENERATIONS}/{ours}");
    let shown =
        server.json_until(&format!("{path}?workspace=team-1"), |it| it["status"] == "ready");
    assert_eq!(shown["workspace"], "team-1");
    server.json_until(&format!("{GENERATIONS}/{theirs}"), |it| it["status"] == "ready");
    let artifact = shown["artifacts"][0]["id"].as_str().unwrap();
    for (list, within) in [
        (format!("{GENERATIONS}?workspace=team-1"), true),
        (format!("{GENERATIONS}?workspace=default"), false),
        (GENERATIONS.to_owned(), false),
    ] {
        let list = server.json(&list);
        let ids: Vec<_> = list["items"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, [if within { &ours } else { &theirs }]);
    }
    let tag = format!("/api/artifacts/{artifact}/tags/best");
    assert_eq!(server.put_bytes(&format!("{tag}?workspace=team-1"), b"", &[]).status, 204);
    let tags = |query: &str| server.json(&format!("/api/tags{query}"))["items"].clone();
    assert_eq!(tags("?workspace=team-1").as_array().unwrap().len(), 2);
    assert_eq!(tags("").as_array().unwrap().len(), 1);
    let tagged = server.json("/api/artifacts?workspace=team-1&tag=best");
    let url = tagged["items"][0]["fileUrl"].as_str().unwrap();
    assert_eq!(url, format!("/artifacts/{artifact}/file.png?workspace=team-1"));
    let small = image::load_from_memory(&server.bytes(&format!("{url}&w=32")).0).unwrap();
    assert_eq!((small.width(), small.height()), (32, 16));
    let other = server.json("/api/artifacts")["items"][0]["fileUrl"].clone();
    assert!(other.as_str().unwrap().ends_with("/file.png"), "{other}");
    strangers(&server, &ours, artifact);
    assert_eq!(server.delete(&format!("{path}?workspace=team-1")).status, 202);
    server.get(&format!("{path}?workspace=team-1")).assert_problem(404, "unknown_generation");
    assert_eq!(server.json(&format!("{GENERATIONS}/{theirs}"))["status"], "ready");
}

/// From another workspace it is as if there were nothing.
fn strangers(server: &Server, generation: &str, artifact: &str) {
    for query in ["", "?workspace=team-2"] {
        let path = format!("{GENERATIONS}/{generation}");
        let none = "unknown_generation";
        server.get(&format!("{path}{query}")).assert_problem(404, none);
        server.get(&format!("{path}/events{query}")).assert_problem(404, none);
        server.delete(&format!("{path}{query}")).assert_problem(404, none);
        for what in ["cancel", "retry"] {
            server.post_json(&format!("{path}/{what}{query}"), "", &[]).assert_problem(404, none);
        }
        server.put_bytes(&format!("{path}/tags/x{query}"), b"", &[]).assert_problem(404, none);
        let (path, none) = (format!("/api/artifacts/{artifact}"), "unknown_artifact");
        server.get(&format!("{path}{query}")).assert_problem(404, none);
        server.delete(&format!("{path}{query}")).assert_problem(404, none);
        server.put_bytes(&format!("{path}/tags/x{query}"), b"", &[]).assert_problem(404, none);
        let file = format!("/artifacts/{artifact}/file.png{query}");
        server.get(&file).assert_problem(404, none);
    }
}

#[test]
fn a_workspace_that_is_only_asked_for_is_empty_and_is_not_made() {
    let server = Server::empty();
    for path in [GENERATIONS, "/api/artifacts", "/api/tags"] {
        assert_eq!(server.json(&format!("{path}?workspace=nobody"))["items"], json!([]));
    }
    assert_eq!(server.get("/generations?workspace=nobody").status, 200);
    strangers(
        &server,
        "0190b0a0-0000-7000-8000-000000000001",
        "0190b0a0-0000-4000-8000-000000000001",
    );
    assert_eq!(server.json("/v1/objects/library")["items"], json!([]));
    assert_eq!(server.json("/v1/objects/generation")["items"], json!([]));
}

#[test]
fn what_cannot_be_a_workspace_is_refused_everywhere() {
    let server = Server::empty();
    let id = "0190b0a0-0000-7000-8000-000000000001";
    let long = "x".repeat(65);
    for bad in ["", "a b", "a/b", "ä", &long] {
        let code = "invalid_workspace";
        let asked = body(Some(bad)).to_string();
        server.post_json(GENERATIONS, &asked, &[]).assert_problem(400, code);
        let query = bad.replace(' ', "%20").replace('ä', "%C3%A4");
        for path in [
            GENERATIONS,
            "/api/artifacts",
            "/api/tags",
            &format!("{GENERATIONS}/{id}"),
            &format!("/artifacts/{id}/file"),
        ] {
            server.get(&format!("{path}?workspace={query}")).assert_problem(400, code);
        }
        assert_eq!(server.get(&format!("/generations?workspace={query}")).status, 400);
    }
    let twice = format!("{GENERATIONS}?workspace=a&workspace=b");
    server.get(&twice).assert_problem(400, "bad_request");
}

#[test]
fn the_page_stays_in_its_workspace() {
    let server = Server::empty();
    let id = ask(&server, Some("team-1"), "k");
    let path = format!("{GENERATIONS}/{id}?workspace=team-1");
    let shown = server.json_until(&path, |it| it["status"] == "ready");
    let artifact = shown["artifacts"][0]["id"].as_str().unwrap();
    assert!(!server.get("/generations").body.contains(artifact));
    let page = server.get(&format!("/generations?workspace=team-1&artifact={artifact}")).body;
    for part in [
        format!("/artifacts/{artifact}/file.png?workspace=team-1"),
        format!("/generations?workspace=team-1&amp;artifact={artifact}#inspector"),
        "/generations?workspace=team-1&amp;tag=quays".to_owned(),
        "<input type=\"hidden\" name=\"workspace\" value=\"team-1\">".to_owned(),
    ] {
        assert!(page.contains(&part), "{part} is missing in {page}");
    }
    let form = |more: &str| format!("do=delete-artifact&id={artifact}{more}");
    assert_eq!(server.post_form("/generations", &form(""), &FORM).status, 404);
    let gone = server.post_form("/generations", &form("&workspace=team-1"), &FORM);
    assert!([200, 303].contains(&gone.status), "{}", gone.status);
    let left = server.json("/api/artifacts?workspace=team-1");
    assert_eq!(left["items"], json!([]));
}

const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];
