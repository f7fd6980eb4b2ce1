//! The cost of queries: the same in a store that is forty times as large.

use steadfast_store::{
    Address, Commit, DueCursor, EntityKind, ExpiryList, Json, Message, Query, RunFilter, RunStatus,
    Sweep, SweepList, Timestamp, Turn, Write, queue_address,
};

use crate::lab::{Lab, START};

/// Objects, streams and runs.
const SMALL: usize = 300;
/// Messages in a queue for each of them: more than are read to compute its depth.
const QUEUED: usize = 4;

/// Fills a store: as many objects, streams and runs, and messages in a queue.
async fn fill(lab: &Lab, numbers: std::ops::Range<usize>) {
    let queue = queue_address("q").unwrap();
    let entity = |kind, number: usize| Address::new(kind, "a", &format!("{number:07}")).unwrap();
    let numbers: Vec<usize> = numbers.collect();
    for part in numbers.chunks(1_000) {
        let mut objects = Commit::default();
        let mut streams = Commit::default();
        let mut runs = Commit::default();
        let mut messages = Vec::new();
        let event = || Message::new("x", Json::empty()).unwrap().event();
        messages.resize(QUEUED * part.len(), event().to(&queue));
        for &number in part {
            objects = objects.write(Write::Turn(Turn {
                object: entity(EntityKind::Object, number),
                cause: None,
                sent: 0,
                chk: 1,
                input: "x".into(),
                delta: vec![1].into(),
            }));
            let (stream, messages) = (entity(EntityKind::Stream, number), vec![event()]);
            streams = streams.write(Write::Append { stream, messages });
            let (run, messages) = (entity(EntityKind::Run, number), vec![event()]);
            runs = runs.write(Write::Append { stream: run.clone(), messages });
            let (status, expires) = (RunStatus::Waiting, None);
            runs = runs.write(Write::Run { run, status, expires });
        }
        let messages = Write::Append { stream: queue.clone(), messages };
        for commit in [objects, streams, runs, Commit::of(messages)] {
            lab.committed(commit).await;
        }
    }
}

/// The cost of each query, in steps of SQLite's virtual machine.
async fn costs(lab: &Lab) -> Vec<(&'static str, u64)> {
    let (store, queue) = (&*lab.store, queue_address("q").unwrap());
    let middle = Address::new(EntityKind::Object, "a", "0000150").unwrap();
    let candidates = |list| {
        let sweep = Sweep { list, until: START, dead_until: START };
        store.read(Query::candidates(sweep, 50))
    };
    let mut costs = Vec::new();
    macro_rules! cost {
        ($($question:literal: $ask:expr),* $(,)?) => {
            $(
                let before = store.activity().steps;
                $ask.await.unwrap();
                costs.push(($question, store.activity().steps - before));
            )*
        };
    }
    cost!(
        "totals": store.totals(),
        "the depth of a queue": store.queue_depth(queue.id(), START),
        "the next due time": store.next_due(queue.id(), START),
        "messages": store.queue_messages(queue.id(), DueCursor::START, Timestamp::MAX, 50),
        "leased messages": store.leased(queue.id(), Timestamp::MAX, 50),
        "the first streams": store.streams(None, None, 50),
        "streams behind an object": store.streams(None, Some(&middle), 50),
        "streams of a class": store.streams(Some((EntityKind::Stream, "a")), None, 50),
        "objects": store.objects("a", "", None, 50),
        "objects behind a name": store.objects("a", "", Some("0000150"), 50),
        "classes": store.classes(EntityKind::Object, None, 50),
        "how many objects": store.count_objects("a", 100),
        "runs": store.runs(RunFilter::of("a"), None, 50),
        "how many runs": store.count_runs("a", Some(RunStatus::Waiting), 100),
        "pending messages": store.pending(None, 0, 50),
        "dead messages": store.dead(0, 50),
        "due work": store.due(DueCursor::START, 50),
        "all messages": store.read_all(0, 50),
        "messages before the sweep": candidates(SweepList::Messages),
        "the lists of the sweep": candidates(SweepList::Listed(ExpiryList::Ended)),
        "old turns": store.old_turns(0, 50),
        "objects with a long history": store.heads(1 << 30, 0, 50),
        "old runs": store.expired_runs(START, 50),
        "a message to a queue": lab.store.commit(Commit::of(Write::Append {
            stream: queue.clone(),
            messages: vec![Message::new("x", Json::empty()).unwrap().to(&queue)],
        })),
    );
    costs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_question_costs_more_in_a_store_forty_times_as_large() {
    let lab = Lab::sqlite().await;
    fill(&lab, 0..SMALL).await;
    let small = costs(&lab).await;
    fill(&lab, SMALL..40 * SMALL).await;
    for ((question, small), (_, large)) in small.into_iter().zip(costs(&lab).await) {
        assert!(large <= small + small / 10, "{question}: {small} steps, then {large}");
        assert!(small < 60_000, "{question}: {small} steps");
    }
    let pending = lab.store.totals().await.unwrap().pending;
    assert_eq!(pending, 40 * (SMALL * QUEUED) as i64 + 2);
    lab.assert_sound().await;
}
