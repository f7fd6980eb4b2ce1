//! The pages of objects.

use crate::{browser::Browser, harness::Server, object_views::increment};

const NAME: &str = "%3Cb%3E%2F%26";

#[test]
fn an_object_shows_its_tables_turns_and_last_error_escaped() {
    let server = Server::empty();
    let empty = server.get("/objects/counter").body;
    assert!(empty.contains("No object") && empty.contains("objects call counter"), "{empty}");
    increment(&server, NAME, 2);
    increment(&server, NAME, 5);
    let path = format!("/objects/counter/{NAME}");
    server.post_json(&format!("/v1{path}/calls/increment"), "{\"by\": 9223372036854775807}", &[]);
    let classes = server.get("/objects").body;
    assert!(classes.contains("href=\"/objects/counter\""), "{classes}");
    let list = server.get("/objects/counter").body;
    assert!(list.contains(&format!("href=\"{path}\"")) && !list.contains("<b>"), "{list}");
    let page = server.get(&path).body;
    for shown in [
        "&lt;b&gt;/&amp;",
        "2 turns",
        "8 KiB",
        "Last failed turn",
        "out_of_range",
        "/tables/counter\"",
        "/turns/2\"",
        "13 bytes",
        "/export\"",
        "<div id=\"live\" data-busy>",
        "<form class=\"ask\" method=\"post\"",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    assert!(!page.contains("<b>"), "{page}");
    assert!(page.find("class=\"ask\"") > page.find("data-busy"), "what is typed would be replaced");
}

#[test]
fn names_are_found_by_prefix_in_pages() {
    let server = Server::empty();
    for number in 0..52 {
        increment(&server, &format!("n%26{number:02}"), 1);
    }
    increment(&server, "other", 1);
    let page = server.get("/objects/counter?prefix=n%26").body;
    assert!(page.contains("n&amp;49") && !page.contains("n&amp;50") && !page.contains("other"));
    let link = page.split("href=\"").find_map(|it| it.strip_prefix("/objects/counter?prefix="));
    let link = link.unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let next = server.get(&format!("/objects/counter?prefix={link}")).body;
    assert!(next.contains("n&amp;51") && !next.contains("other") && !next.contains("Next page"));
    let none = server.get("/objects/counter?prefix=%3Ci%3E").body;
    assert!(none.contains("begins with “&lt;i&gt;”") && !none.contains("<i>"), "{none}");
}

#[test]
fn a_turn_shows_its_rows_before_and_after() {
    let server = Server::empty();
    increment(&server, NAME, 2);
    increment(&server, NAME, 5);
    let path = format!("/objects/counter/{NAME}");
    let turn = server.get(&format!("{path}/turns/2")).body;
    for shown in
        ["Turn 2", "<tr class=\"was\">", "<tr class=\"is\">", "<span>2</span>", "<span>7</span>"]
    {
        assert!(turn.contains(shown), "{shown} is missing in {turn}");
    }
    let first = server.get(&format!("{path}/turns/1")).body;
    assert!(first.contains("CREATE TABLE counter") && !first.contains("\"was\""), "{first}");
    let turns = server.get(&format!("{path}/turns")).body;
    assert!(
        turns.contains("increment") && turns.contains("<div id=\"live\" data-busy>"),
        "{turns}"
    );
    let old = server.get(&format!("{path}/turns?limit=1")).body;
    let cursor = old.split("?cursor=").nth(1).unwrap().split('"').next().unwrap();
    let old = server.get(&format!("{path}/turns?cursor={cursor}")).body;
    assert!(old.contains("<div id=\"live\">"), "an old page does not change: {old}");
    assert_eq!(server.get(&format!("{path}/turns/3")).status, 404);
}

#[test]
fn a_query_is_answered_or_refused_on_the_page() {
    let server = Server::empty();
    increment(&server, NAME, 2);
    increment(&server, NAME, 5);
    let path = format!("/objects/counter/{NAME}");
    let table = server.get(&format!("{path}/tables/counter")).body;
    assert!(table.contains("Rows 1 to 1 after turn 2") && table.contains("<span>7</span>"));
    assert_eq!(server.get(&format!("{path}/tables/no%22%3Cb%3E")).status, 422);
    let ask = |form: &str| {
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        server.post_form(&format!("{path}/sql"), form, &kind)
    };
    let answer = ask("sql=SELECT+n,+'%3Ci%3E'+AS+'%3Cu%3E',+x'00',+NULL+FROM+counter&turn=1").body;
    for shown in ["1 row after turn 1", "<span>2</span>", "&lt;i&gt;", "&lt;u&gt;", "blob, 1 bytes"]
    {
        assert!(answer.contains(shown), "{shown} is missing in {answer}");
    }
    assert!(!answer.contains("<i>") && !answer.contains("<u>") && answer.contains("NULL"));
    let refused = ask("sql=DELETE+FROM+counter&turn=");
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains("Statement failed") && refused.body.contains("<textarea"));
    let failed = ask("sql=SELECT+%22%3Cscript%3E%22.x");
    assert!(failed.status == 422 && !failed.body.contains("<script>"), "{}", failed.body);
    assert!(ask("turn=1").body.contains("value=\"1\""));
    assert_eq!(ask("sql=SELECT+1&turn=x").status, 400);
    assert_eq!(ask("nonsense=1").status, 400);
    // Any page may link here, so a link runs nothing. It fills in the form.
    let link = server.get(&format!("{path}/sql?sql=SELECT+41%2B1&turn=1")).body;
    assert!(link.contains("SELECT 41+1") && link.contains("value=\"1\""), "{link}");
    assert!(!link.contains("1 row after turn"), "{link}");
}

#[test]
fn the_pages_of_objects_have_no_inline_script_and_no_inline_style() {
    let server = Server::empty();
    increment(&server, "a", 2);
    let object = "/objects/counter/a";
    for path in ["", "/tables/counter", "/turns", "/turns/1", "/sql?sql=SELECT+1"] {
        let page = server.get(&format!("{object}{path}"));
        assert_eq!(page.status, 200, "{path}");
        let scripts = page.body.replace("<script src=\"/assets/live.js?v=", "");
        let scripts = scripts.replace("<script src=\"/assets/sql.js?v=", "");
        assert!(!scripts.contains("<script") && !page.body.contains("style="), "{path}");
    }
    assert!(server.get("/").body.contains("<strong>1</strong><span>object</span>"));
}

#[test]
fn the_form_calls_a_public_message_and_shows_the_reply() {
    let server = Server::empty();
    increment(&server, NAME, 2);
    let path = format!("/objects/counter/{NAME}");
    let page = server.get(&path).body;
    for shown in [
        "<details class=\"act\" data-key=\"increment\">",
        "<input id=\"increment-by\" name=\"field.by\" value=\"\" type=\"number\"",
        "This message has no fields.",
    ] {
        assert!(page.contains(shown), "{shown} is missing in {page}");
    }
    let call = |form: &str| {
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        server.post_form(&format!("{path}/call"), form, &kind)
    };
    // The second request is the same form, as from a reloaded page.
    for _ in 0..2 {
        let done = call("message=increment&body=%7B%22by%22%3A3%7D&key=k-1");
        assert!(done.status == 200 && done.body.contains("the result is durable"), "{}", done.body);
    }
    assert!(server.get(&format!("{path}/tables/counter")).body.contains("<span>5</span>"));
    let done = call("message=increment&field.by=4&key=k-2");
    assert!(done.status == 200 && done.body.contains("<code>9</code>"), "{}", done.body);
    assert!(done.body.contains("data-key=\"increment\" open>"), "{}", done.body);
    let wrong = call("message=increment&field.by=%3Cb%3E");
    assert!(wrong.status == 400 && wrong.body.contains("must be a number"), "{}", wrong.body);
    assert!(wrong.body.contains("value=\"&lt;b&gt;\"") && !wrong.body.contains("<b>"));
    assert_eq!(call("message=increment&field.bye=4").status, 400, "a field that it does not have");
    let refused = call("message=increment&body=%7B%22by%22%3A%22%3Cb%3E%22%7D");
    assert!(refused.status == 400 && !refused.body.contains("<b>"), "{}", refused.body);
    assert_eq!(call("message=none&body=").status, 404);
}

#[test]
fn a_browser_lists_the_last_statements_of_a_class() {
    let Some(browser) = Browser::start() else { return };
    let server = Server::empty();
    increment(&server, "a", 2);
    increment(&server, "b", 2);
    let window = browser.open(&format!("{}/objects/counter/a/sql", server.url));
    window.write("#sql", "SELECT n FROM counter");
    window.click("form.ask button");
    window.wait_for("document.body.textContent.includes('1 row after turn')");
    window.go(&format!("{}/objects/counter/b", server.url));
    let offered = "document.querySelector('.statement')?.textContent";
    window.wait_for(&format!("{offered} === 'SELECT n FROM counter'"));
    window.evaluate("document.querySelector('.statement').click()");
    window.wait_for("document.querySelector('#sql').value === 'SELECT n FROM counter'");
    browser.assert_quiet();
}
