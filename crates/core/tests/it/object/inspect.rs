//! Inspection of objects: lists and contents.

use std::time::Duration;

use steadfast_core::{
    Object,
    object::{ClassView, InspectError, ObjectView},
    store::{Commit, EntityKind, Timestamp, Turn, Write},
};

use super::{Program, at};
use crate::{
    lab::{Lab, address_of},
    ledger::{Add, Clockwork, Ledger, Misbehave, Read, Sql},
};

laws!(
    classes_are_those_served_and_those_stored,
    objects_are_listed_by_name_and_prefix,
    a_missing_class_and_a_missing_object_are_distinguished,
    an_object_shows_its_size_tables_turns_and_whether_it_is_awake,
    alarms_are_shown_including_failed_ones,
    the_last_failure_is_shown_until_the_object_is_gone,
    an_object_of_a_class_that_is_not_served_can_be_looked_at,
);
laws!(also on postgres: objects_are_listed_by_name_and_prefix);

pub(super) async fn add(app: &Program, name: &str, by: i64) {
    app.call(Ledger::at(name), Add { by }).await.unwrap();
}

pub(super) async fn run(app: &Program, name: &str, sql: &str) {
    let statements = vec![sql.to_owned()];
    app.call(Ledger::at(name), Sql { statements, strict: true }).await.unwrap();
}

async fn look(app: &Program, name: &str) -> ObjectView {
    app.objects.look_at(None, "ledger", name).await.unwrap()
}

/// An object of a class that no program here serves.
async fn leave_behind(lab: &Lab, class: &str, name: &str) {
    let object = address_of(EntityKind::Object, class, name);
    let (input, delta) = ("say".into(), b"".as_slice().into());
    let turn = Turn { object, cause: None, sent: 1, chk: 0, input, delta };
    lab.committed(Commit::of(Write::Turn(turn))).await;
}

async fn classes_are_those_served_and_those_stored(lab: Lab) {
    let app = Program::on(&lab).await;
    let class = |name: &str, served, objects| {
        let name = name.into();
        ClassView { name, served, objects, more: false }
    };
    let listed = async |after| app.objects.look_at_classes(after, 2).await.unwrap();
    assert_eq!(listed(None).await.classes, [class("ledger", true, 0)]);
    add(&app, "a", 1).await;
    add(&app, "b", 1).await;
    leave_behind(&lab, "parrot", "p").await;
    let expected = [class("ledger", true, 2), class("parrot", false, 1)];
    let all = listed(None).await;
    assert_eq!((&*all.classes, all.next), (&expected[..], None));
    leave_behind(&lab, "ledger-2", "p").await;
    let first = listed(None).await;
    let expected = [class("ledger-2", false, 1), class("ledger", true, 2)];
    assert_eq!((&*first.classes, first.next.as_deref()), (&expected[..], Some("ledger")));
    let rest = listed(first.next.as_deref()).await;
    assert_eq!((&*rest.classes, rest.next), (&[class("parrot", false, 1)][..], None));
}

async fn objects_are_listed_by_name_and_prefix(lab: Lab) {
    let app = Program::on(&lab).await;
    for name in ["b", "a/1", "a/2", "ü", "a/3"] {
        add(&app, name, 1).await;
    }
    // Reading creates none.
    app.call(Ledger::at("looked at"), Read).await.unwrap();
    let list = async |prefix: &str, after: Option<&str>, limit| -> Vec<String> {
        let found = app.objects.look_at_class("ledger", prefix, after, limit).await.unwrap();
        found.iter().map(|it| it.address.name().to_owned()).collect()
    };
    assert_eq!(list("", None, 9).await, ["a/1", "a/2", "a/3", "b", "ü"]);
    assert_eq!(list("a/", Some("a/1"), 1).await, ["a/2"]);
    assert_eq!(list("x", None, 9).await, [""; 0]);
}

async fn a_missing_class_and_a_missing_object_are_distinguished(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    let objects = &app.objects;
    let code = |error: InspectError| error.code().to_owned();
    let class = |name: &'static str| objects.look_at_class(name, "", None, 9);
    assert_eq!(code(class("nonsense").await.unwrap_err()), "class_not_found");
    assert_eq!(code(class("no/class").await.unwrap_err()), "invalid_name");
    assert_eq!(code(objects.look_at(None, "nonsense", "a").await.unwrap_err()), "class_not_found");
    assert_eq!(code(objects.look_at(None, "ledger", "b").await.unwrap_err()), "object_not_found");
    assert_eq!(code(objects.look_at(None, "ledger", "").await.unwrap_err()), "invalid_name");
    assert_eq!(
        code(objects.look_at_turn(None, "ledger", "a", 2).await.unwrap_err()),
        "turn_not_found"
    );
    assert_eq!(
        code(objects.look_at_turn(None, "ledger", "a", 0).await.unwrap_err()),
        "turn_not_found"
    );
    assert!(objects.look_at_turns("ledger", "b", None, 9).await.is_err());
    assert!(objects.look_back(None, "ledger", "b", None).await.is_err());
    assert!(objects.delete("ledger", "a").await.unwrap());
    assert_eq!(code(objects.look_at(None, "ledger", "a").await.unwrap_err()), "object_not_found");
}

async fn an_object_shows_its_size_tables_turns_and_whether_it_is_awake(mut lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    lab.clock.advance(Duration::from_secs(1));
    add(&app, "a", 2).await;
    run(&app, "a", "CREATE TABLE \"od\"\"d\" (x PRIMARY KEY) WITHOUT ROWID").await;
    let view = look(&app, "a").await;
    assert_eq!((view.entry.turns, view.oldest_turn), (3, 1));
    assert_eq!(
        (view.entry.created_at, view.entry.updated_at),
        (Timestamp(at(0)), Some(Timestamp(at(1_000))))
    );
    assert!(view.served && view.entry.awake && view.last_error.is_none());
    assert!(3 * 4_096 < view.bytes && view.bytes.is_multiple_of(4_096), "{}", view.bytes);
    let tables: Vec<(&str, Option<usize>, bool)> =
        view.tables.iter().map(|it| (&*it.name, it.rows, it.system)).collect();
    let expected = [("entry", Some(2), false), ("od\"d", Some(0), false), ("rung", Some(0), false)];
    assert_eq!(tables[..3], expected);
    assert_eq!((tables[3], tables.len()), (("total", Some(1), false), 4));
    assert_eq!(view.tables[0].columns, ["id", "amount"]);
    assert!(view.alarms.is_empty() && view.connections.is_empty() && view.damage.is_none());
    app.stop().await;
    lab.reopen().await;
    let app = Program::on(&lab).await;
    assert!(!look(&app, "a").await.entry.awake, "looking woke it up");
}

async fn alarms_are_shown_including_failed_ones(lab: Lab) {
    let app = Program::on(&lab).await;
    let set = |name: &str, seconds| {
        let (name, after) = (name.into(), Duration::from_secs(seconds));
        app.call(Ledger::at("a"), Clockwork::Set { name, after })
    };
    set("later", 60).await.unwrap();
    set("final", 1).await.unwrap();
    let every = Duration::from_secs(90);
    let repeat = Clockwork::Repeat { name: "often".into(), every, catch_up: "skip".into() };
    app.call(Ledger::at("a"), repeat).await.unwrap();
    app.advance(Duration::from_secs(1)).await;
    let alarms = look(&app, "a").await.alarms;
    let names: Vec<&str> = alarms.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["later", "often", "final"]);
    assert_eq!((alarms[0].due_at.0, &*alarms[0].message), (at(60_000), "ring"));
    assert_eq!((alarms[1].every, alarms[1].catch_up.tag()), (Some(every), "skip"));
    assert!(alarms[2].failed && alarms[2].attempts == 1);
    assert!(alarms[2].error.as_ref().is_some_and(|it| it.contains("not on a Sunday")));
}

async fn the_last_failure_is_shown_until_the_object_is_gone(lab: Lab) {
    let app = Program::on(&lab).await;
    add(&app, "a", 1).await;
    for (misbehave, code, word) in [
        (Misbehave::Panic, "handler_panicked", "as the test wanted"),
        (Misbehave::RefuseForGood, "ledger_closed", "the ledger is closed"),
    ] {
        lab.clock.advance(Duration::from_secs(1));
        app.call(Ledger::at("a"), misbehave).await.unwrap_err();
        let failure = look(&app, "a").await.last_error.unwrap();
        assert_eq!((&*failure.input, &*failure.code), ("misbehave", code));
        assert!(failure.message.contains(word), "{failure:?}");
    }
    add(&app, "a", 1).await;
    let failure = look(&app, "a").await.last_error.unwrap();
    assert_eq!((failure.at.0.0, &*failure.code), (at(2_000), "ledger_closed"));
    app.objects.delete("ledger", "a").await.unwrap();
    add(&app, "a", 1).await;
    assert_eq!(look(&app, "a").await.last_error, None);
}

async fn an_object_of_a_class_that_is_not_served_can_be_looked_at(lab: Lab) {
    let app = Program::on(&lab).await;
    leave_behind(&lab, "parrot", "p").await;
    // A checksum mismatch is damage, and is reported; everything else is returned all the same.
    let view = app.objects.look_at(None, "parrot", "p").await.unwrap();
    assert!(!view.served && !view.entry.awake);
    assert!(view.damage.is_some_and(|it| it.contains("wrong checksum")));
    let turns = app.objects.look_at_turns("parrot", "p", None, 9).await.unwrap();
    assert_eq!((turns.len(), &*turns[0].input, turns[0].sent), (1, "say", 1));
    add(&app, "a", 1).await;
    app.stop().await;
    let elsewhere = Program::of(lab.store.clone(), &lab.clock, |it| it).await;
    let view = elsewhere.objects.look_at(None, "ledger", "a").await.unwrap();
    assert!(!view.served && view.tables.len() == 3);
    assert!(elsewhere.objects.delete("ledger", "a").await.is_err());
}
