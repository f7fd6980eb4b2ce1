//! Reads: the written data, in order, page by page.

use steadfast_store::{
    Address, Commit, Due, DueCursor, EntityKind, Health, Message, Remember, Task, Write,
};

use crate::lab::{Lab, START, address, command, event, json};

crate::laws::laws!(
    json_comes_back_byte_for_byte,
    a_stream_is_read_from_a_version_in_pages,
    streams_are_listed_in_order_in_pages,
    pending_is_listed_oldest_first_of_one_stream_or_of_all,
    the_backlog_of_a_target_is_ordered_or_by_due_time,
    an_unknown_stream_is_empty,
    names_may_be_any_text,
    addresses_are_found_by_their_ids,
    written_values_can_be_read_at_their_limits,
);

async fn json_comes_back_byte_for_byte(lab: Lab) {
    let stream = address("a");
    let texts = [
        r#"{"b":1,"a":2,"a":3}"#,
        r#"  [1.0, 1e400, 12345678901234567890123]  "#,
        r#""\u0000 \ud800 \u00fc ü 😀""#,
        "null",
    ];
    let messages = texts.iter().map(|it| Message::new("json", json(it)).unwrap()).collect();
    lab.append(&stream, messages).await;
    let read = lab.store.read_stream(stream.id(), 1, 10).await.unwrap();
    let read: Vec<&str> = read.iter().map(|it| it.data.as_str()).collect();
    assert_eq!(read, texts);
}

async fn a_stream_is_read_from_a_version_in_pages(lab: Lab) {
    let stream = address("a");
    for name in ["one", "two", "three", "four"] {
        lab.append(&stream, vec![event(name)]).await;
        lab.append(&address("other"), vec![event("noise")]).await;
    }
    let page = lab.store.read_stream(stream.id(), 2, 2).await.unwrap();
    let seen: Vec<(i64, &str)> =
        page.iter().map(|it| (it.version, it.message_type.as_str())).collect();
    assert_eq!(seen, [(2, "two"), (3, "three")]);
}

async fn streams_are_listed_in_order_in_pages(lab: Lab) {
    for text in [
        "stream/b/1",
        "process/b/2",
        "stream/a/Z",
        "stream/a/a",
        "stream/a/ä",
        "stream/a-b/c/d",
        "stream/a0/1",
    ] {
        let address: Address = text.parse().unwrap();
        // The target gets no message of its own, so it is no stream.
        lab.append(&address, vec![command(&"queue/never/listed".parse().unwrap())]).await;
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = lab.store.streams(None, after.as_ref(), 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.address.clone());
        seen.extend(page);
    }
    let names: Vec<String> = seen.iter().map(|it| it.address.to_string()).collect();
    let of_a = ["stream/a/Z", "stream/a/a", "stream/a/ä"];
    let expected = [&["process/b/2", "stream/a-b/c/d"], &of_a[..], &["stream/a0/1", "stream/b/1"]];
    assert_eq!(names, expected.concat());
    for (class, after, expected) in [
        ("a", None, &of_a[..]),
        ("a", Some("stream/a/Z"), &of_a[1..]),
        ("a", Some("process/b/2"), &of_a),
        ("a", Some("stream/a0/1"), &[]),
        // A name looks like a class.
        ("a-b/c", None, &[]),
    ] {
        let after = after.map(|it| it.parse::<Address>().unwrap());
        let within = Some((EntityKind::Stream, class));
        let found = lab.store.streams(within, after.as_ref(), 9).await.unwrap();
        let found: Vec<String> = found.iter().map(|it| it.address.to_string()).collect();
        assert_eq!(found, expected, "{class} {after:?}");
    }
    assert_eq!((seen[0].version, seen[0].created_at, seen[0].updated_at), (1, START, START));
}

async fn pending_is_listed_oldest_first_of_one_stream_or_of_all(lab: Lab) {
    let (a, b) = (address("a"), address("b"));
    for stream in [&a, &b, &a, &b] {
        lab.append(stream, vec![event("noise"), command(&a)]).await;
    }
    let positions = async |stream: Option<&Address>, after, limit| -> Vec<i64> {
        let found = lab.store.pending(stream.map(Address::id), after, limit).await.unwrap();
        found.iter().map(|it| it.position).collect()
    };
    assert_eq!(positions(None, 0, 10).await, [2, 4, 6, 8]);
    assert_eq!(positions(None, 2, 2).await, [4, 6]);
    assert_eq!(positions(Some(&a), 0, 10).await, [2, 6]);
    assert_eq!(positions(Some(&b), 4, 10).await, [8]);
}

async fn the_backlog_of_a_target_is_ordered_or_by_due_time(lab: Lab) {
    let target = address("t");
    let message = |ordered, milliseconds: i64| {
        let due = Due::At(steadfast_store::Timestamp(START.0 + milliseconds));
        Message::new("x", json("1")).unwrap().task(Task { target: target.clone(), ordered, due })
    };
    let messages = [(true, 20), (false, 20), (true, 10), (false, 10), (false, 30)];
    let messages = messages.into_iter().map(|(ordered, at)| message(ordered, at)).collect();
    lab.append(&address("a"), messages).await;
    let backlog = async |ordered, limit| -> Vec<i64> {
        let found = lab.store.backlog(target.id(), ordered, DueCursor::START, limit).await.unwrap();
        found.iter().map(|it| it.position).collect()
    };
    assert_eq!(backlog(true, 10).await, [1, 3]);
    assert_eq!(backlog(false, 10).await, [4, 2, 5]);
    assert_eq!(backlog(false, 1).await, [4]);
}

async fn an_unknown_stream_is_empty(lab: Lab) {
    let stream = address("nobody");
    assert_eq!(lab.version(&stream).await, 0);
    assert_eq!(lab.store.read_stream(stream.id(), 1, 10).await.unwrap(), []);
    assert_eq!(lab.store.pending(Some(stream.id()), 0, 10).await.unwrap(), []);
    assert!(lab.store.addresses(&[stream.id()]).await.unwrap().is_empty());
    assert_eq!(lab.store.message(1).await.unwrap(), None);
}

async fn names_may_be_any_text(lab: Lab) {
    for name in ["../../etc", "a'; DROP TABLE message; --", "%_?$1", "\u{202e}x", "😀", " "] {
        let stream = Address::new(EntityKind::Process, "any", name).unwrap();
        lab.append(&stream, vec![event("x")]).await;
        let id = stream.id();
        assert_eq!(lab.store.addresses(&[id]).await.unwrap().remove(&id), Some(stream));
    }
}

async fn addresses_are_found_by_their_ids(lab: Lab) {
    let (stream, target) = (address("a"), address("t"));
    lab.append(&stream, vec![command(&target)]).await;
    let unknown = address("nobody").id();
    let found = lab.store.addresses(&[target.id(), unknown, stream.id()]).await.unwrap();
    let expected = [(target.id(), target), (stream.id(), stream)];
    assert_eq!(found, expected.into_iter().collect());
}

async fn written_values_can_be_read_at_their_limits(lab: Lab) {
    let stream = address("a");
    lab.append(&stream, vec![event("x").schema(i32::MIN), event("y").schema(i32::MAX)]).await;
    let key = Remember::new(stream.id(), "k", b"").unwrap().reply(-1, json("1"));
    for _ in 0..2 {
        lab.commit(Commit::of(Write::Remember(key.clone()))).await;
    }
    let read = lab.store.read_all(0, usize::MAX).await.unwrap();
    assert_eq!([read[0].schema, read[1].schema], [i32::MIN, i32::MAX]);
    assert_eq!(lab.store.health(), Health::Ready);
}
