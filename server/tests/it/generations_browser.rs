//! Generations in real windows of a real browser.

use crate::{
    browser::{Browser, Window},
    harness::Server,
};

fn keep(window: &Window<'_>, name: &str) {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
    window.screenshot(&file).expect("a picture");
}

#[test]
fn a_seed_that_no_number_of_the_page_can_hold_arrives_as_it_was_written() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let window = browser.open(&format!("{}/generations", server.url));
    window.write("#bench textarea", "a large seed");
    window.evaluate("document.querySelector('#bench [name=count]').value = 1");
    window.write("#bench [name=seed]", "9007199254740993");
    window.click("#bench button.main");
    window.wait_for("document.querySelectorAll('.grid li').length === 1");
    let made = server.get("/api/artifacts").body;
    assert!(made.contains("\"seed\":9007199254740993"), "{made}");
    browser.assert_quiet();
}

#[test]
fn four_pictures_fill_in_one_is_tagged_found_inspected_and_deleted() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let window = browser.open(&format!("{}/generations", server.url));
    window.resize(1200, 1000);
    window.write("#bench textarea", "a garden at night");
    window.evaluate("document.querySelector('#bench [name=count]').value = 4");
    window.click("#bench button.main");
    window.wait_for("document.querySelectorAll('.grid li').length === 4");
    // The page is redrawn while a generation is active: a click may meet what is being replaced.
    window.wait_for("document.querySelector('.generation[data-status=\"active\"]') === null");
    window
        .wait_for("Array.from(document.images).every((it) => it.complete && 0 < it.naturalWidth)");
    keep(&window, "generations-library");
    window.click(".grid li a");
    window.wait_for("document.querySelector('#inspector') !== null");
    window.wait_for("document.querySelector('#inspector .full').complete");
    keep(&window, "generations-inspector");
    window.write("#inspector .tagging [name=tag]", "best");
    window.click("#inspector .tagging button");
    window.wait_for("document.querySelector('.chips li')?.textContent.startsWith('best')");
    window.go(&format!("{}/generations?tag=best", server.url));
    window.wait_for("document.querySelectorAll('.grid li').length === 1");
    window.click(".grid li a");
    window.wait_for("document.querySelector('#inspector') !== null");
    window.evaluate(
        "document.querySelector('#inspector [value=\"delete-artifact\"]').form.requestSubmit()",
    );
    window.wait_for("document.querySelector('#inspector') === null");
    window.wait_for("document.querySelectorAll('.grid li').length === 3");
    browser.assert_quiet();
}
