//! Alarms: many for each object, each at its time.

use std::time::Duration;

use steadfast_core::Object;

use super::{Program, at, ledger};
use crate::{
    lab::Lab,
    ledger::{Add, Clockwork, Ledger, Rung},
};

laws!(
    many_alarms_of_an_object_ring_at_their_times_and_in_order,
    an_alarm_that_is_set_again_is_moved,
    an_alarm_before_the_pending_wake_up_rings_at_its_own_time,
    a_cancelled_alarm_never_rings_and_its_wake_up_does_no_harm,
    alarms_survive_a_restart_and_missed_ones_ring_after_it,
    a_repeated_alarm_rings_until_it_is_cancelled,
    a_repeated_alarm_that_missed_times_catches_up_by_its_policy,
    alarms_of_a_thousand_objects_all_ring,
);
laws!(also on postgres: alarms_survive_a_restart_and_missed_ones_ring_after_it);

pub(super) type Listed = Vec<(String, i64, u32, bool)>;

pub(super) async fn clockwork(app: &Program, msg: Clockwork) -> Listed {
    app.call(Ledger::at("a"), msg).await.unwrap()
}

pub(super) async fn set(app: &Program, name: &str, millis: u64) -> Listed {
    let after = Duration::from_millis(millis);
    clockwork(app, Clockwork::Set { name: name.into(), after }).await
}

async fn repeat(app: &Program, name: &str, catch_up: &str) {
    let (name, catch_up) = (name.into(), catch_up.into());
    clockwork(app, Clockwork::Repeat { name, every: seconds(10), catch_up }).await;
}

pub(super) async fn rung(app: &Program) -> Vec<(String, i64)> {
    app.call(Ledger::at("a"), Rung).await.unwrap()
}

fn seconds(many: u64) -> Duration {
    Duration::from_secs(many)
}

fn named(list: &[(&str, i64)]) -> Vec<(String, i64)> {
    list.iter().map(|(name, millis)| ((*name).into(), at(*millis))).collect()
}

async fn many_alarms_of_an_object_ring_at_their_times_and_in_order(lab: Lab) {
    let app = Program::on(&lab).await;
    for (name, millis) in [("d", 4_000), ("b", 2_000), ("c", 2_000), ("a", 9_000)] {
        set(&app, name, millis).await;
    }
    let listed = clockwork(&app, Clockwork::List).await;
    let alarm = |name: &str, millis| (name.to_owned(), at(millis), 0, false);
    assert_eq!(
        listed,
        [alarm("b", 2_000), alarm("c", 2_000), alarm("d", 4_000), alarm("a", 9_000)]
    );
    app.advance(Duration::from_millis(1_999)).await;
    assert_eq!(rung(&app).await, []);
    app.advance(seconds(60)).await;
    assert_eq!(rung(&app).await, named(&[("b", 2_000), ("c", 2_000), ("d", 4_000), ("a", 9_000)]));
    assert_eq!(clockwork(&app, Clockwork::List).await, []);
    assert_eq!(lab.store.totals().await.unwrap().pending, 0);
    app.assert_sound().await;
}

async fn an_alarm_that_is_set_again_is_moved(lab: Lab) {
    let app = Program::on(&lab).await;
    set(&app, "later", 1_000).await;
    set(&app, "sooner", 9_000).await;
    assert_eq!(set(&app, "later", 5_000).await.len(), 2);
    assert_eq!(set(&app, "sooner", 3_000).await.len(), 2);
    app.advance(seconds(60)).await;
    assert_eq!(rung(&app).await, named(&[("sooner", 3_000), ("later", 5_000)]));
    app.assert_sound().await;
}

async fn an_alarm_before_the_pending_wake_up_rings_at_its_own_time(lab: Lab) {
    let app = Program::on(&lab).await;
    set(&app, "late", 60_000).await;
    app.advance(seconds(10)).await;
    set(&app, "early", 5_000).await;
    app.assert_sound().await;
    app.advance(seconds(5)).await;
    assert_eq!(rung(&app).await, named(&[("early", 15_000)]));
    app.advance(seconds(60)).await;
    assert_eq!(rung(&app).await, named(&[("early", 15_000), ("late", 60_000)]));
    assert_eq!(lab.store.totals().await.unwrap().pending, 0);
}

async fn a_cancelled_alarm_never_rings_and_its_wake_up_does_no_harm(lab: Lab) {
    let app = Program::on(&lab).await;
    set(&app, "cancelled", 5_000).await;
    set(&app, "kept", 9_000).await;
    let cancel = || Clockwork::Cancel { name: "cancelled".into() };
    assert_eq!(clockwork(&app, cancel()).await.len(), 1);
    assert_eq!(clockwork(&app, cancel()).await.len(), 1);
    app.assert_sound().await;
    app.advance(seconds(60)).await;
    assert_eq!(rung(&app).await, named(&[("kept", 9_000)]));
    let totals = lab.store.totals().await.unwrap();
    assert_eq!((totals.pending, totals.dead), (0, 0));
    app.assert_sound().await;
}

async fn alarms_survive_a_restart_and_missed_ones_ring_after_it(mut lab: Lab) {
    let app = Program::on(&lab).await;
    for (name, millis) in [("one", 1_000), ("three", 3_000), ("two", 2_000), ("far", 90_000)] {
        set(&app, name, millis).await;
    }
    app.advance(seconds(1)).await;
    app.stop().await;
    lab.clock.advance(seconds(9));
    lab.reopen().await;
    let app = Program::on(&lab).await;
    app.dispatcher.settled().await;
    let missed = [("one", 1_000), ("two", 10_000), ("three", 10_000)];
    assert_eq!(rung(&app).await, named(&missed));
    app.assert_sound().await;
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    app.advance(seconds(100)).await;
    assert_eq!(rung(&app).await[3..], named(&[("far", 90_000)]));
    app.assert_sound().await;
}

async fn a_repeated_alarm_rings_until_it_is_cancelled(lab: Lab) {
    let app = Program::on(&lab).await;
    repeat(&app, "r", "once").await;
    app.advance(seconds(35)).await;
    assert_eq!(rung(&app).await, named(&[("r", 10_000), ("r", 20_000), ("r", 30_000)]));
    app.assert_sound().await;
    assert_eq!(clockwork(&app, Clockwork::Cancel { name: "r".into() }).await, []);
    app.advance(seconds(60)).await;
    assert_eq!(rung(&app).await.len(), 3);
}

async fn a_repeated_alarm_that_missed_times_catches_up_by_its_policy(mut lab: Lab) {
    let app = Program::on(&lab).await;
    for catch_up in ["once", "each", "skip"] {
        repeat(&app, catch_up, catch_up).await;
    }
    app.advance(seconds(25)).await;
    app.stop().await;
    // The times at 30, 40, 50, 60, 70, 80 and 90 seconds pass while the program is down.
    lab.clock.advance(seconds(70));
    lab.reopen().await;
    let app = Program::on(&lab).await;
    app.dispatcher.settled().await;
    let all = rung(&app).await;
    let times = |name: &str| -> Vec<i64> {
        all.iter().filter(|it| it.0 == name).map(|it| (it.1 - at(0)) / 1_000).collect()
    };
    assert_eq!(times("once"), [10, 20, 95]);
    assert_eq!(times("each"), [10, 20, 95, 95, 95, 95, 95, 95, 95]);
    assert_eq!(times("skip"), [10, 20]);
    for alarm in clockwork(&app, Clockwork::List).await {
        assert_eq!(alarm.1, at(100_000), "{}", alarm.0);
    }
    app.advance(seconds(10)).await;
    assert_eq!(rung(&app).await.len(), all.len() + 3);
    app.assert_sound().await;
}

async fn alarms_of_a_thousand_objects_all_ring(lab: Lab) {
    let app = Program::on(&lab).await;
    let many = if matches!(lab.place, crate::lab::Place::Memory) { 1_000 } else { 200 };
    for number in 0..many {
        let name = Ledger::at(number.to_string());
        let after = Duration::from_millis(1_000 + number * 7 % 100);
        app.call(name, Clockwork::Set { name: "x".into(), after }).await.unwrap();
    }
    app.advance(seconds(2)).await;
    for number in 0..many {
        let name = Ledger::at(number.to_string());
        let due = at(1_000 + i64::try_from(number).unwrap() * 7 % 100);
        assert_eq!(app.call(name, Rung).await.unwrap(), [("x".into(), due)]);
    }
    app.assert_sound().await;
    assert!(lab.store.head(ledger("0").id()).await.unwrap().is_some());
    assert_eq!(app.call(Ledger::at("0"), Add { by: 1 }).await.unwrap(), 1);
}
