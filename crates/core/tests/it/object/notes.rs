//! Keys and values, alarms at a time, and attempts that are undone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};
use steadfast_core::{Error, Handle, Object, Result, Turn, store::Timestamp};

use super::{Program, at};
use crate::lab::Lab;

/// An object without tables of its own.
struct Notes;

#[derive(Serialize, Deserialize)]
enum Note {
    Put { key: String, value: Vec<u32> },
    Delete { key: String },
    List { prefix: String, after: Option<String>, limit: usize },
    PutAndFail { key: String },
    PanicInAttempt,
    RingAt { at: i64 },
}
#[derive(Serialize, Deserialize)]
struct Get {
    key: String,
}

impl Object for Notes {
    const CLASS: &'static str = "notes";
    type Calls = (Note, Get);
}

impl Handle<Get> for Notes {
    const NAME: &'static str = "get";
    type Reply = Option<Vec<u32>>;
    fn handle(&self, turn: &Turn<Self>, msg: Get) -> Result<Option<Vec<u32>>> {
        turn.kv().get(&msg.key)
    }
}

impl Handle<Note> for Notes {
    const NAME: &'static str = "note";
    type Reply = Vec<String>;
    fn handle(&self, turn: &Turn<Self>, msg: Note) -> Result<Vec<String>> {
        let kv = turn.kv();
        match msg {
            Note::Put { key, value } => kv.put(&key, &value)?,
            Note::Delete { key } => return Ok(vec![kv.delete(&key)?.to_string()]),
            Note::List { prefix, after, limit } => {
                return kv.keys(&prefix, after.as_deref(), limit);
            }
            Note::PutAndFail { key } => {
                kv.put(&key, &vec![9_u32])?;
                return Err(Error::retryable("no"));
            }
            Note::PanicInAttempt => {
                let put = || {
                    turn.attempt(|| -> Result<()> {
                        kv.put("half", &vec![1_u32])?;
                        panic!("as the test wanted")
                    })
                };
                assert!(catch_unwind(AssertUnwindSafe(put)).is_err());
                kv.put("whole", &vec![2_u32])?;
            }
            Note::RingAt { at } => {
                let msg = Note::Put { key: "rang".into(), value: vec![1] };
                turn.set_alarm_at("once", Timestamp(at), msg);
            }
        }
        Ok(Vec::new())
    }
}

laws!(
    keys_and_values_commit_with_their_turn_and_survive_a_restart,
    an_attempt_is_undone_when_it_panics,
    an_alarm_at_a_time_rings_then,
);
laws!(also on postgres: keys_and_values_commit_with_their_turn_and_survive_a_restart);

async fn program(lab: &Lab) -> Program {
    Program::of(lab.store.clone(), &lab.clock, |it| it.class(Notes)).await
}

async fn get(app: &Program, key: &str) -> Option<Vec<u32>> {
    app.call(Notes::at("a"), Get { key: key.into() }).await.unwrap()
}

async fn note(app: &Program, note: Note) -> Vec<String> {
    app.call(Notes::at("a"), note).await.unwrap()
}

async fn keys_and_values_commit_with_their_turn_and_survive_a_restart(mut lab: Lab) {
    let app = program(&lab).await;
    assert_eq!(get(&app, "x").await, None);
    assert_eq!(note(&app, Note::Delete { key: "x".into() }).await, ["false"]);
    assert!(lab.store.heads(-1, 0, 1).await.unwrap().is_empty(), "looking made an object");
    for (number, key) in ["b/1", "a", "b/2", "b/3", "ü"].into_iter().enumerate() {
        note(&app, Note::Put { key: key.into(), value: vec![number as u32] }).await;
    }
    note(&app, Note::Put { key: "a".into(), value: vec![7, 8] }).await;
    let failed = app.call(Notes::at("a"), Note::PutAndFail { key: "a".into() }).await;
    assert!(failed.is_err());
    assert_eq!(note(&app, Note::Delete { key: "b/2".into() }).await, ["true"]);
    app.stop().await;
    lab.reopen().await;
    let app = program(&lab).await;
    assert_eq!(get(&app, "a").await, Some(vec![7, 8]));
    assert_eq!(get(&app, "b/2").await, None);
    let list = |prefix: &str, after: Option<&str>, limit| Note::List {
        prefix: prefix.into(),
        after: after.map(Into::into),
        limit,
    };
    assert_eq!(note(&app, list("", None, 9)).await, ["a", "b/1", "b/3", "ü"]);
    assert_eq!(note(&app, list("b/", None, 9)).await, ["b/1", "b/3"]);
    assert_eq!(note(&app, list("b/", Some("b/1"), 9)).await, ["b/3"]);
    assert_eq!(note(&app, list("", None, 2)).await, ["a", "b/1"]);
}

async fn an_attempt_is_undone_when_it_panics(lab: Lab) {
    let app = program(&lab).await;
    note(&app, Note::PanicInAttempt).await;
    assert_eq!((get(&app, "half").await, get(&app, "whole").await), (None, Some(vec![2])));
}

async fn an_alarm_at_a_time_rings_then(lab: Lab) {
    let app = program(&lab).await;
    note(&app, Note::RingAt { at: at(5_000) }).await;
    app.advance(std::time::Duration::from_millis(4_999)).await;
    assert_eq!(get(&app, "rang").await, None);
    app.advance(std::time::Duration::from_millis(1)).await;
    assert_eq!(get(&app, "rang").await, Some(vec![1]));
    app.assert_sound().await;
}
