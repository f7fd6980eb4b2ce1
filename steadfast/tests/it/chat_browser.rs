//! Chat in real windows of a real browser.

use serde_json::{Value, json};

use crate::{
    browser::{Browser, Window},
    harness::Server,
};

const CONNECTED: &str = "document.querySelector('#state').textContent === 'connected'";
const AGAIN: &str = "document.querySelector('#state').textContent === 'reconnecting…'";
/// Messages of the browser about an unreachable server; a page cannot prevent them.
const GONE: &[&str] = &["ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "WebSocket connection"];

/// Enters a room under a name, through the form.
fn enter<'a>(browser: &'a Browser, server: &Server, room: &str, name: &str) -> Window<'a> {
    let window = browser.open(&format!("{}/chat", server.url));
    window.write("#room", room);
    window.write("#name", name);
    window.press_enter();
    window.wait_for(CONNECTED);
    window
}

/// Opens a room without entering it: no name is set, and nothing is connected.
fn before<'a>(browser: &'a Browser, server: &Server, room: &str) -> Window<'a> {
    browser.open(&format!("{}/chat/{room}", server.url))
}

fn say(window: &Window<'_>, text: &str) {
    window.write("#text", text);
    window.press_enter();
}

/// The texts of elements.
fn texts(window: &Window<'_>, selector: &str) -> Vec<String> {
    let found = window.evaluate(&all(selector));
    serde_json::from_value(found).expect("texts")
}

fn all(selector: &str) -> String {
    format!("Array.from(document.querySelectorAll('{selector}'), (it) => it.textContent)")
}

fn wait_for_texts(window: &Window<'_>, selector: &str, expected: &[&str]) {
    let expected = json!(expected).to_string();
    window.wait_for(&format!("JSON.stringify({}) === JSON.stringify({expected})", all(selector)));
}

/// Says this many lines without a window.
fn say_from_outside(server: &Server, count: usize) -> Vec<String> {
    let texts: Vec<String> = (0..count).map(|it| format!("line {it}")).collect();
    for text in &texts {
        let body = json!({ "key": text, "who": "zoe", "text": text }).to_string();
        server.post_json("/v1/objects/chat/lobby/calls/say", &body, &[]);
    }
    texts
}

/// Every line of a room, from the server.
fn lines(server: &Server, room: &str) -> Vec<String> {
    let path = format!("/v1/objects/chat/{room}/calls/history");
    let (mut all, mut before) = (Vec::new(), Value::Null);
    loop {
        let body = json!({ "before": before, "limit": 500 }).to_string();
        let lines = server.post_json(&path, &body, &[]).json();
        let lines = lines.as_array().expect("lines");
        let Some(first) = lines.first() else { return all };
        before = first["id"].clone();
        let texts = lines.iter().map(|it| it["text"].as_str().expect("a text").to_owned());
        all.splice(..0, texts.collect::<Vec<_>>());
    }
}

#[test]
fn two_windows_chat_and_show_who_is_present() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let ann = enter(&browser, &server, "lobby", "ann");
    let ben = enter(&browser, &server, "lobby", "ben");
    for window in [&ann, &ben] {
        wait_for_texts(window, "#here li", &["ann", "ben"]);
    }
    say(&ann, "Good morning");
    wait_for_texts(&ben, "#lines .text", &["Good morning"]);
    say(&ben, "Hello ann");
    for window in [&ann, &ben] {
        wait_for_texts(window, "#lines .text", &["Good morning", "Hello ann"]);
        wait_for_texts(window, "#lines .who", &["ann", "ben"]);
        wait_for_texts(window, "#pending li", &[]);
    }
    assert_eq!(texts(&ann, "#lines .own .who"), ["ann"]);
    ben.close();
    wait_for_texts(&ann, "#here li", &["ann"]);
    browser.assert_quiet();
}

#[test]
fn lines_of_others_are_shown_as_text() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let room = "a/b <i>?#%2F 🦀";
    let odd = "<img src=x onerror=alert(1)><b>bold</b> &amp; </p>";
    let ann = enter(&browser, &server, room, "<u>ann</u>");
    let ben = enter(&browser, &server, room, "ben");
    say(&ann, odd);
    for window in [&ann, &ben] {
        wait_for_texts(window, "#lines .text", &[odd]);
        wait_for_texts(window, "#here li", &["<u>ann</u>", "ben"]);
        assert_eq!(texts(window, "h1"), [room]);
        assert_eq!(texts(window, "#chat b, #chat u, #chat img, h1 i"), [""; 0]);
    }
    browser.assert_quiet();
}

/// Says lines, one every few milliseconds, until `window.stopped` or a maximum; connected or not.
fn go_on_saying(window: &Window<'_>, who: &str) {
    window.evaluate(&format!(
        "window.said = []; setInterval(() => {{ \
             if (window.stopped || 400 <= said.length) return; \
             said.push(`{who} ${{said.length}}`); \
             document.querySelector('#text').value = said.at(-1); \
             document.querySelector('#say').requestSubmit(); \
         }}, 15); 0"
    ));
}

#[test]
fn after_a_kill_both_windows_reconnect_and_show_every_line_once() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let host = server.host().to_owned();
    let windows = ["ann", "ben"].map(|it| enter(&browser, &server, "lobby", it));
    for (window, who) in windows.iter().zip(["ann", "ben"]) {
        go_on_saying(window, who);
    }
    let mut server = server;
    for round in 1..=2 {
        for window in &windows {
            let many = 40 * round;
            window.wait_for(&format!("{many} <= document.querySelectorAll('#lines li').length"));
        }
        let folder = server.kill();
        for window in &windows {
            window.wait_for(AGAIN);
            // More lines than a newcomer receives are said while nobody is connected.
            window.wait_for("60 <= document.querySelectorAll('#pending li').length");
        }
        server = Server::again_at(&host, folder);
        windows.iter().for_each(|it| it.wait_for(CONNECTED));
    }
    let mut said = Vec::new();
    for window in &windows {
        let its: Vec<String> =
            serde_json::from_value(window.evaluate("window.stopped = true, said")).expect("texts");
        said.push(its);
    }
    let all: usize = said.iter().map(Vec::len).sum();
    for window in &windows {
        wait_for_texts(window, "#pending li", &[]);
        window.wait_for(&format!("{all} <= document.querySelectorAll('#lines li').length"));
    }
    let seen = texts(&windows[0], "#lines .text");
    assert_eq!(seen, texts(&windows[1], "#lines .text"));
    assert_eq!(seen, lines(&server, "lobby"));
    for (its, who) in said.iter().zip(["ann", "ben"]) {
        let seen: Vec<&String> = seen.iter().filter(|it| it.starts_with(who)).collect();
        assert_eq!(seen, its.iter().collect::<Vec<_>>(), "each once, in the order of saying");
    }
    assert_eq!(seen.len(), all);
    browser.assert_quiet_but(GONE);
}

#[test]
fn unsent_lines_survive_a_reload() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let ann = enter(&browser, &server, "lobby", "ann");
    let expected: Vec<String> = (0..20).map(|it| format!("line {it}")).collect();
    // No response can arrive before the page is unloaded.
    ann.evaluate(
        "for (let i = 0; i < 20; i++) { \
             document.querySelector('#text').value = `line ${i}`; \
             document.querySelector('#say').requestSubmit(); \
         } \
         location.reload()",
    );
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    wait_for_texts(&ann, "#lines .text", &expected);
    wait_for_texts(&ann, "#pending li", &[]);
    assert_eq!(lines(&server, "lobby"), expected);
    browser.assert_quiet();
}

#[test]
fn earlier_lines_are_loaded_with_a_click() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let all = say_from_outside(&server, 120);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let ann = enter(&browser, &server, "lobby", "ann");
    wait_for_texts(&ann, "#lines .text", &all[70..]);
    ann.click("#earlier");
    wait_for_texts(&ann, "#lines .text", &all[20..]);
    ann.click("#earlier");
    wait_for_texts(&ann, "#lines .text", &all);
    ann.wait_for("document.querySelector('#earlier').hidden");
    browser.assert_quiet();
}

#[test]
fn a_refused_line_is_explained_and_restored() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let ann = enter(&browser, &server, "lobby", "ann");
    let long = "x".repeat(2001);
    ann.evaluate("document.querySelector('#text').removeAttribute('maxlength')");
    say(&ann, &long);
    ann.wait_for("document.querySelector('#problem').textContent.includes('2000 characters')");
    ann.wait_for("!document.querySelector('#problem').hidden");
    ann.wait_for("document.querySelector('#text').value.length === 2001");
    say(&ann, "short");
    wait_for_texts(&ann, "#lines .text", &["short"]);
    ann.wait_for("document.querySelector('#problem').hidden");
    browser.assert_quiet();
}

/// Enters a room; `leave()` then does what the server does after ten minutes.
fn enter_to_leave<'a>(browser: &'a Browser, server: &Server) -> Window<'a> {
    let ann = before(browser, server, "lobby");
    ann.evaluate(
        "window.WebSocket = class extends WebSocket { \
             constructor(url) { super(url); window.leave = () => this.close(1000); } }; 0",
    );
    ann.write("#name", "ann");
    ann.press_enter();
    ann.wait_for(CONNECTED);
    ann
}

#[test]
fn an_idle_guest_rejoins_with_a_click_or_a_line() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let ann = enter_to_leave(&browser, &server);
    ann.evaluate("leave()");
    ann.wait_for("!document.querySelector('#left').hidden");
    ann.click("#back");
    ann.wait_for(CONNECTED);
    ann.wait_for("document.querySelector('#left').hidden");
    ann.evaluate("leave()");
    ann.wait_for("!document.querySelector('#left').hidden");
    say(&ann, "still here");
    wait_for_texts(&ann, "#lines .text", &["still here"]);
    browser.assert_quiet();
}

#[test]
fn a_guest_misses_nothing_after_a_long_absence() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let ann = enter_to_leave(&browser, &server);
    say(&ann, "back soon");
    wait_for_texts(&ann, "#lines .text", &["back soon"]);
    ann.evaluate("leave()");
    ann.wait_for("!document.querySelector('#left').hidden");
    let missed = say_from_outside(&server, 520);
    ann.click("#back");
    let mut all = vec!["back soon"];
    all.extend(missed.iter().map(String::as_str));
    wait_for_texts(&ann, "#lines .text", &all);
    ann.wait_for("document.querySelector('#earlier').hidden");
    browser.assert_quiet();
}

#[test]
fn silence_counts_as_a_broken_connection() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let ann = before(&browser, &server, "lobby");
    ann.evaluate(
        "window.made = []; window.WebSocket = class extends WebSocket { \
             constructor(url) { super(url); made.push(this); } }; 0",
    );
    ann.write("#name", "ann");
    ann.press_enter();
    ann.wait_for(CONNECTED);
    for _ in 0..5 {
        ann.evaluate("beat()");
        ann.wait_for("silentBeats === 0");
    }
    ann.evaluate("made[0].onmessage = null, beat(), beat(), 0");
    assert_eq!(ann.evaluate("made.length"), 1, "40 seconds may pass");
    ann.evaluate("beat()");
    ann.wait_for("made.length === 2");
    ann.wait_for(CONNECTED);
    wait_for_texts(&ann, "#here li", &["ann"]);
    browser.assert_quiet();
}

#[test]
fn a_room_fits_into_a_narrow_window() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    let ann = enter(&browser, &server, &"long-name-".repeat(12), &"w".repeat(40));
    say(&ann, &"word".repeat(200));
    wait_for_texts(&ann, "#lines .text", &[&"word".repeat(200)]);
    ann.resize(400, 800);
    ann.wait_for("window.innerWidth === 400");
    ann.wait_for("document.documentElement.scrollWidth <= 400");
    browser.assert_quiet();
}
