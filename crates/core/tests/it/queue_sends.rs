//! Senders to a queue, and effects of consumers on the rest of the program.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steadfast_core::{
    App, CallError, Consumer, Delivery, Error, Handle, Object, Result, Settled, Turn, Workflow,
    queue::{Outgoing, PeekState},
    rusqlite,
    store::{Json, State},
    test::assert_survives_crashes,
    workflow::Status,
};

use crate::{
    lab::{Lab, START},
    play::{Play, until},
    post::{DEAD, HOUR, MAIL, Mail, OTHER, Office, Post, SECOND, ids, mail},
};

laws!(
    messages_of_a_turn_are_sent_in_its_commit_or_not_at_all,
    a_delayed_message_of_a_turn_is_delivered_later,
    a_message_of_a_run_is_sent_once_over_its_replays,
    a_consumer_sends_on_and_starts_runs,
    a_message_that_an_object_settles_is_done_with_its_turn,
    a_message_that_an_object_refuses_is_not_done,
);
laws!(also on postgres:
    messages_of_a_turn_are_sent_in_its_commit_or_not_at_all,
    a_message_of_a_run_is_sent_once_over_its_replays,
);

/// Sends mail, and receives it.
struct Clerk;

#[derive(Serialize, Deserialize)]
struct Write {
    to: String,
    after: Duration,
    fail: bool,
}
#[derive(Serialize, Deserialize)]
struct Take {
    to: String,
}
#[derive(Serialize, Deserialize)]
struct Taken;

impl Object for Clerk {
    const CLASS: &'static str = "clerk";
    type Calls = (Write, Take, Taken);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE taken (name TEXT NOT NULL)"];
}

impl Handle<Write> for Clerk {
    const NAME: &'static str = "write";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Write) -> Result<()> {
        if msg.after.is_zero() {
            turn.send(MAIL, mail(&msg.to));
        } else {
            turn.send(MAIL.after(msg.after), mail(&msg.to));
        }
        if msg.fail { Err(Error::terminal("thought better of it")) } else { Ok(()) }
    }
}

impl Handle<Take> for Clerk {
    const NAME: &'static str = "take";
    type Reply = usize;
    fn handle(&self, turn: &Turn<Self>, msg: Take) -> Result<usize> {
        let taken = turn.sql().execute("INSERT INTO taken VALUES (?1)", [&msg.to])?;
        match msg.to.as_str() {
            "busy" => Err(Error::retryable("try again")),
            "closed" => Err(Error::terminal("closed for good")),
            "panics" => panic!("as the test wanted"),
            _ => Ok(taken),
        }
    }
}

impl Handle<Taken> for Clerk {
    const NAME: &'static str = "taken";
    type Reply = Vec<String>;
    fn handle(&self, turn: &Turn<Self>, _: Taken) -> Result<Vec<String>> {
        let mut list = turn.sql().prepare("SELECT name FROM taken ORDER BY rowid")?;
        let names = list.query_map((), |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }
}

/// Settles its messages with a turn of a clerk.
struct ToClerk(Post);

impl Consumer for ToClerk {
    type Message = Mail;

    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        let to = delivery.message.to.clone();
        self.0.note(&to, &delivery);
        delivery.settle_with(Clerk::at("c"), Take { to }).await
    }
}

/// Forwards each message, and starts a run for it.
struct Onward;

impl Consumer for Onward {
    type Message = Mail;

    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        let run = Play::at(format!("run-{}", delivery.id()));
        delivery.send(OTHER, delivery.message.clone()).await?;
        let started = delivery.start(run, json!(delivery.message.to)).await?;
        assert!(started.created);
        Ok(delivery.done())
    }
}

async fn messages_of_a_turn_are_sent_in_its_commit_or_not_at_all(lab: Lab) {
    let office = Office::open(lab, |it, post| it.object(Clerk).consume(MAIL, post)).await;
    let write = |to: &str, fail| Write { to: to.into(), after: Duration::ZERO, fail };
    office.app.call(Clerk::at("c"), write("good", false)).await.unwrap();
    let failed = office.app.call(Clerk::at("c"), write("bad", true)).await;
    assert!(matches!(failed, Err(CallError::Refused(_))), "{failed:?}");
    office.app.call(Clerk::at("c"), write("good too", false)).await.unwrap();
    until("both came", async || office.post.got().len() == 2).await;
    office.quiet().await;
    let mut names = office.post.names();
    names.sort();
    assert_eq!(names, ["good", "good too"]);
    assert_eq!(office.lab.store.totals().await.unwrap().pending, 0);
    office.close().await;
}

async fn a_delayed_message_of_a_turn_is_delivered_later(lab: Lab) {
    let office = Office::open(lab, |it, post| it.object(Clerk).consume(MAIL, post)).await;
    let (to, after, fail) = ("friend".into(), HOUR, false);
    office.app.call(Clerk::at("c"), Write { to, after, fail }).await.unwrap();
    assert_eq!(office.depth("mail").await, [0, 1, 0, 0]);
    office.pass(HOUR - SECOND).await;
    assert_eq!(office.post.got(), []);
    office.pass(SECOND).await;
    assert_eq!(office.post.times("friend"), [START.after(HOUR)]);
    office.close().await;
}

async fn a_message_of_a_run_is_sent_once_over_its_replays(lab: Lab) {
    let play = Play::of(|ctx, stage, _| async move {
        stage.count("replays");
        ctx.send(MAIL, mail("from a run")).await?;
        ctx.send(MAIL.after(HOUR), mail("for later")).await?;
        ctx.event::<()>("go").await?;
        ctx.send(MAIL, mail("last")).await?;
        Ok(Value::Null)
    });
    let stage = play.stage.clone();
    let open = |it: steadfast_core::App, post| it.workflow(play.clone()).consume(MAIL, post);
    let office = Office::open(lab, open).await;
    office.app.start(Play::at("one"), Value::Null).await.unwrap();
    let status = async |office: &Office| office.app.runs().status("play", "one").await.unwrap();
    until("it waits", async || status(&office).await == Status::Waiting).await;
    let office = office.again(open).await;
    office.app.runs().send_event("play", "one", "go", &Value::Null).await.unwrap();
    office.app.runs().wait("play", "one").await.unwrap();
    office.pass(HOUR).await;
    assert!(2 <= stage.ran("replays"));
    let mut names = office.post.names();
    names.sort();
    assert_eq!(names, ["for later", "from a run", "last"]);
    assert_eq!(office.post.times("for later"), [START.after(HOUR)]);
    office.close().await;
}

async fn a_consumer_sends_on_and_starts_runs(lab: Lab) {
    let play = Play::of(|_, stage, input| async move {
        stage.count(input.as_str().unwrap_or_default());
        Ok(input)
    });
    let stage = play.stage.clone();
    let office =
        Office::open(lab, |it, post| it.workflow(play).consume(MAIL, Onward).consume(OTHER, post))
            .await;
    let sent = office.send("friend").await;
    office.quiet().await;
    until("it came", async || office.post.names() == ["friend"]).await;
    let ended = office.app.runs().wait("play", &format!("run-{sent}")).await.unwrap();
    assert_eq!((ended, stage.ran("friend")), (Status::Complete(json!("friend")), 1));
    office.quiet().await;
    assert_eq!(office.post.got()[0].queue, "other");
    office.close().await;
}

async fn a_message_that_an_object_settles_is_done_with_its_turn(lab: Lab) {
    let office = Office::open(lab, |it, post| it.object(Clerk).consume(MAIL, ToClerk(post))).await;
    let sent = office.send("friend").await;
    office.quiet().await;
    assert_eq!(office.app.call(Clerk::at("c"), Taken).await.unwrap(), ["friend"]);
    let State::Settled(end) = office.state(sent).await else { panic!("not done") };
    assert_eq!((end.attempts, end.error), (1, None));
    assert_eq!(office.depth("mail").await, [0; 4]);
    office.close().await;
}

async fn a_message_that_an_object_refuses_is_not_done(lab: Lab) {
    let office = Office::open(lab, |it, post| {
        let declare = MAIL.retries(1).dead_letters(DEAD);
        it.object(Clerk).queue(declare).consume(MAIL, ToClerk(post))
    })
    .await;
    let sent = office.send_all(&["busy", "closed", "panics", "fine"]).await;
    office.pass(HOUR).await;
    assert_eq!(office.app.call(Clerk::at("c"), Taken).await.unwrap(), ["fine"]);
    let attempts = office.post.attempts();
    let counts = ["busy", "closed", "panics", "fine"].map(|it| attempts[it].len());
    assert_eq!(counts, [2, 1, 2, 1]);
    let mut dead = office.peek("mail-dead", PeekState::Pending).await;
    dead.sort_by_key(|it| it.id);
    assert_eq!(ids(&dead), sent[..3]);
    let error = |at: usize| dead[at].last_error.clone().unwrap();
    assert!(error(0).contains("try again"), "{}", error(0));
    assert!(error(1).contains("closed for good"), "{}", error(1));
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_process_ends_an_object_settles_each_message_exactly_once() {
    let clock = steadfast_core::store::ManualClock::at(START);
    let post = Post::by(&clock);
    let program = || App::new("test").object(Clerk).consume(MAIL, ToClerk(post.clone()));
    let survived = assert_survives_crashes(program, async |app| {
        for name in ["a", "b", "c"] {
            let body = Json::of(&mail(name)).unwrap();
            let outgoing = vec![Outgoing { body, delay: Duration::ZERO }];
            app.queues().send_json("mail", outgoing, Some(name)).await?;
        }
        app.advance(HOUR).await;
        let mut taken = app.call(Clerk::at("c"), Taken).await?;
        taken.sort();
        let view = app.queues().show("mail").await?;
        assert_eq!(app.store().violations().await?, Vec::<String>::new());
        Ok((taken, view.depth, view.dead))
    })
    .await;
    assert!(12 <= survived, "{survived}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_process_ends_messages_are_handled_and_failed_ones_are_kept() {
    let clock = steadfast_core::store::ManualClock::at(START);
    let post = Post::by(&clock);
    let program = || {
        let declare = MAIL.retries(2).dead_letters(DEAD);
        App::new("test").queue(declare).consume(MAIL, post.clone())
    };
    let survived = assert_survives_crashes(program, async |app| {
        for name in ["fails", "later", "buried", "fine"] {
            let body = Json::of(&mail(name)).unwrap();
            let outgoing = vec![Outgoing { body, delay: Duration::ZERO }];
            app.queues().send_json("mail", outgoing, Some(name)).await?;
        }
        app.advance(HOUR).await;
        let dead = app.queues().peek("mail-dead", PeekState::Pending, None, 9).await?;
        let mut dead: Vec<String> = dead.iter().map(|it| it.body.get().to_owned()).collect();
        dead.sort();
        let view = app.queues().show("mail").await?;
        assert_eq!(app.store().violations().await?, Vec::<String>::new());
        Ok((dead, view.depth, view.dead))
    })
    .await;
    assert!(20 <= survived, "{survived}");
}
