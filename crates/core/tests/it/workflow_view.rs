//! Views of runs, on every store.

use serde_json::{Value, json};
use steadfast_core::{
    App, Runtime, Workflow,
    store::{Address, Clock, Commit, EntityKind, RunStatus, SeededEntropy, Write},
    workflow::{Phase, RunQuery, RunView, StepStatus},
};

use crate::{
    lab::Lab,
    play::until,
    trip::{Do, Trip},
};

laws!(
    a_step_that_fails_shows_its_attempts_and_why_it_waits,
    branches_are_distinguished_and_the_losing_one_is_dropped,
    runs_are_listed_newest_first_page_by_page_and_counted,
    a_waiter_is_notified_of_new_entries,
    a_count_says_that_there_are_more,
);
laws!(also on postgres: runs_are_listed_newest_first_page_by_page_and_counted);

struct Bench {
    lab: Lab,
    app: Runtime,
}

impl Bench {
    async fn on(lab: Lab) -> Self {
        let app = App::new("test")
            .workflow(Trip::default())
            .entropy(SeededEntropy::new(1))
            .start(lab.store.clone())
            .await
            .expect("runtime starts");
        Self { lab, app }
    }

    async fn start(&self, id: &str, input: Vec<Do>) {
        self.app.start(Trip::at(id), input).await.unwrap();
    }

    /// Polls until it has this status.
    async fn look_until(&self, id: &str, status: Phase) -> RunView {
        let mut found = None;
        until(&format!("it is {status:?}"), async || {
            let view = self.app.runs().look("trip", id).await.unwrap();
            let explained = view.status.is_final() || view.status == Phase::Running;
            assert!(explained || !view.waiting.is_empty(), "nothing explains {view:#?}");
            found = (view.status == status).then_some(view);
            found.is_some()
        })
        .await;
        found.unwrap()
    }
}

fn step(name: &str) -> Do {
    Do::Step { name: name.into(), fails: 0 }
}

async fn a_step_that_fails_shows_its_attempts_and_why_it_waits(lab: Lab) {
    let bench = Bench::on(lab).await;
    bench.start("one", vec![Do::Step { name: "a".into(), fails: 1 }]).await;
    let view = bench.look_until("one", Phase::Waiting).await;
    let it = &view.steps[0];
    assert_eq!((it.status, it.attempts.len(), it.attempts[0].number), (StepStatus::Retrying, 1, 1));
    let until = it.until.unwrap();
    assert_eq!(view.waiting[0].until, Some(until));
    let why = &view.waiting[0].why;
    assert!(why.starts_with("step `a` failed once ("), "{why}");
    assert!(why.ends_with(&format!("; the next attempt is at {until}")), "{why}");
    bench.lab.clock.advance(until.0.since(bench.lab.clock.now()));
    let view = bench.look_until("one", Phase::Complete).await;
    let it = &view.steps[0];
    let numbers: Vec<u32> = it.attempts.iter().map(|it| it.number).collect();
    assert_eq!((it.status, it.output.clone()), (StepStatus::Done, Some(json!("a"))));
    assert_eq!((numbers, &it.error), (vec![1, 2], &None));
    assert!(it.attempts[0].error.is_some() && it.attempts[1].error.is_none());
    assert_eq!((view.output, view.ended_at), (Some(json!(["a"])), Some(view.changed_at)));
    bench.app.stop().await;
}

async fn branches_are_distinguished_and_the_losing_one_is_dropped(lab: Lab) {
    let bench = Bench::on(lab).await;
    let nap = |seconds| Do::Sleep { seconds };
    let both = Do::Join { left: vec![step("b"), nap(5)], right: vec![step("c")] };
    bench.start("one", vec![both, Do::EventWithin { name: "e".into(), seconds: 60 }]).await;
    let seen = |view: &RunView| -> Vec<(String, String, StepStatus)> {
        let step = |it: &steadfast_core::workflow::StepView| {
            (it.branch.clone(), it.kind.clone(), it.status)
        };
        view.steps.iter().map(step).collect()
    };
    let expected = |rows: &[(&str, &str, StepStatus)]| -> Vec<(String, String, StepStatus)> {
        rows.iter().map(|it| (it.0.into(), it.1.into(), it.2)).collect()
    };
    let (done, waiting) = (StepStatus::Done, StepStatus::Waiting);
    let view = bench.look_until("one", Phase::Waiting).await;
    let joined = [("join#1.0", "step", done), ("join#1.0", "sleep", waiting)];
    let right = ("join#1.1", "step", done);
    assert_eq!(seen(&view), expected(&[joined[0], joined[1], right]));
    bench.lab.clock.advance(std::time::Duration::from_secs(5));
    let mut view = bench.look_until("one", Phase::Waiting).await;
    until("it waits for both", async || {
        view = bench.look_until("one", Phase::Waiting).await;
        2 <= view.waiting.len()
    })
    .await;
    assert_eq!(view.waiting.iter().filter(|it| it.kind == "event").count(), 1);
    bench.app.runs().send_event("trip", "one", "e", &7).await.unwrap();
    let view = bench.look_until("one", Phase::Complete).await;
    let rest = [
        ("", "select", done),
        ("select#1.0", "event", done),
        ("select#1.1", "sleep", StepStatus::Dropped),
    ];
    let all = [("join#1.0", "step", done), ("join#1.0", "sleep", done), right];
    assert_eq!(seen(&view), expected(&[&all[..], &rest].concat()));
    bench.app.stop().await;
}

async fn runs_are_listed_newest_first_page_by_page_and_counted(lab: Lab) {
    let bench = Bench::on(lab).await;
    for (number, id) in ["a-1", "b-1", "a-2", "a-3"].into_iter().enumerate() {
        bench.lab.clock.advance(std::time::Duration::from_secs(1));
        let input = if number == 0 { vec![Do::Sleep { seconds: 900 }] } else { vec![step("a")] };
        bench.start(id, input).await;
        let status = if number == 0 { Phase::Waiting } else { Phase::Complete };
        bench.look_until(id, status).await;
    }
    let query = RunQuery { workflow: "trip".into(), limit: 2, ..RunQuery::default() };
    let runs = bench.app.runs();
    let mut ids = Vec::new();
    let mut after = None;
    loop {
        let page = runs.list(&RunQuery { after, ..query.clone() }).await.unwrap();
        assert!(page.items.len() <= 2);
        ids.push(page.items.iter().map(|it| it.id.clone()).collect::<Vec<_>>());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(ids, [["a-3", "a-2"], ["b-1", "a-1"]]);
    let found = async |query: RunQuery| -> Vec<String> {
        let page = runs.list(&query).await.unwrap();
        page.items.into_iter().map(|it| it.id).collect()
    };
    let of = |status| RunQuery { status: Some(status), ..query.clone() };
    assert_eq!(found(of(Phase::Waiting)).await, ["a-1"]);
    assert_eq!(found(of(Phase::Errored)).await, [""; 0]);
    assert_eq!(found(RunQuery { prefix: "b".into(), ..query.clone() }).await, ["b-1"]);
    let then = runs.look("trip", "b-1").await.unwrap().created_at;
    let since = RunQuery { since: Some(then), limit: 9, ..query.clone() };
    assert_eq!(found(since).await, ["a-3", "a-2", "b-1"]);
    assert_eq!(found(RunQuery { until: Some(then), ..query.clone() }).await, ["a-1"]);
    let counts = runs.counts().await.unwrap();
    let of_trip = &counts.iter().find(|it| it.name == "trip").unwrap().runs;
    assert_eq!((of_trip[&Phase::Waiting], of_trip[&Phase::Complete], of_trip.len()), (1, 3, 2));
    let none = runs.list(&RunQuery { workflow: "none".into(), ..query }).await.unwrap_err();
    assert_eq!(none.code(), "workflow_not_found");
    bench.app.stop().await;
}

async fn a_count_says_that_there_are_more(lab: Lab) {
    let bench = Bench::on(lab).await;
    let run = |number: i32| {
        let run = Address::new(EntityKind::Run, "trip", &format!("r-{number}")).unwrap();
        Write::Run { run, status: RunStatus::Waiting, expires: None }
    };
    let counted = async || {
        let counts = bench.app.runs().counts().await.unwrap();
        let of_trip = counts.into_iter().find(|it| it.name == "trip").unwrap();
        (of_trip.shown(Phase::Waiting), of_trip.shown(Phase::Complete), of_trip.more)
    };
    let commit = async |writes: Vec<Write>| {
        let commit = Commit { writes, ..Commit::default() };
        bench.lab.store.commit(commit).await.unwrap();
    };
    commit((0..10_000).map(run).collect()).await;
    assert_eq!(counted().await, ("10000".into(), "0".into(), vec![]));
    commit(vec![run(10_000)]).await;
    assert_eq!(counted().await, ("10000+".into(), "0".into(), vec![Phase::Waiting]));
    bench.app.stop().await;
}

async fn a_waiter_is_notified_of_new_entries(lab: Lab) {
    let bench = Bench::on(lab).await;
    bench.start("one", vec![Do::EventWithin { name: "e".into(), seconds: 60 }]).await;
    let seen = bench.look_until("one", Phase::Waiting).await.version;
    let runs = bench.app.runs();
    runs.grown("trip", "one", seen - 1).await.unwrap();
    let (grown, sent) =
        tokio::join!(runs.grown("trip", "one", seen), runs.send_event("trip", "one", "e", &7));
    assert!(grown.is_ok() && sent.is_ok());
    let ended = bench.look_until("one", Phase::Complete).await;
    let whole = runs.history("trip", "one", 0, 100).await.unwrap();
    assert!(whole.iter().map(|it| it.number).eq(1..=ended.version));
    assert_eq!((whole[0].entry.as_str(), whole[0].is_end()), ("started", false));
    let event = whole.iter().find(|it| it.entry == "event").unwrap();
    assert_eq!((&event.fields["name"], &event.fields["payload"]), (&json!("e"), &json!(7)));
    let last = whole.last().unwrap();
    assert!(last.is_end() && last.fields["output"] != Value::Null, "{last:?}");
    assert_eq!(
        runs.history("trip", "one", ended.version - 1, 100).await.unwrap(),
        whole[whole.len() - 1..]
    );
    assert_eq!(runs.history("trip", "none", 0, 1).await.unwrap_err().code(), "run_not_found");
    assert_eq!(runs.history("none", "one", 0, 1).await.unwrap_err().code(), "workflow_not_found");
    bench.app.stop().await;
}
