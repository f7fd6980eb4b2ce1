//! Objects: lists and turns, without contents.

use std::time::Duration;

use steadfast_store::{Address, Commit, EntityKind, Turn, TurnSummary, Write};

use crate::lab::{Lab, START, address_of, command};

crate::laws::laws!(
    objects_are_listed_by_the_bytes_of_their_names_in_pages,
    only_names_with_the_prefix_are_listed,
    an_object_that_was_erased_is_not_listed_until_it_is_made_anew,
    the_objects_of_a_class_are_counted_up_to_a_number,
    every_class_that_was_addressed_is_found_once,
    a_summary_has_everything_of_a_turn_but_its_changes,
);

fn object(name: &str) -> Address {
    address_of(EntityKind::Object, "thing", name)
}

async fn turn(lab: &Lab, object: &Address, input: &str, delta: &[u8]) {
    let (object, input, delta) = (object.clone(), input.into(), delta.into());
    let turn = Turn { object, cause: Some(7), sent: 2, chk: 1, input, delta };
    lab.committed(Commit::of(Write::Turn(turn))).await;
}

async fn names(lab: &Lab, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
    let found = lab.store.objects("thing", prefix, after, limit).await.unwrap();
    found.iter().map(|it| it.address.name().to_owned()).collect()
}

async fn objects_are_listed_by_the_bytes_of_their_names_in_pages(lab: Lab) {
    let sorted = ["%", "A", "Z", "a", "a\u{1}", "a b", "a/b", "ab", "ä", "\u{ffff}", "😀"];
    for name in ["ab", "a", "😀", "Z", "\u{ffff}", "a/b", "ä", "A", "a b", "%", "a\u{1}"] {
        turn(&lab, &object(name), "add", b"x").await;
        turn(&lab, &address_of(EntityKind::Object, "other", name), "add", b"x").await;
    }
    // Neither a target that never had a turn nor another kind is an object that exists.
    lab.append(&address_of(EntityKind::Process, "thing", "b"), vec![command(&object("c"))]).await;
    let mut seen: Vec<String> = Vec::new();
    loop {
        let page = names(&lab, "", seen.last().map(String::as_str), 2).await;
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen, sorted);
    assert_eq!(names(&lab, "", None, 0).await, [""; 0]);
}

async fn only_names_with_the_prefix_are_listed(lab: Lab) {
    let last = "\u{10ffff}".repeat(128);
    for name in ["a", "ab", "abc", "b", "%", "_", "A", "a\u{10ffff}", "a\u{10ffff}x", &last] {
        turn(&lab, &object(name), "add", b"x").await;
    }
    assert_eq!(names(&lab, "ab", None, 9).await, ["ab", "abc"]);
    assert_eq!(names(&lab, "a", Some("ab"), 1).await, ["abc"]);
    assert_eq!(names(&lab, "b", Some("a"), 9).await, ["b"]);
    assert_eq!(names(&lab, "a", Some("b"), 9).await, [""; 0]);
    assert_eq!(names(&lab, "%", None, 9).await, ["%"]);
    assert_eq!(names(&lab, "_", None, 9).await, ["_"]);
    assert_eq!(names(&lab, "a\u{10ffff}", None, 9).await, ["a\u{10ffff}", "a\u{10ffff}x"]);
    assert_eq!(names(&lab, "\u{10ffff}", None, 9).await, [last]);
    assert_eq!(names(&lab, "a\0", None, 9).await, [""; 0]);
}

async fn an_object_that_was_erased_is_not_listed_until_it_is_made_anew(lab: Lab) {
    let a = object("a");
    turn(&lab, &a, "add", b"x").await;
    turn(&lab, &a, "add", b"x").await;
    lab.clock.advance(Duration::from_secs(1));
    lab.committed(Commit::of(Write::Erase { entity: a.id() })).await;
    assert_eq!(names(&lab, "", None, 9).await, [""; 0]);
    assert_eq!(lab.store.count_objects("thing", 9).await.unwrap(), 0);
    turn(&lab, &a, "add", b"x").await;
    let found = lab.store.objects("thing", "", None, 9).await.unwrap().remove(0);
    assert_eq!((found.head.seq, found.created_at), (1, START));
    assert_eq!(found.updated_at, Some(START.after(Duration::from_secs(1))));
    assert_eq!(Some(found.head), lab.store.head(a.id()).await.unwrap());
}

async fn the_objects_of_a_class_are_counted_up_to_a_number(lab: Lab) {
    for name in ["a", "b", "c"] {
        turn(&lab, &object(name), "add", b"x").await;
    }
    for (max, expected) in [(0, 0), (2, 2), (3, 3), (9, 3)] {
        assert_eq!(lab.store.count_objects("thing", max).await.unwrap(), expected);
    }
    assert_eq!(lab.store.count_objects("none", 9).await.unwrap(), 0);
    // A name looks like a class.
    turn(&lab, &object("d/e"), "add", b"x").await;
    assert_eq!(lab.store.count_objects("thing/d", 9).await.unwrap(), 0);
    assert_eq!(lab.store.objects("thing/d", "e", None, 9).await.unwrap(), []);
    assert_eq!(lab.store.objects("thing", "d/", None, 9).await.unwrap().len(), 1);
}

async fn every_class_that_was_addressed_is_found_once(lab: Lab) {
    let classes =
        async |after, limit| lab.store.classes(EntityKind::Object, after, limit).await.unwrap();
    assert_eq!(classes(None, 9).await, [""; 0]);
    for (class, name) in [("b", "1"), ("a", "1"), ("b", "2"), ("Z", "1"), ("a-b", "1")] {
        turn(&lab, &address_of(EntityKind::Object, class, name), "add", b"x").await;
    }
    let queue = address_of(EntityKind::Queue, "q", "1");
    lab.append(&queue, vec![command(&address_of(EntityKind::Object, "target", "1"))]).await;
    assert_eq!(classes(None, 9).await, ["Z", "a-b", "a", "b", "target"]);
    assert_eq!(classes(None, 2).await, ["Z", "a-b"]);
    assert_eq!(classes(Some("a-b"), 2).await, ["a", "b"]);
    assert_eq!(classes(Some("aa"), 9).await, ["b", "target"], "a class that was never addressed");
    assert_eq!(classes(Some("target"), 9).await, [""; 0]);
    assert_eq!(classes(None, 0).await, [""; 0]);
}

async fn a_summary_has_everything_of_a_turn_but_its_changes(lab: Lab) {
    let a = object("a");
    turn(&lab, &a, "first", b"").await;
    turn(&lab, &object("b"), "noise", b"x").await;
    turn(&lab, &a, "second", &[7; 100_000]).await;
    let head = lab.store.head(a.id()).await.unwrap().unwrap();
    let found = lab.store.turn_summaries(head.position, 9).await.unwrap();
    let second = TurnSummary {
        position: 3,
        entity: a.id(),
        seq: 2,
        prev: 1,
        at: START,
        cause: Some(7),
        sent: 2,
        input: "second".into(),
        bytes: 100_000,
    };
    let first = TurnSummary {
        position: 1,
        seq: 1,
        prev: 0,
        input: "first".into(),
        bytes: 0,
        ..second.clone()
    };
    assert_eq!(found, [second.clone(), first]);
    assert_eq!(lab.store.turn_summaries(head.position, 1).await.unwrap(), [second]);
    assert_eq!(lab.store.turn_summaries(2_000, 9).await.unwrap(), []);
}
