//! The pages that show the OpenAPI document.

use std::collections::BTreeMap;

use serde_json::Value;
use steadfast_api::Code;

use crate::harness::Server;

#[test]
fn every_operation_is_on_the_page_of_its_noun_with_a_command_and_its_role() {
    let server = Server::empty();
    let document = server.json("/openapi.json");
    let index = server.get("/docs");
    assert_eq!(index.status, 200, "{}", index.body);
    let mut pages = BTreeMap::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let noun = operation["tags"][0].as_str().expect("a noun").to_owned();
            assert!(index.body.contains(&format!("href=\"/docs/{noun}\"")), "{noun} is missing");
            let page = pages.entry(noun.clone()).or_insert_with(|| {
                let page = server.get(&format!("/docs/{noun}"));
                assert_eq!(page.status, 200, "{noun}: {}", page.body);
                page.body
            });
            let broken = path.replace('/', "<wbr>/");
            let title = format!("<h2 class=\"path\">{} {broken}</h2>", method.to_uppercase());
            assert!(page.contains(&title), "{title} is missing on the page of {noun}");
            let is_ours = path.starts_with("/v1/") || path.split('/').count() == 2;
            let role = operation["x-needs-role"].as_str();
            assert!(role.is_some() || !is_ours, "{method} {path} does not declare its role");
            let codes = operation["x-error-codes"].as_array();
            assert!(codes.is_some() || !is_ours, "{method} {path} does not declare its errors");
            let (_, section) = page.split_once(&title).expect("it is there");
            let section = section.split("</section>").next().unwrap_or_default();
            for code in codes.into_iter().flatten().filter_map(Value::as_str) {
                let code = Code::of_tag(code).expect("a code of the platform");
                let shown = section.contains(&format!("/docs/errors#{}\"", code.tag()));
                assert!(shown && section.contains(code.meaning()), "{method} {path}: {code:?}");
                let answer = &operation["responses"][code.status().to_string()]["description"];
                let answer = answer.as_str().unwrap_or_default();
                assert!(answer.contains(&format!("`{}`", code.tag())), "{method} {path}: {answer}");
            }
        }
    }
    let queues = &pages["queues"];
    for shown in [
        "Idempotency-Key",
        "/docs/errors#queue_not_found",
        "/v1/queues/QUEUE/messages",
        "<code>delayMs</code>",
        "id=\"type-NewMessage\"",
    ] {
        assert!(queues.contains(shown), "{shown} is missing in {queues}");
    }
    assert!(pages.keys().any(|it| it == "drift"), "applications are there: {:?}", pages.keys());
    for (noun, page) in &pages {
        for target in page.split("href=\"#").skip(1).filter_map(|it| it.split('"').next()) {
            assert!(page.contains(&format!("id=\"{target}\"")), "{noun}: #{target} leads nowhere");
        }
        assert!(!page.contains("style=\""), "{noun} has a style attribute");
    }
}

#[test]
fn every_error_code_has_a_row_and_an_unknown_noun_is_not_found() {
    let server = Server::empty();
    let errors = server.get("/docs/errors").body;
    for code in Code::ALL {
        assert!(errors.contains(&format!("id=\"{}\"", code.tag())), "{} is missing", code.tag());
    }
    assert_eq!(server.get("/docs/nothing").status, 404);
    assert!(server.get("/").body.contains("href=\"/docs\""), "the console links to it");
}
