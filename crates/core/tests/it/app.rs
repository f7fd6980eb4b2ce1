//! A program as a value: its declaration, why it cannot start, and its parts.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Both, CallError, CatchUp, Ctx, Error, Event, Extension, Handle, Object, Queue, Result,
    RunEnded, RunError, Runtime, StartError, TokenSpec, Turn, Workflow, workflow::Status,
};

use crate::{lab::Lab, ledger::Ledger, play::until};

laws!(
    a_turn_that_starts_a_run_which_no_run_can_be_fails,
    a_repeated_alarm_outlives_an_error_that_no_repetition_can_cure,
    declarations_are_not_written_before_the_program_starts_work,
    a_run_gives_what_its_workflow_says_and_takes_events_by_their_types,
    the_named_object_is_notified_once_of_the_end_of_a_run,
);
laws!(also on postgres: declarations_are_not_written_before_the_program_starts_work);

/// Starts runs, and has an alarm.
struct Clerk;

#[derive(Serialize, Deserialize)]
struct Begin {
    id: String,
}
#[derive(Serialize, Deserialize)]
struct BeginOther;
#[derive(Serialize, Deserialize)]
struct Ring;
#[derive(Serialize, Deserialize)]
struct Look;
#[derive(Serialize, Deserialize)]
struct RingDaily;

impl Object for Clerk {
    const CLASS: &'static str = "clerk";
    type Calls = Both<(Begin, BeginOther), Both<(Ring,), (Look, RingDaily)>>;
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE rung (at INTEGER NOT NULL)"];
}

impl Handle<Begin> for Clerk {
    const NAME: &'static str = "begin";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Begin) -> Result<()> {
        turn.start(Known::at(msg.id), ());
        Ok(())
    }
}

impl Handle<BeginOther> for Clerk {
    const NAME: &'static str = "begin-other";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: BeginOther) -> Result<()> {
        turn.start(Unknown::at("one"), ());
        Ok(())
    }
}

impl Handle<RingDaily> for Clerk {
    const NAME: &'static str = "ring-daily";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: RingDaily) -> Result<()> {
        turn.repeat_alarm("daily", Duration::from_hours(24), CatchUp::Once, Ring);
        Ok(())
    }
}

/// Fails for good on the first day, and succeeds on all others.
impl Handle<Ring> for Clerk {
    const NAME: &'static str = "ring";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Ring) -> Result<()> {
        let due_at = turn.alarm().map_or(0, |it| it.due_at.0);
        if due_at < turn_start() + 2 * DAY {
            return Err(Error::terminal("the first of them is a holiday"));
        }
        turn.sql().execute("INSERT INTO rung VALUES (?1)", [due_at])?;
        Ok(())
    }
}

impl Handle<Look> for Clerk {
    const NAME: &'static str = "look";
    type Reply = (i64, Vec<(bool, Option<String>)>);
    fn handle(&self, turn: &Turn<Self>, _: Look) -> Result<Self::Reply> {
        let rung = turn.sql().query_row("SELECT count(*) FROM rung", (), |row| row.get(0))?;
        Ok((rung, turn.alarms()?.into_iter().map(|it| (it.failed, it.error)).collect()))
    }
}

const DAY: i64 = 24 * 3_600_000;

fn turn_start() -> i64 {
    crate::lab::START.0
}

struct Known;

impl Workflow for Known {
    const NAME: &'static str = "known";
    type Input = ();
    type Output = ();
    async fn run(&self, _: &Ctx, (): ()) -> Result<()> {
        Ok(())
    }
}

struct Unknown;

impl Workflow for Unknown {
    const NAME: &'static str = "unknown";
    type Input = ();
    type Output = ();
    async fn run(&self, _: &Ctx, (): ()) -> Result<()> {
        Ok(())
    }
}

fn app() -> App {
    App::new("office").object(Clerk).workflow(Known)
}

async fn has_run(program: &Runtime, id: &str) -> bool {
    program.runs().status("known", id).await.is_ok_and(|it| it.is_final())
}

async fn a_turn_that_starts_a_run_which_no_run_can_be_fails(lab: Lab) {
    let program = app().start(lab.store.clone()).await.unwrap();
    let call = |id: &str| program.call(Clerk::at("c"), Begin { id: id.into() });
    for id in ["a/b", "", "ä", &"x".repeat(129)] {
        let refused = call(id).await.unwrap_err();
        let CallError::Refused(error) = &refused else { panic!("{refused:?}") };
        assert_eq!((error.code(), error.is_terminal()), ("invalid_name", true), "{id}");
    }
    let refused = program.call(Clerk::at("c"), BeginOther).await.unwrap_err();
    let CallError::Refused(error) = &refused else { panic!("{refused:?}") };
    assert_eq!(error.code(), "workflow_not_found");
    assert!(error.to_string().contains("`unknown`"), "{error}");
    call("a-b").await.unwrap();
    until("it has run", async || has_run(&program, "a-b").await).await;
    let unknown = program.runs().wait("unknown", "one").await.unwrap_err();
    assert!(matches!(unknown, RunError::UnknownRun { .. }), "{unknown:?}");
    program.stop().await;
}

async fn a_repeated_alarm_outlives_an_error_that_no_repetition_can_cure(lab: Lab) {
    let program = app().start(lab.store.clone()).await.unwrap();
    let look = || program.call(Clerk::at("c"), Look);
    program.call(Clerk::at("c"), RingDaily).await.unwrap();
    lab.clock.advance(Duration::from_hours(24));
    let error = || Some("the first of them is a holiday".to_owned());
    let failed = |(_, alarms): &(i64, Vec<(bool, Option<String>)>)| alarms[0].1.is_some();
    until("it has failed", async || failed(&look().await.unwrap())).await;
    assert_eq!(look().await.unwrap(), (0, vec![(false, error())]), "it waits for tomorrow");
    lab.clock.advance(Duration::from_hours(24));
    until("it rings", async || look().await.unwrap().0 == 1).await;
    assert_eq!(look().await.unwrap(), (1, vec![(false, None)]));
    program.stop().await;
}

async fn declarations_are_not_written_before_the_program_starts_work(lab: Lab) {
    let before = lab.store.activity().commits;
    let program = app().queue(JOBS).prepare(lab.store.clone()).await.unwrap();
    assert!(!program.works());
    assert!(program.call(Clerk::at("c"), Begin { id: "later".into() }).await.is_ok());
    let unknown = program.runs().status("known", "later").await.unwrap_err();
    assert!(matches!(unknown, RunError::UnknownRun { .. }), "nothing is delivered");
    assert!(lab.store.activity().commits - before <= 1, "only the turn is a commit");
    program.work().await.unwrap();
    until("it has run", async || has_run(&program, "later").await).await;
    assert!(program.works());
    let client = program.clone();
    program.stop().await;
    assert!(!client.works());
    let refused = client.call(Clerk::at("c"), Look).await.unwrap_err();
    assert_eq!(refused.code(), "closed");
}

const JOBS: Queue<u32> = Queue::named("jobs");

/// Counts its messages.
#[derive(Default)]
struct Said(Vec<&'static str>);

impl Extension for Said {
    fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn problems(&self) -> Vec<String> {
        let empty = self.0.iter().filter(|it| it.is_empty());
        empty.map(|_| "nothing was said".to_owned()).collect()
    }
}

#[tokio::test]
async fn colliding_applications_report_every_problem_with_both_owners_and_nothing_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut one = App::new("one").object(Clerk).queue(JOBS).workflow(Known);
    one.extension_mut::<Said>().0.push("");
    let other = App::new("other").object(Clerk).queue(JOBS.retries(2_000)).workflow(Known);
    let sum = App::new("sum").merge(one).merge(other);
    let refused = sum.open(data.to_str().unwrap()).await.err().unwrap();
    let StartError::Program { problems } = &refused else { panic!("{refused:?}") };
    let both = |what: &str| {
        let problem = problems.iter().find(|it| it.contains(what)).unwrap_or_else(|| {
            panic!("{what} is missing in {problems:?}");
        });
        assert!(problem.contains("one (") && problem.contains("other ("), "{problem}");
        assert_eq!(problem.matches("tests/it/app.rs:").count(), 2, "{problem}");
    };
    both("object class `clerk`");
    both("queue `jobs` is declared");
    both("workflow `known`");
    assert!(problems.iter().any(|it| it.contains("maxRetries")), "{problems:?}");
    assert!(problems.iter().any(|it| it == "nothing was said"), "{problems:?}");
    assert_eq!(problems.len(), 5, "{problems:?}");
    assert!(!data.exists());
}

#[tokio::test]
async fn extensions_of_merged_applications_are_merged() {
    let mut one = App::new("one");
    one.extension_mut::<Said>().0.push("a");
    let mut other = App::new("other");
    other.extension_mut::<Said>().0.push("b");
    let program = App::new("sum").merge(one).merge(other).test().await.unwrap();
    assert_eq!(program.extension::<Said>().unwrap().0, ["a", "b"]);
}

#[tokio::test]
async fn a_client_of_each_merged_application_reaches_the_whole_program() {
    let one = App::new("one").object(Clerk).workflow(Known);
    let other = App::new("other").object(Ledger::default());
    let clients = [one.client(), other.client()];
    let program = App::new("sum").merge(one).merge(other).test().await.unwrap();
    for client in &clients {
        client.call(Clerk::at("c"), Look).await.unwrap();
    }
    drop(program);
    for client in &clients {
        assert!(client.runtime().is_none(), "a client keeps no program alive");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_opened_on_a_folder_again_and_another_program_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let program = app().open(data).await.unwrap();
    program.call(Clerk::at("c"), Begin { id: "first".into() }).await.unwrap();
    program.stop().await;
    let other = App::new("market").object(Ledger::default());
    let refused = other.open(data).await.err().unwrap();
    let StartError::Foreign { owner, program } = &refused else { panic!("{refused:?}") };
    assert_eq!((&**owner, &**program), ("office", "market"));
    let program = app().open(data).await.unwrap();
    until("it has run", async || has_run(&program, "first").await).await;
    program.stop().await;
}

#[tokio::test]
async fn a_revoked_token_is_refused_by_every_clone_of_the_tokens_of_the_program() {
    let program = app().test().await.unwrap();
    let (one, other) = (program.tokens().clone(), program.tokens().clone());
    let made = one.create(TokenSpec::member("acme"), None).await.unwrap();
    other.authenticate(&made.secret).await.unwrap();
    assert!(one.revoke(&made.token.id).await.unwrap());
    assert!(other.authenticate(&made.secret).await.is_err());
}

/// Adds its inputs, and fails at negative ones.
struct Sum;

const MORE: Event<i64> = Event::named("more");

impl Workflow for Sum {
    const NAME: &'static str = "sum";
    type Input = i64;
    type Output = i64;
    async fn run(&self, ctx: &Ctx, first: i64) -> Result<i64> {
        match ctx.wait_for(MORE).await? {
            more if more < 0 => Err(Error::terminal("less is not more").with_code("negative")),
            more => Ok(first + more),
        }
    }
}

async fn a_run_gives_what_its_workflow_says_and_takes_events_by_their_types(lab: Lab) {
    let program = App::new("sums").workflow(Sum).start(lab.store.clone()).await.unwrap();
    let [good, bad, ended] = ["good", "bad", "ended"].map(|id| program.run(Sum::at(id)));
    let unknown = good.wait().await.unwrap_err();
    assert_eq!(unknown.code(), "run_not_found");
    for id in ["good", "bad", "ended"] {
        assert!(program.start(Sum::at(id), 40).await.unwrap().created);
    }
    good.send(MORE, 2).await.unwrap();
    assert_eq!(good.wait().await.unwrap(), 42);
    bad.send(MORE, -1).await.unwrap();
    let failed = bad.wait().await.unwrap_err();
    assert_eq!(failed.code(), "negative", "{failed}");
    ended.pause().await.unwrap();
    let paused = ended.wait().await.unwrap_err();
    assert!(matches!(paused, RunError::WrongStatus { status: "paused", .. }), "{paused:?}");
    ended.resume().await.unwrap();
    ended.terminate().await.unwrap();
    let ended = ended.wait().await.unwrap_err();
    assert!(matches!(ended, RunError::WrongStatus { status: "terminated", .. }), "{ended:?}");
    program.stop().await;
}

/// Starts sums, and keeps their outcomes.
struct Office;

#[derive(Serialize, Deserialize)]
struct Order {
    id: String,
}
#[derive(Serialize, Deserialize)]
struct Book;

impl Object for Office {
    const CLASS: &'static str = "office";
    type Calls = (Order, RunEnded<Sum>, Book);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE ended (id TEXT NOT NULL, result TEXT NOT NULL)"];
}

impl Handle<Order> for Office {
    const NAME: &'static str = "order";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Order) -> Result<()> {
        let started = turn.start(Sum::at(msg.id), 40);
        // Another message in between does not start the run.
        turn.send(turn.address(), Book);
        started.on_end(turn.address());
        Ok(())
    }
}

impl Handle<RunEnded<Sum>> for Office {
    const NAME: &'static str = "sum-ended";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: RunEnded<Sum>) -> Result<()> {
        let result = msg.result.map_or_else(|it| it.code().to_owned(), |it| it.to_string());
        turn.sql().execute("INSERT INTO ended VALUES (?1, ?2)", (msg.id, result))?;
        Ok(())
    }
}

impl Handle<Book> for Office {
    const NAME: &'static str = "book";
    type Reply = Vec<(String, String)>;
    fn handle(&self, turn: &Turn<Self>, _: Book) -> Result<Self::Reply> {
        let mut rows = turn.sql().prepare("SELECT id, result FROM ended ORDER BY id")?;
        let rows = rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

async fn the_named_object_is_notified_once_of_the_end_of_a_run(lab: Lab) {
    let app = || App::new("sums").workflow(Sum).object(Office);
    let program = app().start(lab.store.clone()).await.unwrap();
    let runs = ["a", "b", "c"].map(|id| program.run(Sum::at(id)));
    for id in ["a", "b", "c", "a"] {
        program.call(Office::at("d"), Order { id: id.into() }).await.unwrap();
    }
    until("all wait", async || {
        let mut waiting = true;
        for run in &runs {
            waiting &= matches!(run.status().await, Ok(Status::Waiting));
        }
        waiting
    })
    .await;
    // It is in the record, not in memory.
    program.stop().await;
    let program = app().start(lab.store.clone()).await.unwrap();
    program.run(Sum::at("a")).send(MORE, 2).await.unwrap();
    program.run(Sum::at("b")).send(MORE, -1).await.unwrap();
    program.run(Sum::at("c")).terminate().await.unwrap();
    let book = || program.call(Office::at("d"), Book);
    until("it has got all outcomes", async || book().await.unwrap().len() == 3).await;
    let wanted = [("a", "42"), ("b", "negative"), ("c", "terminated")];
    assert_eq!(book().await.unwrap(), wanted.map(|(id, it)| (id.to_owned(), it.to_owned())));
    for id in ["a", "b", "c"] {
        let history = program.runs().history("sum", id, 0, 100).await.unwrap();
        let last = history.last().unwrap().entry.clone();
        assert!(["completed", "errored", "terminated"].contains(&&*last), "{last}");
    }
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_run_notifies_its_object_once_wherever_the_process_ends() {
    let app = || App::new("sums").workflow(Sum).object(Office);
    let survived = steadfast_core::test::assert_survives_crashes(app, async |program| {
        program.call(Office::at("d"), Order { id: "a".into() }).key("order").await?;
        program.settle().await;
        let run = program.run(Sum::at("a"));
        if !run.status().await?.is_final() {
            run.send(MORE, 2).await?;
        }
        program.settle().await;
        Ok((run.wait().await?, program.call(Office::at("d"), Book).await?))
    });
    assert!(4 < survived.await);
}
