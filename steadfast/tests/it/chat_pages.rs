//! The pages of chat rooms, as they come from the server.

use crate::harness::Server;

#[test]
fn a_room_name_is_escaped_on_its_page() {
    let server = Server::empty();
    for (room, shown) in [
        ("lobby", "data-room=\"lobby\""),
        ("a%2Fb", "data-room=\"a/b\""),
        ("%3Cb%3E%22%26", "data-room=\"&lt;b&gt;&quot;&amp;\""),
        ("%E6%97%A5%E6%9C%AC%20%F0%9F%A6%80", "data-room=\"日本 🦀\""),
    ] {
        let page = server.get(&format!("/chat/{room}"));
        assert_eq!(page.status, 200, "{room}");
        assert!(page.body.contains(shown) && !page.body.contains("<b>"), "{}", page.body);
    }
    server.get(&format!("/chat/{}", "x".repeat(513))).assert_problem(400, "invalid_name");
}

#[test]
fn the_room_script_is_served_here_and_the_overview_links_to_the_rooms() {
    let server = Server::empty();
    assert!(server.get("/").body.contains("href=\"/chat\""));
    for path in ["/chat", "/chat/lobby"] {
        let page = server.get(path).body;
        let (before, rest) = page.split_once("<script src=\"").expect("a script");
        assert!(!before.contains("<script") && !rest.contains("<script"), "{page}");
        assert!(!page.contains("style=") && !page.contains(" onclick"), "{page}");
        let url = rest.split('"').next().unwrap();
        assert!(url.starts_with("/assets/chat.js?v="), "{url}");
        let script = server.get(url);
        assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
        assert!(script.header("cache-control").contains("immutable"));
        assert!(!script.body.contains("innerHTML"), "what others say is never markup");
    }
}
