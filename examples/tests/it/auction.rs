//! The auction house over HTTP. Its unit tests use a virtual clock; here the time is real.

use serde_json::{Value, json};

use crate::harness::{Server, until};

#[test]
fn an_auction_accepts_bids_and_photos_over_http_and_mails_the_outbid_bidder() {
    let server = Server::start(env!("CARGO_BIN_EXE_auction"));
    let clock = json!({ "title": "Clock", "seller": "sue", "minutes": 60 });
    let bid = |bidder: &str, cents: u32| {
        server.post_json("/auctions/7/bids", &json!({ "bidder": bidder, "cents": cents }))
    };
    let unknown = bid("ann", 900);
    assert_eq!((unknown.status, &*unknown.code()), (422, "unknown_auction"));
    server.post_json("/auctions/7", &clock).json();
    let again = server.post_json("/auctions/7", &clock);
    assert_eq!((again.status, &*again.code()), (422, "auction_exists"));
    bid("ann", 900).json();
    assert_eq!(bid("bob", 900).code(), "bid_too_low");
    bid("bob", 1_000).json();
    until(&json!("outbid on Clock"), || last_mail(&server, "ann"));

    server.put("/v1/buckets/photos/objects/7/front.jpg", b"a photo").json();
    until(&json!(["7/front.jpg"]), || server.get("/auctions/7").json()["photos"].clone());

    let described = server.get("/openapi.json").json();
    assert!(described["paths"]["/auctions/{id}/bids"]["post"].is_object());
}

#[test]
fn an_auction_without_time_ends_at_once_and_is_unsold_after_a_kill() {
    let server = Server::start(env!("CARGO_BIN_EXE_auction"));
    let clock = json!({ "title": "Clock", "seller": "sue", "minutes": 0 });
    server.post_json("/auctions/7", &clock).json();
    let server = server.kill_and_restart();
    until(&json!("unsold"), || server.get("/auctions/7").json()["state"].clone());
}

/// The newest mail in the outbox for a recipient.
fn last_mail(server: &Server, to: &str) -> Value {
    let list = server.get(&format!("/v1/buckets/outbox/objects?prefix={to}/")).json();
    let newest = list["items"].as_array().and_then(|it| it.last());
    let Some(key) = newest.and_then(|it| it["key"].as_str()) else { return Value::Null };
    json!(server.get(&format!("/v1/buckets/outbox/objects/{key}")).body)
}
