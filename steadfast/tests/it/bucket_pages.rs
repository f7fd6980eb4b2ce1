//! The pages of buckets, without and with a browser.

use serde_json::json;

use crate::{
    browser::Browser,
    buckets::{ok, put, with_bucket},
    harness::{Answer, Server, get_url},
};

/// Sends a form of a page.
fn press(server: &Server, path: &str, form: &str) -> Answer {
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", server.url.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    server.post_form(path, form, &headers)
}

#[track_caller]
fn leads(answer: &Answer, location: &str) {
    assert_eq!((answer.status, answer.header("location")), (303, location), "{}", answer.body);
}

#[track_caller]
fn shows(page: &str, all: &[&str]) {
    for shown in all {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert!(!page.contains("style=") && !page.contains("<b>"), "{page}");
}

#[test]
fn a_bucket_is_browsed_level_by_level_with_everything_escaped() {
    let server = Server::empty();
    for ours in ["uploads", "generations"] {
        server.delete(&format!("/v1/buckets/{ours}"));
    }
    let empty = server.get("/buckets").body;
    shows(&empty, &["No bucket", "href=\"/buckets\" aria-current=\"page\""]);
    leads(&press(&server, "/buckets", "name=photos"), "/buckets/photos");
    press(&server, "/buckets", "name=No").assert_problem(400, "invalid_name");
    shows(&server.get("/buckets").body, &["href=\"/buckets/photos\">photos<"]);
    shows(&server.get("/buckets/photos").body, &["The bucket is empty", "No rule sends events"]);
    put(&server, "photos/2026/05/a.txt", b"<b>&");
    put(&server, "photos/2026/%3Cb%3E.txt", b"x");
    put(&server, "photos/top", b"x");
    let top = server.get("/buckets/photos").body;
    shows(
        &top,
        &[
            "href=\"/buckets/photos?prefix=2026%2F\">2026/<",
            "href=\"/buckets/photos/blob?key=top\">top<",
            "href=\"/v1/buckets/photos/objects/top\">Download<",
            "action=\"/buckets/photos/upload?prefix=\"",
            "enctype=\"multipart/form-data\"",
            "<div id=\"live\" data-busy>",
        ],
    );
    let inside = server.get("/buckets/photos?prefix=2026%2F").body;
    shows(&inside, &[">&lt;b&gt;.txt<", "prefix=2026%2F05%2F\">05/<", "upload?prefix=2026%2F\""]);
    let deep = server.get("/buckets/photos?prefix=2026%2F05%2F").body;
    shows(&deep, &["/ <a href=\"/buckets/photos?prefix=2026%2F\">2026</a> / <a href=\"/buckets"]);
    let page = server.get("/buckets/photos/blob?key=2026%2F05%2Fa.txt").body;
    shows(
        &page,
        &[
            "<code>&lt;b&gt;&amp;</code>",
            "4 bytes",
            "text/plain",
            "Delete the blob",
            "Create a link",
        ],
    );
    let link = press(&server, "/buckets/photos/blob/link", "key=top&expires=60");
    let url = link.body.split("<code id=\"link\">").nth(1).unwrap().split('<').next().unwrap();
    assert_eq!(get_url(&url.replace("&amp;", "&")).body, "x", "{url}");
    press(&server, "/buckets/photos/blob/link", "key=none&expires=60")
        .assert_problem(404, "blob_not_found");
    let first = server.get("/buckets/photos?limit=1").body.replace("&amp;", "&");
    let next = first.split("?prefix=&cursor=").nth(1).unwrap().split('"').next().unwrap();
    let second = server.get(&format!("/buckets/photos?prefix=&cursor={next}")).body;
    shows(&second, &[">top<", "<div id=\"live\">"]);
    for (path, status) in [
        ("/buckets/none", 404),
        ("/buckets/NO", 400),
        ("/buckets/photos/blob?key=none", 404),
        ("/buckets/photos/blob", 400),
        ("/buckets/photos?cursor=x", 400),
        ("/buckets/photos?suffix=x", 400),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
    }
}

#[test]
fn previews_show_images_and_text_and_run_no_scripts() {
    let server = with_bucket("files");
    let put = |key: &str, kind: &str, bytes: &[u8]| {
        let path = format!("/v1/buckets/files/objects/{key}");
        ok(&server.put_bytes(&path, bytes, &[("content-type", kind)]));
        server.get(&format!("/buckets/files/blob?key={key}")).body
    };
    let picture = put("a.svg", "image/svg+xml", b"<svg onload='alert(1)'/>");
    shows(&picture, &["<img src=\"/v1/buckets/files/objects/a.svg?inline\" alt=\"a.svg\""]);
    let page = put("a.html", "text/html; charset=utf-8", b"<script>alert(1)</script>");
    shows(&page, &["&lt;script&gt;alert(1)&lt;/script&gt;"]);
    let data = put("a.json", "application/json", &[b'[', 0xFF, b']']);
    shows(&data, &["<code>[\u{FFFD}]</code>"]);
    let other = put("a.bin", "application/octet-stream", b"<script>");
    shows(&other, &["No preview for this type."]);
    let long = put("long.txt", "text/plain", &[b'x'; 70_000]);
    shows(&long, &["The first 65536 of 70000 bytes."]);
    let (_, headers) = server.bytes("/v1/buckets/files/objects/a.html?inline");
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("; sandbox;"), "{policy}");
}

#[test]
fn rules_are_added_and_removed_by_their_forms() {
    let server = with_bucket("photos");
    let there = "/buckets/photos";
    let rule = "id=thumbs&queue=thumbnails&created=on&prefix=in%2F&suffix=.png";
    leads(&press(&server, "/buckets/photos/rules", rule), there);
    let both = "id=all&queue=q&created=on&deleted=on";
    press(&server, "/buckets/photos/rules", both).assert_problem(409, "conflict");
    press(&server, "/buckets/photos/rules", "id=x&queue=q").assert_problem(400, "invalid_input");
    press(&server, "/buckets/photos/rules", "id=x").assert_problem(400, "bad_request");
    let old = "id=old&prefix=tmp%2F&delete=30&abort=";
    leads(&press(&server, "/buckets/photos/lifecycle", old), there);
    let bad = press(&server, "/buckets/photos/lifecycle", "id=x&delete=soon");
    bad.assert_problem(400, "bad_request");
    put(&server, "photos/in/a.png", b"x");
    let page = server.get(there).body;
    shows(
        &page,
        &[
            "<strong>thumbs</strong> → <a href=\"/queues/thumbnails\">thumbnails<",
            "object-create of <code>in/*.png</code>",
            "action=\"/buckets/photos/rules/thumbs/delete\"",
            "<strong>old</strong> <code class=\"address\">tmp/*</code>",
            "deletes blobs after 30 d 0 h",
            "PutObject",
            "href=\"/queues/thumbnails?state=pending\">thumbnails<",
            "<span class=\"badge waiting\">pending<",
        ],
    );
    leads(&press(&server, "/buckets/photos/rules/thumbs/delete", ""), there);
    leads(&press(&server, "/buckets/photos/lifecycle/old/delete", ""), there);
    let shown = server.json("/v1/buckets/photos");
    assert_eq!((&shown["rules"], &shown["lifecycle"]), (&json!([]), &json!([])));
    press(&server, "/buckets/photos/delete", "").assert_problem(409, "conflict");
    leads(
        &press(&server, "/buckets/photos/blob/delete", "key=in%2Fa.png"),
        "/buckets/photos?prefix=in%2F",
    );
    leads(&press(&server, "/buckets/photos/delete", ""), "/buckets");
    let foreign = server.post("/buckets/photos/delete", &[("origin", "http://example.org")]);
    foreign.assert_problem(403, "foreign_origin");
}

#[test]
fn a_form_uploads_files_of_any_size_without_a_script() {
    let server = with_bucket("photos");
    let send = |query: &str, parts: &[(&str, &[u8])]| {
        let mut body = Vec::new();
        for (name, bytes) in parts {
            let head = format!(
                "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
                 Content-Type: text/plain\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--xyz--\r\n");
        let path = format!("/buckets/photos/upload{query}");
        server.post_bytes(&path, &body, &[("content-type", "multipart/form-data; boundary=xyz")])
    };
    let large = vec![b'x'; 3_000_000];
    let sent = send("?prefix=in%2F", &[("a.txt", &large), ("..\\..\\b.txt", b"b")]);
    leads(&sent, "/buckets/photos?prefix=in%2F");
    let list = server.json("/v1/buckets/photos/objects");
    let found: Vec<_> = (0..2)
        .map(|it| &list["items"][it])
        .map(|it| (it["key"].as_str().unwrap(), it["size"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, [("in/a.txt", 3_000_000), ("in/b.txt", 1)]);
    send("", &[("", b"")]).assert_problem(400, "bad_request");
    send("", &[(&"k".repeat(1_025), b"x")]).assert_problem(400, "invalid_key");
    ok(&server.put_json("/v1/buckets/photos", &json!({ "maxBlobBytes": 10 })));
    send("", &[("c.txt", b"01234567890")]).assert_problem(413, "too_large");
    let cut = b"--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"d\"\r\n\r\nhalf";
    let kind = [("content-type", "multipart/form-data; boundary=xyz")];
    server.post_bytes("/buckets/photos/upload", cut, &kind).assert_problem(400, "bad_request");
    let plain =
        server.post_bytes("/buckets/photos/upload", b"x", &[("content-type", "text/plain")]);
    plain.assert_problem(400, "bad_request");
    assert_eq!(server.json("/v1/buckets/photos/objects")["items"].as_array().unwrap().len(), 2);
}

/// Selects files that the page creates itself: a text, and an image of 60 by 40 pixels.
const CHOOSE: &str = "(async () => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [60, 40];
    const pen = canvas.getContext('2d');
    pen.fillStyle = '#0f766e';
    pen.fillRect(5, 5, 50, 30);
    const picture = await new Promise((done) => canvas.toBlob(done, 'image/png'));
    const files = new DataTransfer();
    files.items.add(new File(['<b>Hello & welcome\\n'], 'note.txt', { type: 'text/plain' }));
    files.items.add(new File([picture], 'a picture.png', { type: 'image/png' }));
    document.getElementById('file').files = files.files;
})()";

#[test]
fn a_browser_uploads_views_and_deletes() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let window = browser.open(&format!("{}/buckets", server.url));
    window.write("#name", "photos");
    window.press_enter();
    window.wait_for("document.querySelector('h1').textContent === 'photos'");
    window.evaluate("document.querySelector('.columns details').open = true");
    window.write("#rule-id", "all");
    window.write("#rule-queue", "thumbnails");
    window.press_enter();
    window.wait_for("document.querySelector('.links strong')?.textContent === 'all'");
    window.evaluate(CHOOSE);
    window.click("#upload button");
    let rows = "document.querySelectorAll('.blobs tbody tr').length";
    window.wait_for(&format!("{rows} === 2"));
    let told = "document.querySelectorAll('a[href=\"/queues/thumbnails?state=pending\"]').length";
    window.wait_for(&format!("{told} === 2"));
    put(&server, "photos/later/x", b"x");
    window.wait_for(&format!("{rows} === 3"));
    window.click("a[href$='picture.png']");
    window.wait_for("document.querySelector('.preview img')?.naturalWidth === 60");
    window.go(&format!("{}/buckets/photos/blob?key=note.txt", server.url));
    let text = window.evaluate("document.querySelector('pre.preview').textContent");
    assert_eq!(text, "<b>Hello & welcome\n");
    window.resize(400, 800);
    window.wait_for("document.documentElement.scrollWidth <= 400");
    window.click(".confirm summary");
    window.click(".confirm button");
    window.wait_for(&format!("{rows} === 2"));
    window.wait_for("document.documentElement.scrollWidth <= 400");
    // A stored page is shown, and its scripts do not run.
    let page = b"<h1>Hi</h1><script>document.querySelector('h1').textContent = 'ran'</script>";
    let html = [("content-type", "text/html")];
    ok(&server.put_bytes("/v1/buckets/photos/objects/x.html", page, &html));
    window.go(&format!("{}/v1/buckets/photos/objects/x.html?inline", server.url));
    assert_eq!(window.evaluate("document.querySelector('h1').textContent"), "Hi");
    let allowed = ["Blocked script execution", "favicon.ico"];
    browser.assert_quiet_but(&allowed);
    ok(&server.put_json("/v1/buckets/photos", &json!({ "maxBlobBytes": 3 })));
    window.go(&format!("{}/buckets/photos", server.url));
    window.evaluate(CHOOSE);
    window.click("#upload button");
    let problem = "document.getElementById('problem')";
    window.wait_for(&format!("{problem}.textContent.includes('note.txt: blobs in this bucket')"));
    browser.assert_quiet_but(&[allowed[0], allowed[1], "413 (Payload Too Large)"]);
}
