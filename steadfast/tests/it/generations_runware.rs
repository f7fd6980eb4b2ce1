//! Generations with a provider that misbehaves, from end to end.

use std::net::TcpListener;

use serde_json::{Value, json};
use steadfast_fake_runware::{FakeRunware, KEY};
use tempfile::TempDir;

use crate::{cluster::Cluster, harness::Server, secrets::with_text};

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// An address that nobody has: providers must know it before there is a server.
pub(crate) fn free_host() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").to_string()
}

/// The flags of a server that uses this provider, with or without an address for webhooks, and
/// with this timeout.
pub(crate) fn flags(
    fake: &FakeRunware,
    webhooks: Option<&str>,
    cluster: Option<&Cluster>,
    seconds: u32,
) -> Vec<String> {
    let mut flags = vec![
        ("--generations-runware-key", KEY.to_owned()),
        ("--generations-runware-url", fake.url()),
        ("--generations-output-networks", "127.0.0.0/8".into()),
        ("--generations-image-timeout", seconds.to_string()),
        ("--generations-video-timeout", seconds.to_string()),
    ];
    flags.extend(webhooks.map(|it| ("--generations-public-url", format!("http://{it}"))));
    flags.extend(cluster.map(|it| ("--store", it.url.clone())));
    flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect()
}

/// A server that asks this provider; with an address for webhooks, or without one; on a store of
/// its own or in a database.
fn serve_on(
    fake: &FakeRunware,
    host: &str,
    folder: TempDir,
    webhooks: bool,
    cluster: Option<&Cluster>,
) -> Server {
    serve_for(fake, host, folder, webhooks, cluster, 12)
}

/// The same, with so many seconds for the provider.
fn serve_for(
    fake: &FakeRunware,
    host: &str,
    folder: TempDir,
    webhooks: bool,
    cluster: Option<&Cluster>,
    seconds: u32,
) -> Server {
    let flags = flags(fake, webhooks.then_some(host), cluster, seconds);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Server::at(host, folder, &flags)
}

pub(crate) fn ask(server: &Server, prompt: &str, video: bool) -> String {
    let mut input = json!({ "positivePrompt": prompt, "width": 512, "height": 512 });
    if video {
        input["taskType"] = "videoInference".into();
    }
    let body = json!({ "model": "runware:100@1", "input": input, "provider": "runware" });
    let body = match video {
        true => json!({ "model": "klingai:5@3", "input": input, "provider": "runware" }),
        false => body,
    };
    let answer = server.post_json("/api/generations", &body.to_string(), &[]);
    assert_eq!(answer.status, 202, "{prompt}: {}", answer.body);
    answer.json()["id"].as_str().expect("an id").to_owned()
}

pub(crate) fn ended(server: &Server, id: &str) -> Value {
    server.json_until(&format!("/api/generations/{id}"), |it| it["status"] != "active")
}

/// How each ended: its status, and the code of its error.
fn outcomes(server: &Server, prompts: &[(&str, &str)], video: bool) {
    let ids: Vec<String> = prompts.iter().map(|it| ask(server, it.0, video)).collect();
    for ((prompt, expected), id) in prompts.iter().zip(&ids) {
        let shown = ended(server, id);
        let code = shown["tasks"][0]["error"]["code"].as_str().unwrap_or("ready");
        assert_eq!(code, *expected, "{prompt}: {shown}");
        let artifacts = usize::from(*expected == "ready");
        assert_eq!(shown["artifacts"].as_array().map(Vec::len), Some(artifacts), "{prompt}");
    }
}

#[test]
fn pictures_come_or_say_why_whatever_the_provider_does() {
    pictures(None);
}

#[test]
fn pictures_come_or_say_why_whatever_the_provider_does_on_postgres() {
    pictures(Some(&Cluster::start()));
}

fn pictures(cluster: Option<&Cluster>) {
    let fake = FakeRunware::start().expect("it starts");
    let server = serve_on(&fake, &free_host(), folder(), false, cluster);
    outcomes(
        &server,
        &[
            ("a plain picture", "ready"),
            ("busy fail:429:2", "ready"),
            ("broken fail:503:2", "ready"),
            ("lost drop-answer", "ready"),
            ("slow", "ready"),
            ("redirect-once", "ready"),
            ("bad error:invalidPositivePrompt", "generation_input_invalid"),
            ("wrong-content", "output_content_invalid"),
            ("huge-length", "output_too_large"),
            ("gone", "output_gone"),
            ("redirect-metadata", "output_address_refused"),
        ],
        false,
    );
    assert_eq!(fake.billings_max(), 1, "nothing is paid for twice");
}

#[test]
fn clips_come_by_polling_or_time_ends_them() {
    polled_clips(None);
}

#[test]
fn clips_come_by_polling_or_time_ends_them_on_postgres() {
    polled_clips(Some(&Cluster::start()));
}

fn polled_clips(cluster: Option<&Cluster>) {
    let fake = FakeRunware::start().expect("it starts");
    let server = serve_on(&fake, &free_host(), folder(), false, cluster);
    let prompts = [
        ("a clip", "ready"),
        ("polls:2", "ready"),
        ("partial", "ready"),
        ("never-done", "timeout"),
    ];
    outcomes(&server, &prompts, true);
    assert_eq!(fake.billings_max(), 1);
}

#[test]
fn clips_come_by_webhooks_early_twice_and_late() {
    told_clips(None);
}

#[test]
fn clips_come_by_webhooks_early_twice_and_late_on_postgres() {
    told_clips(Some(&Cluster::start()));
}

#[test]
fn active_generations_are_cancelled_and_failed_ones_are_retried_over_http() {
    let fake = FakeRunware::start().expect("it starts");
    let server = serve_for(&fake, &free_host(), folder(), false, None, 600);
    let id = ask(&server, "never-done", true);
    let path = format!("/api/generations/{id}");
    server.json_until(&path, |it| it["tasks"][0]["progress"] == 50);
    let cancelled = server.post_json(&format!("{path}/cancel"), "", &[]);
    assert_eq!((cancelled.status, &cancelled.json()["status"]), (200, &json!("cancelled")));
    let listed = server.json("/api/generations?status=cancelled");
    assert_eq!(listed["items"][0]["id"], *id, "the library knows it as well");
    server.post_json(&format!("{path}/retry"), "", &[]).assert_problem(409, "nothing_to_retry");
    let id = ask(&server, "gone", false);
    assert_eq!(ended(&server, &id)["tasks"][0]["error"]["code"], "output_gone");
    let again = server.post_json(&format!("/api/generations/{id}/retry"), "", &[]);
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("active")));
    assert_eq!(ended(&server, &id)["status"], "failed");
    // An older one is on the page with its button, however many are newer.
    let old = ask(&server, "an old one never-done", true);
    let newer: Vec<String> =
        (0..13).map(|it| ask(&server, &format!("newer {it}"), false)).collect();
    for id in &newer {
        assert_eq!(ended(&server, id)["status"], "ready");
    }
    let page = server.get("/generations").body;
    assert!(page.contains(&format!("data-id=\"{old}\" data-status=\"active\"")), "{page}");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    server.post_form("/generations", &format!("do=cancel&id={old}"), &form);
    assert_eq!(ended(&server, &old)["status"], "cancelled");
    assert_eq!(server.json("/api/artifacts?limit=1")["items"][0]["width"], 64, "of the file");
    assert_eq!(fake.billings_max(), 1);
}

#[test]
fn the_oldest_of_many_active_generations_is_found_and_cancelled_from_the_page() {
    let fake = FakeRunware::start().expect("it starts");
    let host = free_host();
    let server = serve_for(&fake, &host, folder(), true, None, 600);
    let ids: Vec<String> =
        (0..110).map(|it| ask(&server, &format!("never-done no-webhook {it}"), true)).collect();
    server.json_until("/api/generations?status=active&limit=200", |it| {
        it["items"].as_array().is_some_and(|it| it.len() == ids.len())
    });
    let (mut path, mut shown) = ("/generations".to_owned(), Vec::new());
    loop {
        let page = server.get(&path).body;
        shown.extend(page.split("data-id=\"").skip(1).map(|it| it[..36].to_owned()));
        // As somebody finds it who looks for the link.
        let Some((before, _)) = page.split_once("\">Older generations in progress") else { break };
        let (_, link) = before.rsplit_once("href=\"").expect("a link");
        path = link.replace("&amp;", "&");
    }
    assert_eq!(path.split('?').count(), 2, "there are several pages");
    shown.reverse();
    assert_eq!(shown, ids, "each is on one page, the newest first");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    server.post_form("/generations", &format!("do=cancel&id={}", ids[0]), &form);
    assert_eq!(ended(&server, &ids[0])["status"], "cancelled");
    assert_eq!(server.get("/generations?older=x").status, 400);
}

fn told_clips(cluster: Option<&Cluster>) {
    let fake = FakeRunware::start().expect("it starts");
    let host = free_host();
    let server = serve_on(&fake, &host, folder(), true, cluster);
    let prompts = [("a clip", "ready"), ("duplicate-webhook", "ready"), ("webhook-first", "ready")];
    outcomes(&server, &prompts, true);
    let late = ask(&server, "late-webhook never-done", true);
    let over = ended(&server, &late);
    assert_eq!(over["tasks"][0]["error"]["code"], "timeout");
    for task in fake.tasks() {
        fake.send_webhook(&task);
    }
    let path = format!("/api/generations/{late}");
    let corrected = server.json_until(&path, |it| it["status"] == "ready");
    assert_eq!((&corrected["ready"], &corrected["failed"]), (&json!(1), &json!(0)));
    assert_eq!(server.json("/api/artifacts")["items"].as_array().map(Vec::len), Some(4));
    assert_eq!(fake.billings_max(), 1);
    // The token in the address of a webhook is stored nowhere.
    for task in fake.tasks() {
        let request = fake.request(&task).expect("a request");
        let url = request["webhookURL"].as_str().expect("an address");
        let (address, token) = url.rsplit_once('/').expect("a token");
        assert!(address.ends_with(&task) && token.len() == 64, "{url}");
        assert!(with_text(server.folder(), token).is_empty(), "{url}");
    }
}

#[test]
fn after_kills_in_the_middle_everything_is_there_once_and_paid_for_once() {
    kills(None);
}

#[test]
fn after_kills_in_the_middle_everything_is_there_once_and_paid_for_once_on_postgres() {
    kills(Some(&Cluster::start()));
}

fn kills(cluster: Option<&Cluster>) {
    let fake = FakeRunware::start().expect("it starts");
    let (host, mut data) = (free_host(), folder());
    let mut ids = Vec::new();
    // The time of a clip runs on while the server is down and while it starts.
    let serve = |data, webhooks| serve_for(&fake, &host, data, webhooks, cluster, 120);
    for round in 0..4 {
        let server = serve(data, round % 2 == 1);
        for prompt in ["one", "slow two", "lost drop-answer", "busy fail:503:1"] {
            ids.push(ask(&server, &format!("{prompt} {round}"), false));
        }
        ids.push(ask(&server, &format!("clip polls:1 {round}"), true));
        data = server.kill();
    }
    let server = serve(data, false);
    for id in &ids {
        let shown = ended(&server, id);
        assert_eq!(shown["status"], "ready", "{shown}");
        assert_eq!(shown["artifacts"].as_array().map(Vec::len), Some(1));
    }
    let kept = server.json("/api/artifacts?limit=200");
    assert_eq!(kept["items"].as_array().map(Vec::len), Some(ids.len()));
    let blobs = server.json("/v1/buckets/generations/objects");
    assert_eq!(blobs["items"].as_array().map(Vec::len), Some(ids.len()), "no orphans");
    assert_eq!(fake.billings_max(), 1);
}
