//! Access keys of the S3 API, over HTTP and from the command line.

use serde_json::{Value, json};

use crate::{
    harness::{Server, assert_fails_with, run, stdout},
    seed,
};

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_key_is_created_listed_without_its_secret_and_revoked() {
    let server = Server::empty();
    let made = stdout(&server.ask(&[
        "keys",
        "create",
        "--bucket",
        "photos",
        "--prefix",
        "2026/",
        "--read-only",
        "--json",
    ]));
    let made = json_of(&made);
    let (id, secret) = (made["accessKeyId"].as_str().unwrap(), &made["secretAccessKey"]);
    assert_eq!((id.len(), secret.as_str().unwrap().len()), (20, 40));
    assert_eq!((&made["bucket"], &made["readOnly"]), (&json!("photos"), &json!(true)));
    let told = stdout(&server.ask(&["keys", "create"]));
    assert!(told.contains("not shown again") && told.contains("all buckets"), "{told}");
    let listed = stdout(&server.ask(&["keys", "list"]));
    assert!(listed.contains(id) && listed.contains("2026/"), "{listed}");
    let listed = server.get("/v1/keys").body;
    assert!(!listed.contains(secret.as_str().unwrap()) && !listed.contains("ecret"), "{listed}");
    assert_eq!(json_of(&listed)["items"].as_array().unwrap().len(), 2);
    let page = json_of(&server.get("/v1/keys?limit=1").body);
    let next = page["next"].as_str().unwrap();
    let rest = json_of(&server.get(&format!("/v1/keys?limit=1&cursor={next}")).body);
    assert_ne!(page["items"], rest["items"]);
    assert_eq!(rest["next"], Value::Null);
    let rotated = server.ask(&["keys", "rotate", id, "--overlap-hours", "1", "--json"]);
    let rotated = json_of(&stdout(&rotated));
    assert_eq!((&rotated["prefix"], &rotated["expiresAt"]), (&json!("2026/"), &Value::Null));
    assert_ne!(rotated["accessKeyId"], made["accessKeyId"]);
    let items = json_of(&server.get("/v1/keys").body)["items"].clone();
    let old = items.as_array().unwrap().iter().find(|it| it["accessKeyId"] == id).unwrap();
    assert!(old["expiresAt"].is_string() && old["lastUsedAt"].is_null(), "{old}");
    let long = server.ask(&["keys", "rotate", id, "--overlap-hours", "721"]);
    assert_fails_with(&long, &["720 hours", "invalid_input"]);
    assert_fails_with(&server.ask(&["keys", "revoke", id]), &[id, "--yes"]);
    let revoke = || server.ask(&["keys", "revoke", id, "--yes"]);
    assert_eq!(stdout(&revoke()), format!("revoked access key {id}\n"));
    assert_fails_with(&revoke(), &[id, "key_not_found"]);
    assert!(!server.get("/v1/keys").body.contains(id));
}

#[test]
fn an_invalid_scope_is_refused() {
    let server = Server::empty();
    let bad = server.ask(&["keys", "create", "--bucket", "No Bucket"]);
    assert_fails_with(&bad, &["No Bucket", "invalid_name"]);
    let answer = server.post_json("/v1/keys", "{\"bukket\":\"photos\"}", &[]);
    assert_eq!(answer.status, 400, "{}", answer.body);
}

#[test]
fn a_key_can_be_created_in_a_folder_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    seed::fill(folder.path());
    let data = folder.path().to_str().unwrap();
    let made = stdout(&run(&["keys", "create", "--json", "--data", data]));
    let id = json_of(&made)["accessKeyId"].as_str().unwrap().to_owned();
    let server = Server::on(folder);
    assert!(server.get("/v1/keys").body.contains(&id));
}
