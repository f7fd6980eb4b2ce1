//! The page of uploads without script and the API beside it: several files, retry, replace, filter
//! and pages.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::{
    browser::Browser,
    classifier::{BLUE, Classifier, RED, drop_file, picture, upload},
    harness::Server,
};

const UPLOADS: &str = "/api/organizations/acme/uploads";
const PAGE: &str = "/uploads/acme";

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn is_classified(list: &Value, count: usize) -> bool {
    let items = list["items"].as_array().expect("a list");
    items.len() == count && items.iter().all(|it| it["status"] == "classified")
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|it| it["name"].as_str().expect("a name")).collect()
}

/// Sends the form of the page as a browser does.
fn send(server: &Server, files: &[(&str, Vec<u8>)]) -> crate::harness::Answer {
    let mut body = Vec::new();
    for (name, bytes) in files {
        let head = format!(
            "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             content-type: image/png\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--edge--\r\n");
    let kind = ("content-type", "multipart/form-data; boundary=edge");
    server.post_bytes(PAGE, &body, &[kind, ("origin", &server.url)])
}

#[test]
fn several_files_are_sent_without_script_and_a_bad_one_keeps_no_other_out() {
    let server = Classifier::start().serve(folder());
    let sent = send(&server, &[("a.png", picture(RED)), ("b.png", picture(BLUE))]);
    assert_eq!(sent.status, 303, "{}", sent.body);
    server.json_until(UPLOADS, |it| is_classified(it, 2));
    let large = vec![7; 5_000_001];
    let some = [("c.png", picture(RED)), ("d.png", large), ("e.png", b"<svg/>".to_vec())];
    let sent = send(&server, &[&some[..], &[("f.png", picture(BLUE))]].concat());
    assert_eq!(sent.status, 413, "{}", sent.body);
    for said in ["2 of 4 images are stored", "d.png: ", "e.png: "] {
        assert!(sent.body.contains(said), "{said}: {}", sent.body);
    }
    let list = server.json_until(UPLOADS, |it| is_classified(it, 4));
    let mut stored = names(&list);
    stored.sort_unstable();
    assert_eq!(stored, ["a.png", "b.png", "c.png", "f.png"]);
    // More files than one form may have, and none.
    let many: Vec<_> = (0..21).map(|it| (format!("{it}.png"), picture(RED))).collect();
    let many: Vec<_> = many.iter().map(|it| (it.0.as_str(), it.1.clone())).collect();
    assert_eq!(send(&server, &many).status, 400);
    assert_eq!(send(&server, &[]).status, 400);
}

#[test]
fn every_image_without_a_label_can_be_retried_over_http() {
    let classifier = Classifier::start();
    let server = classifier.serve(folder());
    let retry = |name: &str| server.post(&format!("{UPLOADS}/{name}/retry"), &[]);
    retry("no.png").assert_problem(404, "image_not_found");
    server.put_bytes("/v1/buckets/uploads/objects/acme/no.png", b"no image", &[]);
    let path = format!("{UPLOADS}?status=failed");
    server.json_until(&path, |it| names(it) == ["no.png"]);
    let answer = retry("no.png");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let queued: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!((&queued["status"], &queued["retries"]), (&json!("queued"), &json!(1)));
    let failed = server.json_until(&format!("{UPLOADS}/no.png"), |it| it["status"] == "failed");
    assert!(failed["workflowId"].as_str().is_some_and(|it| it.ends_with("-r1")), "{failed}");

    classifier.is_down.store(true, Ordering::SeqCst);
    upload(&server, "acme", "a.png", &picture(RED));
    let path = format!("{UPLOADS}/a.png");
    let running = server.json_until(&path, |it| it["status"] == "running");
    assert!(server.get(PAGE).body.contains("/uploads/acme/a.png/retry"));
    let headers = [("origin", server.url.as_str())];
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let sent = server.post_form("/uploads/acme/a.png/retry", "", &[headers[0], kind]);
    assert_eq!(sent.status, 303, "{}", sent.body);
    classifier.is_down.store(false, Ordering::SeqCst);
    let done = server.json_until(&path, |it| it["status"] == "classified");
    assert_ne!(done["workflowId"], running["workflowId"]);
    retry("a.png").assert_problem(409, "wrong_status");
}

#[test]
fn a_replacement_filters_and_pages_over_http() {
    let server = Classifier::start().serve(folder());
    for (number, colour) in [RED, BLUE, RED, BLUE, RED].into_iter().enumerate() {
        upload(&server, "acme", &format!("{number}.png"), &picture(colour));
    }
    let all = server.json_until(UPLOADS, |it| is_classified(it, 5));
    let red = server.json(&format!("{UPLOADS}?label=RED&status=classified"));
    assert_eq!(red["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(server.json(&format!("{UPLOADS}?status=failed"))["items"], json!([]));
    server.get(&format!("{UPLOADS}?status=odd")).assert_problem(400, "bad_request");
    server.get(&format!("{UPLOADS}?limit=0")).assert_problem(400, "bad_request");
    server.get(&format!("{UPLOADS}?cursor=x")).assert_problem(400, "bad_request");

    // Pages are disjoint and complete, also while an image is replaced.
    let first = server.json(&format!("{UPLOADS}?limit=2"));
    let replaced = names(&first)[1].to_owned();
    let before = server.json(&format!("{UPLOADS}/{replaced}"));
    upload(&server, "acme", &replaced, &picture(BLUE));
    let after = server.json_until(&format!("{UPLOADS}/{replaced}"), |it| {
        it["sequence"] != before["sequence"] && it["status"] == "classified"
    });
    assert_eq!(after["createdAt"], before["createdAt"]);
    let (mut seen, mut next) = (names(&first).len(), first["next"].clone());
    let mut found: Vec<String> = names(&first).into_iter().map(str::to_owned).collect();
    while let Some(cursor) = next.as_str() {
        let page = server.json(&format!("{UPLOADS}?limit=2&cursor={cursor}"));
        found.extend(names(&page).into_iter().map(str::to_owned));
        seen += names(&page).len();
        next = page["next"].clone();
    }
    assert_eq!((found, seen), (names(&all).into_iter().map(str::to_owned).collect(), 5));

    // The page without script has the same pages and filters.
    let page = server.get(&format!("{PAGE}?limit=2&label=RED")).body;
    let at = page.find("limit=2&amp;cursor=").expect("a link to older images");
    assert!(page[..at].ends_with("?label=RED&amp;"), "{}", &page[at - 40..at]);
    let link = page[at..].split('"').next().expect("it ends").replace("&amp;", "&");
    let older = server.get(&format!("{PAGE}?label=RED&{link}")).body;
    assert!(older.contains("data-name=") && !older.contains("Older images"), "{older}");
}

#[test]
fn in_a_browser_images_are_replaced_retried_filtered_and_paged() {
    let Some(browser) = Browser::start() else { return };
    let classifier = Classifier::start();
    let server = classifier.serve(folder());
    let window = browser.open(&format!("{}{PAGE}", server.url));
    window.wait_for("document.querySelector('#line').textContent === 'live'");
    for (name, colour) in [("a.png", RED), ("b.png", BLUE), ("c.png", RED)] {
        drop_file(&window, name, &picture(colour));
    }
    window.wait_for("document.querySelectorAll('.label strong').length === 3");
    let bytes = json!(picture(BLUE)).to_string();
    window.evaluate(&format!(
        "(() => {{ const all = new DataTransfer(); \
         all.items.add(new File([new Uint8Array({bytes})], 'x.png', {{ type: 'image/png' }})); \
         const input = document.querySelector('[data-name=\"a.png\"] .replace [type=file]'); \
         input.files = all.files; \
         input.dispatchEvent(new Event('change', {{ bubbles: true }})); return true; }})()"
    ));
    let label = "document.querySelector('[data-name=\"a.png\"] .label strong')?.textContent";
    window.wait_for(&format!("{label} === 'BLUE'"));

    classifier.is_down.store(true, Ordering::SeqCst);
    drop_file(&window, "d.png", &picture(RED));
    window.wait_for("document.querySelector('[data-name=\"d.png\"] .retry button') !== null");
    window.click("[data-name=\"d.png\"] .retry button");
    classifier.is_down.store(false, Ordering::SeqCst);
    window.wait_for("document.querySelector('[data-name=\"d.png\"] .label strong') !== null");

    let cards = "document.querySelectorAll('.card').length";
    let filtered = browser.open(&format!("{}{PAGE}?label=BLUE", server.url));
    filtered.wait_for(&format!("{cards} === 2"));
    let paged = browser.open(&format!("{}{PAGE}?limit=3", server.url));
    paged.wait_for(&format!("{cards} === 3"));
    // A refresh without changes keeps the elements of the page: a click on them is not lost.
    let refreshed = "refresh().then(() => window.kept.every((it) => it.isConnected))";
    paged.wait_for("document.querySelector('#line').textContent === 'live'");
    paged.wait_for("!busy");
    paged.evaluate("window.kept = [...document.querySelectorAll('#pages a, .card')], true");
    assert_eq!(paged.evaluate(refreshed), true, "elements were replaced");
    paged.click("#pages a");
    paged.wait_for(&format!("{cards} === 1 && !document.querySelector('#pages a')"));
    browser.assert_quiet();
}
