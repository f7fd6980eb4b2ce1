//! Events: which changes are sent, to which queue, with which content.

use steadfast_bucket::{
    Attributes, BlobEvent, BucketError, BucketName, CopyOptions, EventType, LifecycleRule,
    PutOptions, Rule,
};
use steadfast_store::{DueCursor, Timestamp, queue_address};

use crate::setup::{Setup, bucket, key};

laws!(
    every_action_sends_a_complete_event,
    a_rule_selects_by_type_prefix_and_suffix,
    a_change_of_a_rule_is_in_order_with_the_writes,
    the_last_events_are_shown_newest_first,
    a_clock_that_is_set_back_changes_no_order,
);
laws!(also on postgres: a_change_of_a_rule_is_in_order_with_the_writes);

fn rule(id: &str, events: &[EventType], prefix: &str, suffix: &str, queue: &str) -> Rule {
    Rule { prefix: prefix.into(), suffix: suffix.into(), ..Rule::new(id, events, queue) }
}

const CREATE: &[EventType] = &[EventType::ObjectCreate];
const DELETE: &[EventType] = &[EventType::ObjectDelete];
const BOTH: &[EventType] = &[EventType::ObjectCreate, EventType::ObjectDelete];

impl Setup {
    async fn sent_to(&self, queue: &str) -> Vec<String> {
        let queue = queue_address(queue).unwrap().id();
        let found = self.store.queue_messages(queue, DueCursor::START, Timestamp::MAX, 100).await;
        let mut found: Vec<_> = found.unwrap().into_iter().map(|it| it.message).collect();
        found.sort_by_key(|it| it.position);
        let read = |text: &str| serde_json::from_str::<BlobEvent>(text).unwrap();
        let told = found.iter().map(|it| read(it.data.as_str()));
        told.map(|it| format!("{} {}", it.action.name(), it.key())).collect()
    }
}

async fn every_action_sends_a_complete_event(setup: Setup) {
    setup.listen().await;
    let (id, prefix, delete_after_ms) = ("old".into(), "copy".into(), Some(60_000));
    let rule = LifecycleRule { id, prefix, delete_after_ms, ..LifecycleRule::default() };
    setup.buckets.put_lifecycle(&bucket(), rule).await.unwrap();
    let mut attributes = Attributes::of_type("image/png");
    attributes.metadata.insert("owner".into(), "ü".into());
    let put = PutOptions { attributes: attributes.clone(), ..PutOptions::default() };
    let blob = setup.buckets.put(&bucket(), &key("put"), b"bytes", put).await.unwrap();
    let (bucket, from, to) = (bucket(), key("put"), key("copy"));
    let copy = setup.buckets.copy((&bucket, &from), (&bucket, &to), CopyOptions::default());
    let copy = copy.await.unwrap();
    let upload = setup.begin("parts").await;
    setup.part(&upload, 7, b"part").await.unwrap();
    let parts = setup.complete(&upload, &[7]).await.unwrap();
    setup.delete("put").await;
    setup.pass(std::time::Duration::from_mins(1));
    setup.buckets.sweep().await.unwrap();
    let events = setup.events().await;
    let names: Vec<&str> = events.iter().map(|it| it.action.name()).collect();
    let (made, gone) = (["PutObject", "CopyObject", "CompleteMultipartUpload"], "DeleteObject");
    assert_eq!(names, [&made[..], &[gone, "LifecycleDeletion"]].concat());
    for (event, blob) in events.iter().zip([&blob, &copy, &parts]) {
        assert_eq!(
            (event.account.as_str(), event.bucket.as_str()),
            (setup.buckets.account(), "photos")
        );
        assert_eq!((event.key(), &event.version), (blob.key.as_str(), &blob.version()));
        assert_eq!(
            (event.object.size, &event.object.e_tag),
            (Some(blob.size), &Some(blob.etag.clone()))
        );
        assert_eq!((event.sequence, &event.metadata), (1, &blob.attributes.metadata));
        assert_eq!(event.event_time, "2023-11-14T22:13:20.000Z");
    }
    assert_eq!(events[1].metadata, attributes.metadata, "a copy keeps what is said of it");
    assert_eq!((&events[3].version, events[3].sequence), (&blob.version(), 2));
    assert_eq!((&events[4].version, events[4].sequence), (&copy.version(), 2));
    assert_eq!(events[4].event_time, "2023-11-14T22:14:20.000Z");
    assert!(events[3..].iter().all(|it| it.object.size.is_none() && it.metadata.is_empty()));
}

async fn a_rule_selects_by_type_prefix_and_suffix(setup: Setup) {
    let put = async |rule: Rule| setup.buckets.put_rule(&bucket(), rule).await;
    put(rule("png", CREATE, "in/", ".png", "images")).await.unwrap();
    put(rule("gone", DELETE, "in/", "", "deletions")).await.unwrap();
    put(rule("txt", CREATE, "in/", ".txt", "texts")).await.unwrap();
    let overlap = put(rule("any", BOTH, "in/deep/", "", "all")).await.unwrap_err();
    assert!(matches!(overlap, BucketError::Overlap { .. }), "{overlap}");
    for at in ["in/a.png", "in/b.txt", "in/c.gif", "out/d.png"] {
        setup.put(at, b"").await;
        setup.delete(at).await;
    }
    assert_eq!(setup.sent_to("images").await, ["PutObject in/a.png"]);
    assert_eq!(setup.sent_to("texts").await, ["PutObject in/b.txt"]);
    let gone = ["in/a.png", "in/b.txt", "in/c.gif"].map(|it| format!("DeleteObject {it}"));
    assert_eq!(setup.sent_to("deletions").await, gone);
    put(rule("png", CREATE, "out/", "", "images")).await.unwrap();
    setup.put("in/a.png", b"").await;
    setup.put("out/d.png", b"").await;
    assert_eq!(setup.sent_to("images").await[1..], ["PutObject out/d.png"], "it was replaced");
    setup.buckets.delete_rule(&bucket(), "png").await.unwrap();
    let error = setup.buckets.delete_rule(&bucket(), "png").await.unwrap_err();
    assert!(matches!(error, BucketError::UnknownRule { .. }));
    let other = BucketName::new("other").unwrap();
    setup.buckets.create(&other).await.unwrap();
    setup.buckets.put(&other, &key("in/x.txt"), b"", PutOptions::default()).await.unwrap();
    assert_eq!(setup.sent_to("texts").await.len(), 1, "each bucket has its own rules");
}

/// A caller can rely on a new or deleted rule as soon as it has the answer.
async fn a_change_of_a_rule_is_in_order_with_the_writes(setup: Setup) {
    let mut expected = 0;
    for round in 0..10 {
        setup.listen().await;
        let during = tokio::join!(setup.put("k", b"1"), setup.put("k", b"2"), async {
            setup.buckets.delete_rule(&bucket(), "all").await.unwrap();
            setup.put("k", b"after").await.sequence
        });
        let events = setup.events().await;
        assert!(events.iter().all(|it| it.sequence != during.2), "round {round}");
        let told = |sequence| usize::from(events.iter().any(|it| it.sequence == sequence));
        expected += told(during.0.sequence) + told(during.1.sequence);
        assert_eq!(events.len(), expected);
    }
}

async fn the_last_events_are_shown_newest_first(setup: Setup) {
    setup.put("before", b"").await;
    setup.listen().await;
    for at in ["a", "b", "c"] {
        setup.put(at, b"").await;
    }
    let shown = async |before: Option<i64>, limit: usize| {
        let found = setup.buckets.events(&bucket(), before, limit).await.unwrap();
        found.into_iter().map(|it| (it.event.object.key, it.message.version)).collect::<Vec<_>>()
    };
    let newest = [("c".to_owned(), 3), ("b".to_owned(), 2)];
    assert_eq!(shown(None, 2).await, newest);
    assert_eq!(shown(Some(2), 5).await, [("a".to_owned(), 1)]);
    assert_eq!(shown(Some(1), 5).await, []);
    assert_eq!(shown(None, 0).await, []);
}

async fn a_clock_that_is_set_back_changes_no_order(setup: Setup) {
    setup.listen().await;
    let first = setup.put("k", b"1").await;
    setup.clock.set(Timestamp(first.modified_at.0 - 86_400_000));
    let second = setup.put("k", b"2").await;
    assert!(first.modified_at <= second.modified_at);
    assert_eq!(setup.buckets.sweep().await.unwrap(), Default::default());
    assert_eq!(setup.get("k").await, b"2");
    let numbers: Vec<i64> = setup.events().await.iter().map(|it| it.sequence).collect();
    assert_eq!(numbers, [1, 2]);
}
