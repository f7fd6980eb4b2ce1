//! The pages of the console, with everything escaped.

use crate::{
    harness::Server,
    seed::{self, ODD, ORDER},
};

#[test]
fn the_start_page_shows_the_program_and_links() {
    let server = Server::seeded();
    let page = server.get("/");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let folder = server.folder().to_str().unwrap();
    for shown in [
        env!("CARGO_PKG_VERSION"),
        "SQLite",
        folder,
        "href=\"/streams\"",
        "href=\"/processes\"",
        "href=\"/objects\"",
        "href=\"/metrics\"",
        "href=\"/readyz\"",
        "href=\"/docs\"",
        "href=\"/uploads/demo\"",
        "Measured every 10 s since",
        "in memory: a restart clears these charts",
        "card declined",
        "data-every=\"10\"",
    ] {
        assert!(page.body.contains(shown), "{shown} is missing");
    }
    assert_eq!(page.body.matches("<figure class=\"chart\">").count(), 4, "{}", page.body);
}

#[test]
fn the_start_page_names_commands_only_while_the_store_is_empty() {
    let next = |server: &Server| server.get("/").body.contains("steadfast doctor");
    assert!(next(&Server::empty()) && !next(&Server::seeded()));
}

#[test]
fn a_search_finds_every_noun_by_id_and_name() {
    let server = Server::seeded();
    let call = "/v1/objects/counter/invoice%207/calls/increment";
    server.post_json(call, r#"{"by":1}"#, &[]);
    server.post_json(
        "/v1/workflows/order/runs",
        r#"{"id":"invoice-8","input":{
        "orderId":"8","amount":5}}"#,
        &[],
    );
    server.post_json("/v1/queues/invoices/messages", r#"{"body":1}"#, &[]);
    server.put_json("/v1/buckets/invoice-files", &serde_json::json!({}));
    let page = server.get("/search?q=invoice").body;
    for found in [
        "/objects/counter/invoice%207",
        "/workflows/order/invoice-8",
        "/queues/invoices",
        "/buckets/invoice-files",
    ] {
        assert!(page.contains(&format!("href=\"{found}\"")), "{found} is missing in {page}");
    }
    let stream = seed::address(ORDER).id().to_string();
    for text in [&stream, ORDER] {
        let page = server.get(&format!("/search?q={text}")).body;
        assert!(page.contains(&format!("href=\"/streams/{stream}\"")), "{text}: {page}");
    }
    assert!(server.get("/search?q=%233").body.contains("href=\"/v1/messages/3\""));
    let odd = server.get("/search?q=%3Cb%3E%2e%00").body;
    assert!(odd.contains("No result for") && !odd.contains("<b>"), "{odd}");
    assert!(server.get("/").body.contains("action=\"/search\""));
}

#[test]
fn pages_have_no_inline_script_and_no_inline_style() {
    let server = Server::seeded();
    let stream = format!("/streams/{ORDER}");
    for path in ["/", "/processes", "/streams", "/streams/pending", "/streams/dead", &stream] {
        let page = server.get(path);
        assert_eq!(page.status, 200, "{path}");
        let scripts = page.body.replace("<script src=\"/assets/live.js?v=", "");
        assert!(!scripts.contains("<script") && !page.body.contains("style="), "{path}");
    }
}

#[test]
fn a_stream_shows_the_columns_of_its_messages() {
    let server = Server::seeded();
    let page = server.get(&format!("/streams/{ORDER}")).body;
    for shown in [
        "Processed",
        "Attempts",
        "Processed (UTC)",
        "Error",
        "place-order",
        "gave up: card declined",
        "done",
        "dead",
        "pending",
        "cancelled",
        "→ object/warehouse/main",
        "streams revive 3",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
}

#[test]
fn stored_text_is_never_markup() {
    let server = Server::seeded();
    let page = server.get(&format!("/streams/{}", seed::address(ODD).id())).body;
    assert!(page.contains("&lt;b&gt;&amp;&quot;x&quot;") && !page.contains("<b>"), "{page}");
    assert!(!page.contains("<script>"), "{page}");
    assert!(!server.get("/streams?limit=100").body.contains("<b>"));
}

#[test]
fn a_long_list_has_a_next_page() {
    let server = Server::seeded();
    let page = server.get("/streams").body;
    let link = page.split("href=\"").find_map(|it| it.strip_prefix("/streams?cursor=")).unwrap();
    let cursor = link.split('"').next().unwrap();
    let next = server.get(&format!("/streams?cursor={cursor}"));
    assert!(next.status == 200 && !next.body.contains("Next page"));
}

#[test]
fn an_empty_list_shows_the_next_step() {
    let server = Server::on(tempfile::tempdir().unwrap());
    assert!(server.get("/streams").body.contains("streams.append("));
    assert!(server.get("/streams/pending").body.contains("No pending messages"));
    assert!(server.get("/streams/dead").body.contains("No dead messages"));
}

#[test]
fn a_browser_gets_its_errors_as_a_page() {
    let server = Server::seeded();
    let get = |path: &str| {
        server.raw(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\
             Connection: close\r\n\r\n"
        ))
    };
    let page = get("/streams/stream/bulk/none");
    assert!(page.starts_with("HTTP/1.1 404") && page.contains("<!DOCTYPE html>"), "{page}");
    assert!(get("/v1/nowhere").contains("application/problem+json"), "the API stays JSON");
}

#[test]
fn the_style_sheet_is_cached_until_it_changes() {
    let server = Server::seeded();
    let style = server.get("/assets/steadfast.css");
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
    assert!(style.header("cache-control").contains("immutable"));
    let tag = style.header("etag");
    let again = server.raw(&format!(
        "GET /assets/steadfast.css HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: {tag}\r\n\
         Connection: close\r\n\r\n"
    ));
    assert!(again.starts_with("HTTP/1.1 304"), "{again}");
    assert!(server.get("/").body.contains(&format!("steadfast.css?v={}", tag.trim_matches('"'))));
}
