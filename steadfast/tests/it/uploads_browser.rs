//! Uploads in real windows of a real browser.

use serde_json::{Value, json};

use crate::{
    browser::{Browser, Window},
    classifier::{BLUE, Classifier, RED, drop_file, picture},
};

const LIVE: &str = "document.querySelector('#line').textContent === 'live'";

fn drop_picture(window: &Window<'_>, name: &str, colour: [u8; 3]) {
    drop_file(window, name, &picture(colour));
}

/// Keeps a picture of a page, to be looked at.
fn keep(window: &Window<'_>, name: &str) {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
    window.screenshot(&file).expect("a picture");
}

fn labels() -> &'static str {
    "Array.from(document.querySelectorAll('.card'), (it) => [it.dataset.name, \
     it.querySelector('.label strong')?.textContent ?? it.dataset.status]).sort()"
}

fn wait_for_cards(window: &Window<'_>, cards: &Value) {
    window.wait_for(&format!("JSON.stringify({}) === {}", labels(), json!(cards.to_string())));
}

#[test]
fn labels_appear_without_reload_and_a_deletion_is_seen_in_another_window() {
    let Some(browser) = Browser::start() else { return };
    let server = Classifier::start().serve(tempfile::tempdir().unwrap());
    let url = format!("{}/uploads/demo", server.url);
    let (one, two) = (browser.open(&url), browser.open(&url));
    one.wait_for(LIVE);
    two.wait_for(LIVE);
    one.evaluate("window.stayed = true");
    for (name, colour) in [("a.png", RED), ("b.png", BLUE), ("c.png", RED)] {
        drop_picture(&one, name, colour);
    }
    let three = json!([["a.png", "RED"], ["b.png", "BLUE"], ["c.png", "RED"]]);
    wait_for_cards(&one, &three);
    wait_for_cards(&two, &three);
    drop_picture(&two, "a.png", BLUE);
    wait_for_cards(&one, &json!([["a.png", "BLUE"], ["b.png", "BLUE"], ["c.png", "RED"]]));
    keep(&one, "uploads-three");
    one.click(".card[data-name=\"c.png\"] .delete button");
    let left = json!([["a.png", "BLUE"], ["b.png", "BLUE"]]);
    wait_for_cards(&one, &left);
    wait_for_cards(&two, &left);
    assert_eq!(one.evaluate("window.stayed"), json!(true), "the page was never loaded again");
    browser.assert_quiet();
}

#[test]
fn a_file_that_is_no_image_is_explained_on_the_page() {
    let Some(browser) = Browser::start() else { return };
    let server = Classifier::start().serve(tempfile::tempdir().unwrap());
    let window = browser.open(&format!("{}/uploads/demo", server.url));
    window.wait_for(LIVE);
    drop_file(&window, "x.png", b"<svg/>");
    window.wait_for("0 < (document.querySelector('#progress .error')?.textContent ?? '').length");
    browser.assert_quiet_but(&["415"]);
}
