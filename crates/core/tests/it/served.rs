//! Served classes, the owner of a store, and the caller of a turn.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use steadfast_core::{
    App, Ctx, Error, Handle, Object, Queue, Result, StartError, Turn, Workflow,
    object::Caller,
    store::{
        Address, Commit, EntityKind, Health, SqliteOptions, SqliteStore, Store, StoreError,
        SystemClock,
    },
};

use crate::lab::{self, Lab, Place};

laws!(
    stored_work_without_a_declaration_is_reported_and_kept,
    a_store_of_another_program_is_refused_by_every_door,
    a_turn_has_the_caller_from_outside_or_inside,
    a_client_calls_for_its_caller,
    views_are_json,
    a_check_before_work_stops_the_work_and_not_the_questions,
);
laws!(also on postgres: a_store_of_another_program_is_refused_by_every_door);

const LETTERS: Queue<u32> = Queue::named("letters");

struct Porter;

#[derive(Serialize, Deserialize)]
struct Ask;

#[derive(Serialize, Deserialize)]
struct AskLater;

impl Object for Porter {
    const CLASS: &'static str = "porter";
    type Calls = (Ask, AskLater);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE asked (caller TEXT NOT NULL)"];
}

impl Handle<Ask> for Porter {
    const NAME: &'static str = "ask";
    type Reply = (bool, Vec<String>);
    fn handle(&self, turn: &Turn<Self>, _: Ask) -> Result<Self::Reply> {
        let caller = format!("{:?}", turn.caller());
        turn.sql().execute("INSERT INTO asked VALUES (?1)", [caller])?;
        let mut all = turn.sql().prepare("SELECT caller FROM asked ORDER BY rowid")?;
        let all = all.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok((turn.caller() == Caller::Internal, all))
    }
}

impl Handle<AskLater> for Porter {
    const NAME: &'static str = "ask-later";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: AskLater) -> Result<()> {
        turn.send(turn.address(), Ask);
        Ok(())
    }
}

struct Rounds;

impl Workflow for Rounds {
    const NAME: &'static str = "rounds";
    type Input = ();
    type Output = ();
    async fn run(&self, ctx: &Ctx, (): ()) -> Result<()> {
        ctx.call(Porter::at("p"), Ask).await?;
        ctx.sleep("a day", std::time::Duration::from_hours(24)).await
    }
}

fn app() -> App {
    App::new("hotel").object(Porter).workflow(Rounds).queue(LETTERS)
}

async fn stored_work_without_a_declaration_is_reported_and_kept(lab: Lab) {
    let program = app().start(lab.store.clone()).await.unwrap();
    for number in 0..3 {
        program.send(LETTERS, number).await.unwrap();
    }
    let run = program.start(Rounds::at("one"), ()).await.unwrap();
    drop(run);
    crate::play::until("it sleeps", async || {
        let asked = program.call(Porter::at("p"), Ask).await.unwrap().1;
        asked.first().is_some_and(|it| it == "Internal") && 1 < asked.len()
    })
    .await;
    assert_eq!(program.unserved().await.unwrap(), []);
    program.stop().await;
    let other = App::new("hotel").start(lab.store.clone()).await.unwrap();
    let named: Vec<String> =
        other.unserved().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(named, ["3 messages for queue `letters`", "1 message for workflow `rounds`"]);
    other.stop().await;
    let pending = lab.store.pending(None, 0, 10).await.unwrap();
    assert_eq!(pending.len(), 4, "they are kept");
}

async fn a_store_of_another_program_is_refused_by_every_door(lab: Lab) {
    app().start(lab.store.clone()).await.unwrap().stop().await;
    let commits = lab.store.activity().commits;
    for refused in [
        App::new("motel").start(lab.store.clone()).await.err(),
        App::new("motel").prepare(lab.store.clone()).await.err(),
    ] {
        let Some(StartError::Foreign { owner, program }) = &refused else { panic!("{refused:?}") };
        assert_eq!((&**owner, &**program), ("hotel", "motel"));
    }
    assert_eq!(lab.store.activity().commits, commits);
    App::new("motel").adopt().start(lab.store.clone()).await.unwrap().stop().await;
    assert!(app().start(lab.store.clone()).await.is_err(), "it belongs to motel now");
}

async fn a_turn_has_the_caller_from_outside_or_inside(lab: Lab) {
    let program = app().start(lab.store.clone()).await.unwrap();
    assert!(program.call(Porter::at("a"), Ask).await.unwrap().0, "a call of the program");
    let outside = program.objects().call_json("porter", "a", "ask", "null", None).await.unwrap();
    assert!(outside.starts_with("[false"), "{outside}");
    program.objects().call_json("porter", "a", "ask-later", "null", None).await.unwrap();
    crate::play::until("the message arrives", async || {
        let asked = program.call(Porter::at("a"), Ask).await.unwrap().1;
        asked.starts_with(&["Internal".to_owned(), "Anonymous".to_owned()]) && 3 < asked.len()
    })
    .await;
    program.stop().await;
}

async fn a_client_calls_for_its_caller(lab: Lab) {
    let program = app().start(lab.store.clone()).await.unwrap();
    let outside = program.by(Caller::Anonymous);
    assert!(!outside.call(Porter::at("a"), Ask).await.unwrap().0);
    assert!(outside.by(Caller::Internal).call(Porter::at("a"), Ask).await.unwrap().0);
    assert!(program.call(Porter::at("a"), Ask).await.unwrap().0, "it still acts as itself");
    program.stop().await;
}

async fn views_are_json(lab: Lab) {
    let program = app().start(lab.store.clone()).await.unwrap();
    program.call(Porter::at("a"), Ask).await.unwrap();
    let classes = program.objects().look_at_classes(None, 10).await.unwrap().classes;
    let class = json!({ "name": "porter", "served": true, "objects": 1, "more": false });
    assert_eq!(serde_json::to_value(&classes[0]).unwrap(), class);
    let object = program.objects().look_at(None, "porter", "a").await.unwrap();
    let object = serde_json::to_value(&object).unwrap();
    assert_eq!((&object["address"], &object["turns"]), (&json!("object/porter/a"), &json!(1)));
    assert_eq!(object["tables"][0]["columns"], json!(["caller"]));
    let queue = program.queues().show("letters").await.unwrap();
    let queue = serde_json::to_value(&queue).unwrap();
    assert_eq!((&queue["name"], &queue["inFlight"]), (&json!("letters"), &json!(0)));
    assert!(queue["history"][0]["at"].as_str().unwrap().ends_with('Z'), "{queue}");
    program.stop().await;
}

async fn a_check_before_work_stops_the_work_and_not_the_questions(lab: Lab) {
    let failing = || app().before_work(|| Err(Error::terminal("the key is missing")));
    let refused = failing().start(lab.store.clone()).await.err();
    let Some(StartError::Program { problems }) = &refused else { panic!("{refused:?}") };
    assert_eq!(problems, &["the key is missing"]);
    let program = failing().prepare(lab.store.clone()).await.unwrap();
    assert!(program.call(Porter::at("a"), Ask).await.unwrap().0);
    for _ in 0..2 {
        assert!(program.work().await.is_err() && !program.works());
    }
    program.stop().await;
}

/// A folder and a database without a store in use, as arguments of `App::open`.
async fn places() -> [(Lab, String); 2] {
    let closed = async |lab: Lab| {
        lab.store.close().await;
        let at = match &lab.place {
            Place::Folder(folder) => folder.path().to_str().unwrap().to_owned(),
            Place::Database(url) => url.clone(),
            Place::Memory => panic!("it is not kept"),
        };
        (lab, at)
    };
    [closed(Lab::sqlite().await).await, closed(Lab::postgres().await).await]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_program_is_refused_before_it_becomes_the_owner_of_the_store() {
    for (lab, at) in places().await {
        let program = app().open(&at).await.unwrap();
        let epoch = program.store().owner().epoch;
        let refused = App::new("motel").open(&at).await.err();
        assert!(matches!(refused, Some(StartError::Foreign { .. })), "in use: {refused:?}");
        program.call(Porter::at("a"), Ask).await.unwrap();
        program.stop().await;
        let refused = App::new("motel").open(&at).await.err();
        assert!(matches!(refused, Some(StartError::Foreign { .. })), "not in use: {refused:?}");
        let store = lab::open(&lab.place, &lab.clock).await.unwrap();
        assert_eq!(store.owner().epoch, epoch + 1, "there was no other owner in between");
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_that_fails_closes_the_store_so_that_the_next_one_need_not_wait() {
    for (_lab, at) in places().await {
        let failing = || app().before_work(|| Err(Error::terminal("the key is missing")));
        let refused = failing().open(&at).await.err();
        assert!(matches!(refused, Some(StartError::Program { .. })), "{refused:?}");
        // A store that is still open is refused.
        let program = app().open(&at).await.unwrap();
        assert_eq!(program.store().owner().unclean_until, None, "the end was clean");
        program.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_looked_at_refuses_commits_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let program = app().open(at).await.unwrap();
    program.call(Porter::at("a"), Ask).await.unwrap();
    program.stop().await;
    let options = |read_only| SqliteOptions {
        read_only,
        ..SqliteOptions::new(folder.path(), Arc::new(SystemClock))
    };
    let file = || std::fs::read(folder.path().join("steadfast.db")).unwrap();
    let before = file();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options(true)).unwrap());
    assert!(SqliteStore::open(options(false)).is_err(), "it has the lock");
    assert_eq!(store.health(), Health::Ready);
    let porter = Address::new(EntityKind::Object, "porter", "a").unwrap();
    assert!(store.head(porter.id()).await.unwrap().is_some());
    let refused = store.commit(Commit::default()).await.unwrap_err();
    assert!(matches!(refused, StoreError::ReadOnly), "{refused}");
    assert_eq!((refused.code(), refused.is_retryable()), ("read_only", false));
    store.close().await;
    assert!(file() == before, "not a byte has changed");
    let store = SqliteStore::open(options(false)).unwrap();
    assert_eq!(store.owner().unclean_until, None, "looking is no unclean end");
    store.close().await;
}
