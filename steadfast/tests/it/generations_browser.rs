//! Generations in real windows of a real browser.

use steadfast_fake_runware::FakeRunware;

use crate::{
    browser::{Browser, Window},
    generations_runware::{flags, free_host},
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

/// The library lists a generation a moment after it was accepted. Here the page gets the old
/// library three times.
#[test]
fn a_generation_that_the_library_does_not_know_yet_is_shown_when_it_does() {
    let Some(browser) = Browser::start() else { return };
    let (fake, host) = (FakeRunware::start().expect("it starts"), free_host());
    let flags = flags(&fake, Some(&host), None, 300);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::at(&host, tempfile::tempdir().expect("a folder"), &flags);
    let window = browser.open(&format!("{}/generations", server.url));
    window.evaluate(
        "window.looks = 0; const real = window.fetch; \
         const old = document.documentElement.outerHTML; \
         window.fetch = (to, how) => to === location.href && ++window.looks <= 3 \
           ? Promise.resolve(new Response(old)) : real(to, how)",
    );
    window.write("#bench textarea", "late-webhook never-done");
    window.evaluate("document.querySelector('#bench [name=model]').value = 'runware:100@1'");
    window.click("#bench button.main");
    window.wait_for("document.querySelector('.task[data-status=\"submitted\"]') !== null");
    window.wait_for("3 < window.looks");
    browser.assert_quiet();
}

#[test]
fn cards_fill_one_by_one_as_their_pictures_come() {
    let Some(browser) = Browser::start() else { return };
    let (fake, host) = (FakeRunware::start().expect("it starts"), free_host());
    let flags = flags(&fake, Some(&host), None, 300);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::at(&host, tempfile::tempdir().expect("a folder"), &flags);
    let window = browser.open(&format!("{}/generations", server.url));
    // Pictures come when the test says.
    window.write("#bench textarea", "late-webhook never-done");
    window.evaluate("document.querySelector('#bench [name=model]').value = 'runware:100@1'");
    window.evaluate("document.querySelector('#bench [name=count]').value = 4");
    window.click("#bench button.main");
    let cards = |state: &str| format!("document.querySelectorAll('.task{state}').length");
    window.wait_for(&format!("{} === 4", cards("[data-status=\"submitted\"]")));
    assert_eq!(fake.tasks().len(), 4);
    for (number, task) in fake.tasks().iter().enumerate() {
        fake.send_webhook(task);
        // One card after the other has its picture, and the page is not loaded again.
        if number == 0 {
            window.evaluate("window.stays = true");
        }
        if number < 3 {
            let filled = number + 1;
            window.wait_for(&format!("{} === {filled}", cards("[data-status=\"ready\"] img")));
            window.wait_for(&format!("{} === 4", cards("")));
            let whole = "Array.from(document.querySelectorAll('.task img'))\
                         .every((it) => it.complete && 0 < it.naturalWidth)";
            window.wait_for(whole);
        }
    }
    window.wait_for("document.querySelector('.generation') === null");
    window.wait_for("document.querySelectorAll('.grid li img').length === 4");
    window.wait_for("window.stays === true");
    assert_eq!(fake.billings_max(), 1);
    browser.assert_quiet();
}
