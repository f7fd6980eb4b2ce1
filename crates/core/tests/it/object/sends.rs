//! Messages of a turn: they are sent with the turn's commit, and arrive exactly once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    Error, Handle, Object, Result, Turn, rusqlite,
    store::{Commit, EntityKind, Recorded, SettledAs, State, Write},
};

use super::{Program, at, ledger};
use crate::{
    lab::{Lab, address_of},
    ledger::{AddBoth, Announce, Gate, Ledger, Read},
};

laws!(
    messages_between_objects_arrive_exactly_once,
    a_receiver_that_fails_at_first_is_tried_again_until_it_has_it_once,
    a_message_that_no_attempt_delivers_is_dead_with_its_error_and_can_be_revived,
    a_message_refused_for_good_is_dead_immediately,
    a_delayed_message_arrives_at_its_time,
    sent_messages_survive_a_restart,
    a_message_to_a_queue_or_a_workflow_is_recorded_and_pending,
    a_message_that_cannot_be_sent_fails_the_turn,
    a_message_whose_turn_takes_long_has_no_failed_attempt,
);
laws!(also on postgres:
    messages_between_objects_arrive_exactly_once,
    sent_messages_survive_a_restart,
);

/// Handles messages, after this many failures.
#[derive(Clone, Default)]
struct Moody {
    failures: Arc<AtomicU32>,
    panics: bool,
    terminal: bool,
    gate: Gate,
}
#[derive(Serialize, Deserialize)]
struct Poke {
    number: i64,
}
#[derive(Serialize, Deserialize)]
struct Pokes;
/// Sends a message on.
#[derive(Serialize, Deserialize)]
struct Pass {
    to: String,
    number: i64,
    after: Duration,
}

impl Object for Moody {
    const CLASS: &'static str = "moody";
    type Calls = (Poke, Pokes, Pass);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE poke (number INTEGER, at INTEGER)"];
}

impl Handle<Poke> for Moody {
    const NAME: &'static str = "poke";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Poke) -> Result<()> {
        self.gate.pass();
        let insert = "INSERT INTO poke VALUES (?1, ?2)";
        turn.sql().execute(insert, (msg.number, turn.now().0))?;
        let less = |it: u32| it.checked_sub(1);
        if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            assert!(!self.panics, "in a bad mood");
            let error = Error::retryable("in a bad mood");
            return Err(if self.terminal { Error::terminal(error) } else { error });
        }
        Ok(())
    }
}

impl Handle<Pokes> for Moody {
    const NAME: &'static str = "pokes";
    type Reply = Vec<(i64, i64)>;
    fn handle(&self, turn: &Turn<Self>, _: Pokes) -> Result<Vec<(i64, i64)>> {
        let mut list = turn.sql().prepare("SELECT number, at FROM poke ORDER BY rowid")?;
        let rows = list.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

impl Handle<Pass> for Moody {
    const NAME: &'static str = "pass";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Pass) -> Result<()> {
        turn.send_after(msg.after, Moody::at(msg.to), Poke { number: msg.number });
        Ok(())
    }
}

async fn start(lab: &Lab, moody: &Moody) -> Program {
    let moody = moody.clone();
    Program::of(lab.store.clone(), &lab.clock, |it| it.class(moody)).await
}

async fn pass(app: &Program, number: i64, after: Duration) {
    app.call(Moody::at("a"), Pass { to: "b".into(), number, after }).await.unwrap();
}

async fn pokes(app: &Program) -> Vec<(i64, i64)> {
    app.call(Moody::at("b"), Pokes).await.unwrap()
}

async fn messages_between_objects_arrive_exactly_once(lab: Lab) {
    let app = Arc::new(Program::on(&lab).await);
    let callers: Vec<_> = (0..8)
        .map(|caller| {
            let app = app.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    let (from, other) = if caller % 2 == 0 { ("a", "b") } else { ("b", "a") };
                    let msg = AddBoth { other: other.into(), by: 1 };
                    app.call(Ledger::at(from), msg).await.unwrap();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    app.assert_sound().await;
    for name in ["a", "b"] {
        assert_eq!(app.call(Ledger::at(name), Read).await.unwrap(), (80, 80));
    }
    let totals = lab.store.totals().await.unwrap();
    assert_eq!((totals.pending, totals.dead), (0, 0));
}

async fn a_receiver_that_fails_at_first_is_tried_again_until_it_has_it_once(lab: Lab) {
    for panics in [false, true] {
        let moody = Moody { failures: Arc::new(AtomicU32::new(3)), panics, ..Moody::default() };
        let app = start(&lab, &moody).await;
        let before = pokes(&app).await.len();
        pass(&app, 7, Duration::ZERO).await;
        app.dispatcher.settled().await;
        assert_eq!(pokes(&app).await.len(), before);
        app.assert_sound().await;
        app.advance(Duration::from_mins(1)).await;
        assert_eq!(moody.failures.load(Ordering::SeqCst), 0);
        assert_eq!(pokes(&app).await.len(), before + 1);
        app.stop().await;
    }
    assert_eq!(lab.store.totals().await.unwrap().dead, 0);
}

async fn a_message_that_no_attempt_delivers_is_dead_with_its_error_and_can_be_revived(lab: Lab) {
    let moody = Moody { failures: Arc::new(AtomicU32::new(1_000)), ..Moody::default() };
    let app = start(&lab, &moody).await;
    pass(&app, 7, Duration::ZERO).await;
    app.advance(Duration::from_hours(1)).await;
    assert_eq!(moody.failures.load(Ordering::SeqCst), 990);
    let dead = lab.store.dead(0, 10).await.unwrap().remove(0);
    assert!(matches!(&dead.state, Some(State::Settled(it))
        if it.as_ == SettledAs::Dead && it.error.as_ref().unwrap().contains("in a bad mood")));
    assert_eq!(pokes(&app).await, []);
    moody.failures.store(0, Ordering::SeqCst);
    lab.committed(Commit::of(Write::Revive { position: dead.position })).await;
    app.assert_sound().await;
    assert_eq!(pokes(&app).await.len(), 1);
    assert_eq!(lab.store.totals().await.unwrap().dead, 0);
}

async fn a_message_refused_for_good_is_dead_immediately(lab: Lab) {
    let failures = Arc::new(AtomicU32::new(1));
    let app = start(&lab, &Moody { failures, terminal: true, ..Moody::default() }).await;
    pass(&app, 7, Duration::ZERO).await;
    app.advance(Duration::from_hours(1)).await;
    assert_eq!(lab.store.totals().await.unwrap().dead, 1);
    assert_eq!(pokes(&app).await, []);
}

async fn a_delayed_message_arrives_at_its_time(lab: Lab) {
    let app = start(&lab, &Moody::default()).await;
    pass(&app, 3, Duration::from_secs(30)).await;
    pass(&app, 1, Duration::from_secs(10)).await;
    pass(&app, 2, Duration::from_secs(20)).await;
    app.assert_sound().await;
    app.advance(Duration::from_millis(9_999)).await;
    assert_eq!(pokes(&app).await, []);
    app.advance(Duration::from_mins(1)).await;
    assert_eq!(pokes(&app).await, [(1, at(10_000)), (2, at(20_000)), (3, at(30_000))]);
}

async fn sent_messages_survive_a_restart(mut lab: Lab) {
    let app = start(&lab, &Moody::default()).await;
    for number in 0..20 {
        pass(&app, number, Duration::from_secs(10)).await;
    }
    app.stop().await;
    lab.reopen().await;
    let app = start(&lab, &Moody::default()).await;
    app.advance(Duration::from_secs(10)).await;
    let mut numbers: Vec<i64> = pokes(&app).await.into_iter().map(|it| it.0).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>());
    app.assert_sound().await;
}

async fn a_message_to_a_queue_or_a_workflow_is_recorded_and_pending(mut lab: Lab) {
    let app = Program::on(&lab).await;
    app.call(Ledger::at("a"), Announce).await.unwrap();
    app.advance(Duration::from_hours(2)).await;
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    app.advance(Duration::from_hours(2)).await;
    let sent = lab.store.read_stream(ledger("a").id(), 1, 10).await.unwrap();
    let row = |it: &Recorded| {
        (it.action.clone(), it.message_type.clone(), it.data.as_str().to_owned(), it.target)
    };
    let queue = address_of(EntityKind::Queue, "audit", "0").id();
    let run = address_of(EntityKind::Run, "order", "o-1").id();
    // Messages of the failed attempt are not among them.
    let wanted = [
        ("enqueue".to_owned(), "audit".to_owned(), r#"{"by":3}"#.to_owned(), Some(queue)),
        ("start".to_owned(), "order".to_owned(), r#""a book""#.to_owned(), Some(run)),
    ];
    assert_eq!(sent.iter().map(row).collect::<Vec<_>>(), wanted);
    for message in &sent {
        let waits = matches!(message.state, Some(State::Pending { attempts: 0, .. }));
        assert!(waits, "{message:?}");
    }
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (0, 0));
    app.assert_sound().await;
}

async fn a_message_that_cannot_be_sent_fails_the_turn(lab: Lab) {
    let app = Program::on(&lab).await;
    for other in [String::new(), "x".repeat(513), "a\0b".into()] {
        let error = app.call(Ledger::at("a"), AddBoth { other, by: 1 }).await.unwrap_err();
        assert_eq!((error.code(), error.surely_unapplied()), ("invalid_input", true));
    }
    assert_eq!(app.call(Ledger::at("a"), Read).await.unwrap(), (0, 0));
    assert!(lab.store.head(ledger("a").id()).await.unwrap().is_none());
}

async fn a_message_whose_turn_takes_long_has_no_failed_attempt(lab: Lab) {
    let moody = Moody::default();
    let app = start(&lab, &moody).await;
    moody.gate.close();
    pass(&app, 7, Duration::ZERO).await;
    moody.gate.reached().await;
    let sent = lab.store.pending(None, 0, 1).await.unwrap().remove(0).position;
    lab.clock.advance(Duration::from_hours(1));
    moody.gate.open();
    app.advance(Duration::from_mins(1)).await;
    assert_eq!(pokes(&app).await.len(), 1);
    assert_eq!(lab.store.attempts(sent).await.unwrap(), []);
    let totals = lab.store.totals().await.unwrap();
    assert_eq!((totals.pending, totals.dead), (0, 0));
    pass(&app, 8, Duration::ZERO).await;
    app.assert_sound().await;
    assert_eq!(pokes(&app).await.len(), 2);
}
