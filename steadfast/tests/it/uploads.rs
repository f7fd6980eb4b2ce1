//! Uploads over HTTP: stored, classified, replaced, deleted; refused when they are no images.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::{
    classifier::{BLUE, Classifier, RED, picture, upload, upload_as},
    harness::{Server, run, stdout},
};

const UPLOADS: &str = "/api/organizations/acme/uploads";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn classified(server: &Server, name: &str) -> Value {
    server.json_until(&format!("{UPLOADS}/{name}"), |it| it["status"] == "classified")
}

#[test]
fn an_image_is_accepted_classified_and_shown() {
    let server = Classifier::start().serve(folder());
    let answer = upload(&server, "acme", "my cat.png", &picture(RED));
    assert_eq!(answer.status, 202, "{}", answer.body);
    let accepted: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(
        (&accepted["name"], &accepted["contentType"]),
        (&json!("my-cat.png"), &json!("image/png"))
    );
    let cat = classified(&server, "my-cat.png");
    assert_eq!(
        (&cat["classificationLabel"], &cat["eventId"]),
        (&json!("RED"), &accepted["eventId"])
    );
    assert_eq!(cat["topFive"].as_array().unwrap().len(), 3);
    let list = server.json(UPLOADS);
    assert_eq!((list["items"].as_array().unwrap().len(), &list["next"]), (1, &Value::Null));
    for (url, kind) in [("imageUrl", "image/png"), ("thumbnailUrl", "image/jpeg")] {
        let (bytes, headers) = server.bytes(cat[url].as_str().unwrap());
        assert_eq!(headers["content-type"], kind);
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert!(headers["cache-control"].to_str().unwrap().contains("immutable"));
        let etag = headers["etag"].to_str().unwrap();
        let path = cat[url].as_str().unwrap();
        let again = server.get_with(path, &[("if-none-match", etag)]);
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert!(image::load_from_memory(&bytes).is_ok());
    }
    let page = server.get("/uploads/acme").body;
    assert!(page.contains("my-cat.png") && page.contains("RED"), "{page}");
}

#[test]
fn what_is_no_image_is_refused_at_once_and_stored_nowhere() {
    let server = Classifier::start().serve(folder());
    let png = picture(RED);
    let mut huge = png.clone();
    // The width in the header of a PNG.
    huge[16..20].copy_from_slice(&60_000_u32.to_be_bytes());
    let cases: [(&str, &[u8], u16); 6] = [
        ("empty.png", b"", 422),
        ("page.png", b"<html><script>alert(1)</script>", 415),
        ("drawing.png", b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415),
        ("cut.png", &png[..png.len() - 20], 422),
        ("bomb.png", &huge, 422),
        ("large.png", &vec![7; 5_000_001], 413),
    ];
    for (file, bytes, status) in cases {
        let answer = upload(&server, "acme", file, bytes);
        assert_eq!(answer.status, status, "{file}: {}", answer.body);
        assert!(answer.body.contains("\"code\":\"image_"), "{file}: {}", answer.body);
    }
    for (organization, file) in [("..", "a.png"), ("a b", "a.png"), ("acme", "..")] {
        let answer = upload(&server, &organization.replace(' ', "%20"), file, &png);
        assert!((400..500).contains(&answer.status), "{organization} {file}: {}", answer.body);
    }
    assert_eq!(server.json(UPLOADS)["items"], json!([]));
    assert_eq!(server.json("/v1/buckets/uploads/objects")["items"], json!([]));
}

#[test]
fn replacing_and_deleting_are_seen_at_once() {
    let server = Classifier::start().serve(folder());
    upload(&server, "acme", "a.png", &picture(RED));
    assert_eq!(classified(&server, "a.png")["classificationLabel"], "RED");
    upload(&server, "acme", "a.png", &picture(BLUE));
    let path = format!("{UPLOADS}/a.png");
    server.json_until(&path, |it| it["classificationLabel"] == "BLUE");
    assert_eq!(server.delete(&path).status, 202);
    assert_eq!(server.get(&path).status, 404);
    assert_eq!(server.json(UPLOADS)["items"], json!([]));
    server.delete(&path).assert_problem(404, "image_not_found");
}

#[test]
fn a_file_put_straight_into_the_bucket_behaves_the_same() {
    let server = Classifier::start().serve(folder());
    // Only the event tells of it, so at first it is not there.
    let seen = |status: &str| {
        let list = server.json_until(&format!("{UPLOADS}?status={status}"), |it| {
            it["items"].as_array().is_some_and(|it| !it.is_empty())
        });
        list["items"][0].clone()
    };
    server.put_bytes("/v1/buckets/uploads/objects/acme/b.png", &picture(BLUE), &[]);
    assert_eq!(seen("classified")["classificationLabel"], "BLUE");
    server.put_bytes("/v1/buckets/uploads/objects/acme/not.png", b"no image", &[]);
    let failed = seen("failed");
    assert!(failed["error"].as_str().unwrap().contains("not a PNG"), "{failed}");
    server.delete("/v1/buckets/uploads/objects/acme/b.png");
    server.json_until(UPLOADS, |it| it["items"].as_array().unwrap().len() == 1);
}

#[test]
fn after_a_kill_in_the_middle_every_image_has_its_label() {
    let classifier = Classifier::start();
    classifier.is_down.store(true, Ordering::SeqCst);
    let server = classifier.serve(folder());
    for number in 0..20 {
        upload(&server, "acme", &format!("{number}.png"), &picture(RED));
    }
    let folder = server.kill();
    classifier.is_down.store(false, Ordering::SeqCst);
    let server = classifier.serve(folder);
    for number in 0..20 {
        classified(&server, &format!("{number}.png"));
    }
}

#[test]
fn a_token_reaches_its_organization_only_and_others_do_not_exist_for_it() {
    let server = Classifier::start().serve(folder());
    assert_eq!(upload(&server, "acme", "a.png", &picture(RED)).status, 202);
    let made = server.ask(&["tokens", "create", "--organization", "acme", "--json"]);
    let made: Value = serde_json::from_str(&stdout(&made)).unwrap();
    let token = made["token"].as_str().unwrap();
    let png = picture(RED);
    let status =
        |organization, token| upload_as(&server, organization, "b.png", &png, token).status;
    assert_eq!(status("acme", Some(token)), 202);
    assert_eq!(status("acme", None), 401);
    assert_eq!(status("acme", Some("sf_wrong_wrong")), 401);
    assert_eq!(status("other", Some(token)), 404);
    for path in [UPLOADS, "/api/organizations/acme/events", "/uploads/acme", "/v1/queues"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    let bearer = format!("Bearer {token}");
    let seen = server.get_with(UPLOADS, &[("authorization", &bearer)]);
    assert_eq!(seen.status, 200);
    for foreign in ["/api/organizations/other/uploads", "/uploads/other"] {
        let answer = server.get_with(foreign, &[("authorization", &bearer)]);
        assert_eq!(answer.status, 404, "{foreign}");
    }
    let console = server.get_with("/v1/queues", &[("authorization", &bearer)]);
    console.assert_problem(403, "role_needed");
    // A browser has a cookie instead.
    let origin = ("origin", server.url.as_str());
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let form = format!("token={token}&next=%2Fuploads%2Facme");
    let entered = server.post_form("/login", &form, &[origin, kind]);
    assert_eq!(entered.header("location"), "/uploads/acme");
    let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
    assert_eq!(server.get_with("/uploads/acme", &[("cookie", &cookie)]).status, 200);
    let id = made["id"].as_str().unwrap();
    let revoked = server.ask(&["tokens", "revoke", id, "--yes"]);
    assert_eq!(stdout(&revoked), format!("revoked token {id}\n"));
    let gone = server.get_with("/uploads/acme", &[("cookie", &cookie)]);
    gone.assert_problem(401, "token_revoked");
    assert_eq!(server.get(UPLOADS).status, 401, "access stays closed");
}

#[test]
fn an_image_waits_for_a_model_that_is_not_there_and_the_page_says_what_to_do() {
    let (data, models) = (folder(), folder());
    let flags =
        ["--uploads-models-pull", "never", "--uploads-models", models.path().to_str().unwrap()];
    let server = Server::with(data, &flags);
    upload(&server, "acme", "a.png", &picture(RED));
    server.json_until(&format!("{UPLOADS}/a.png"), |it| it["status"] == "running");
    let page = server.get("/uploads/acme").body;
    assert!(page.contains("steadfast models pull resnet-50"), "{page}");
    let missing = models.path().join("nothing.tgz");
    let pull = ["models", "pull", "resnet-50", "--from", missing.to_str().unwrap()];
    assert_eq!(run(&pull).status.code(), Some(1));
}
