//! Delivery under load: a busy object loses nothing, and a slow target delays nothing else.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, ConsumeOptions, Consumer, Delivery, Handle, Job, Object, ObjectOptions, Objects, Outcome,
    Perform, Result, Runtime, Settled, Turn, Workflow,
    store::{Clock, RetryPolicy, SeededEntropy},
    workflow::Status,
};

use crate::{
    lab::Lab,
    ledger::{Add, Clockwork, Gate, Ledger, Read, Wait},
    play::{Play, until},
    post::{MAIL, Mail, mail},
};

laws!(
    calls_that_fill_a_mailbox_turn_no_message_into_a_dead_letter,
    waiting_in_a_mailbox_is_neither_a_failed_attempt_nor_the_time_of_the_consumer,
    calls_whose_callers_have_gone_away_leave_the_mailbox,
    job_kinds_that_hang_keep_nothing_else_waiting,
    objects_that_hang_keep_nothing_else_waiting,
    messages_of_one_turn_to_one_receiver_arrive_in_order,
    messages_beyond_the_memory_of_the_dispatcher_arrive_in_order_too,
    a_run_that_one_turn_starts_and_ends_is_terminated,
    a_backlog_after_a_kill_is_delivered_at_once,
);
laws!(also on postgres:
    messages_beyond_the_memory_of_the_dispatcher_arrive_in_order_too,
    a_backlog_after_a_kill_is_delivered_at_once,
);

const MESSAGES: i64 = 60;

/// Adds its messages to one ledger, each in the commit of its turn.
struct Booking;

impl Consumer for Booking {
    type Message = Mail;

    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        delivery.settle_with(Ledger::at("busy"), Add { by: 1 }).await
    }
}

/// A program whose ledger `busy` is at its gate, with this many others waiting.
async fn busy(lab: &Lab, ledger: &Ledger, options: ConsumeOptions) -> Arc<Runtime> {
    ledger.gate.close();
    let builder = App::new("test").object(ledger.clone()).entropy(SeededEntropy::new(1));
    let builder = builder.queue(MAIL.retries(0)).consume_with(MAIL, Booking, options);
    let app = Arc::new(builder.start(lab.store.clone()).await.unwrap());
    let first = app.clone();
    tokio::spawn(async move { first.call(Ledger::at("busy"), Wait { refuse: false }).await });
    ledger.gate.reached().await;
    app
}

async fn total(app: &Runtime, name: &str) -> i64 {
    app.call(Ledger::at(name), Read).await.unwrap().0
}

async fn calls_that_fill_a_mailbox_turn_no_message_into_a_dead_letter(lab: Lab) {
    let ledger = Ledger::default();
    let app = busy(&lab, &ledger, ConsumeOptions::default()).await;
    let call = || Box::pin(app.call(Ledger::at("busy"), Wait { refuse: false }).into_future());
    let mut calls: Vec<_> = (0..ObjectOptions::default().mailbox_max).map(|_| call()).collect();
    assert!(calls.iter_mut().all(|it| futures_poll(it).is_pending()));
    let refused = call().await.expect_err("the mailbox is full");
    assert_eq!(refused.code(), "busy");
    let all: Vec<Mail> = (0..MESSAGES).map(|_| mail("x")).collect();
    let sent = app.queues().send_all(MAIL, &all).await.unwrap();
    until("the consumer waits", async || 0 < app.queues().show("mail").await.unwrap().running)
        .await;
    lab.clock.advance(Duration::from_mins(1));
    ledger.gate.open();
    for call in calls {
        call.await.unwrap();
    }
    until("all is booked", async || total(&app, "busy").await == MESSAGES).await;
    for position in sent {
        assert_eq!(lab.store.attempts(position).await.unwrap(), []);
    }
    assert_eq!(lab.store.totals().await.unwrap().dead, 0);
}

async fn waiting_in_a_mailbox_is_neither_a_failed_attempt_nor_the_time_of_the_consumer(lab: Lab) {
    let ledger = Ledger::default();
    let options = ConsumeOptions { concurrency: 4, timeout: Duration::from_secs(2) };
    let app = busy(&lab, &ledger, options).await;
    let sent = app.queues().send(MAIL, &mail("x")).await.unwrap();
    app.call(Ledger::at("other"), crate::ledger::AddBoth { other: "busy".into(), by: 10 })
        .await
        .unwrap();
    until("the consumer waits", async || app.queues().show("mail").await.unwrap().running == 1)
        .await;
    // Longer than any lease and timeout, several times.
    for _ in 0..10 {
        lab.clock.advance(Duration::from_mins(10));
        tokio::task::yield_now().await;
    }
    ledger.gate.open();
    until("both are booked", async || total(&app, "busy").await == 11).await;
    until("it is settled", async || lab.store.totals().await.unwrap().pending == 0).await;
    assert_eq!(lab.store.attempts(sent).await.unwrap(), []);
    assert_eq!(lab.store.totals().await.unwrap().dead, 0);
}

async fn calls_whose_callers_have_gone_away_leave_the_mailbox(lab: Lab) {
    let ledger = Ledger::default();
    let app = busy(&lab, &ledger, ConsumeOptions::default()).await;
    let max = ObjectOptions::default().mailbox_max;
    let mut calls = Vec::new();
    for _ in 0..max {
        let mut call = Box::pin(app.call(Ledger::at("busy"), Add { by: 1_000 }).into_future());
        // It is in the mailbox now.
        assert!(futures_poll(&mut call).is_pending());
        calls.push(call);
    }
    drop(calls);
    let mut call = Box::pin(app.call(Ledger::at("busy"), Add { by: 1 }).into_future());
    assert!(futures_poll(&mut call).is_pending(), "there is room again");
    ledger.gate.open();
    assert_eq!(call.await.unwrap(), 1, "the other callers were dropped");
}

fn futures_poll<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut context)
}

/// A kind of job that never ends.
#[derive(Debug, Serialize, Deserialize)]
struct Hang<const N: usize>;

const KINDS: [&str; 12] =
    ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "h10", "h11"];

impl<const N: usize> Job for Hang<N> {
    const NAME: &'static str = KINDS[N];
    const RETRY: RetryPolicy = RetryPolicy::DEFAULT;
    const TIMEOUT: Duration = Duration::from_hours(1);
    type Output = i64;
}

struct Never;

impl<const N: usize> Perform<Hang<N>> for Never {
    async fn perform(&self, _: Hang<N>, _: &str) -> Result<i64> {
        std::future::pending().await
    }
}

/// Sends numbered messages, requests jobs that hang, starts and ends runs.
#[derive(Clone, Default)]
struct Sender {
    gate: Gate,
    heard: Arc<Mutex<Vec<(String, i64)>>>,
}

#[derive(Serialize, Deserialize)]
struct Send {
    to: String,
    many: i64,
}
#[derive(Serialize, Deserialize)]
struct Numbered {
    number: i64,
}
#[derive(Serialize, Deserialize)]
struct Stuck;
#[derive(Serialize, Deserialize)]
struct AskAll;
#[derive(Serialize, Deserialize)]
struct StartAndEnd {
    id: String,
}

impl Object for Sender {
    const CLASS: &'static str = "sender";
    type Calls = (
        Send,
        Numbered,
        Stuck,
        AskAll,
        StartAndEnd,
        Outcome<Hang<0>>,
        Outcome<Hang<1>>,
        Outcome<Hang<2>>,
        Outcome<Hang<3>>,
        Outcome<Hang<4>>,
        Outcome<Hang<5>>,
        Outcome<Hang<6>>,
        Outcome<Hang<7>>,
        Outcome<Hang<8>>,
        Outcome<Hang<9>>,
        Outcome<Hang<10>>,
        Outcome<Hang<11>>,
    );
    const MIGRATIONS: &'static [&'static str] = &[];
}

impl<const N: usize> Handle<Outcome<Hang<N>>> for Sender {
    const NAME: &'static str = KINDS[N];
    type Reply = ();
    fn handle(&self, _: &Turn<Self>, _: Outcome<Hang<N>>) -> Result<()> {
        Ok(())
    }
}

impl Handle<Send> for Sender {
    const NAME: &'static str = "send";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Send) -> Result<()> {
        (0..msg.many).for_each(|number| turn.send(Sender::at(&msg.to), Numbered { number }));
        Ok(())
    }
}

impl Handle<Numbered> for Sender {
    const NAME: &'static str = "numbered";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Numbered) -> Result<()> {
        if turn.name().starts_with("stuck") {
            self.gate.pass();
        }
        self.heard.lock().unwrap().push((turn.name().to_owned(), msg.number));
        Ok(())
    }
}

impl Handle<Stuck> for Sender {
    const NAME: &'static str = "stuck";
    type Reply = ();
    fn handle(&self, _: &Turn<Self>, _: Stuck) -> Result<()> {
        self.gate.pass();
        Ok(())
    }
}

impl Handle<AskAll> for Sender {
    const NAME: &'static str = "ask-all";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: AskAll) -> Result<()> {
        for _ in 0..20 {
            turn.perform(&Hang::<0>);
            turn.perform(&Hang::<1>);
            turn.perform(&Hang::<2>);
            turn.perform(&Hang::<3>);
            turn.perform(&Hang::<4>);
            turn.perform(&Hang::<5>);
            turn.perform(&Hang::<6>);
            turn.perform(&Hang::<7>);
            turn.perform(&Hang::<8>);
            turn.perform(&Hang::<9>);
            turn.perform(&Hang::<10>);
            turn.perform(&Hang::<11>);
        }
        Ok(())
    }
}

impl Handle<StartAndEnd> for Sender {
    const NAME: &'static str = "start-and-end";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: StartAndEnd) -> Result<()> {
        turn.start(Play::at(&msg.id), serde_json::Value::Null);
        turn.terminate(Play::at(&msg.id));
        Ok(())
    }
}

/// A program with all of it.
async fn start(lab: &Lab, sender: &Sender) -> Runtime {
    let play = Play::of(|ctx, stage, _| async move {
        ctx.event::<()>("never").await?;
        stage.count("continued");
        Ok(serde_json::Value::Null)
    });
    let options = ObjectOptions { threads: 32, ..ObjectOptions::default() };
    let builder = App::new("test").object(sender.clone()).object(Ledger::default());
    let builder = builder.workflow(play).object_options(options).entropy(SeededEntropy::new(1));
    let builder = builder.consume(MAIL, Booking);
    let builder = builder.perform::<Hang<0>>(Never).perform::<Hang<1>>(Never);
    let builder = builder.perform::<Hang<2>>(Never).perform::<Hang<3>>(Never);
    let builder = builder.perform::<Hang<4>>(Never).perform::<Hang<5>>(Never);
    let builder = builder.perform::<Hang<6>>(Never).perform::<Hang<7>>(Never);
    let builder = builder.perform::<Hang<8>>(Never).perform::<Hang<9>>(Never);
    let builder = builder.perform::<Hang<10>>(Never).perform::<Hang<11>>(Never);
    builder.start(lab.store.clone()).await.unwrap()
}

/// Alarms fire, objects get messages, runs start, queues are consumed: without time passing.
async fn all_else_moves(lab: &Lab, app: &Runtime, sender: &Sender) {
    let elapsed = lab.clock.elapsed();
    let ring = Clockwork::Set { name: "now".into(), after: Duration::ZERO };
    app.call(Ledger::at("bell"), ring).await.unwrap();
    app.call(Sender::at("free"), Send { to: "other".into(), many: 3 }).await.unwrap();
    app.call(Sender::at("free"), StartAndEnd { id: "one".into() }).await.unwrap();
    app.queues().send(MAIL, &mail("x")).await.unwrap();
    until("the alarm rings", async || {
        !app.call(Ledger::at("bell"), crate::ledger::Rung).await.unwrap().is_empty()
    })
    .await;
    until("others hear", async || {
        sender.heard.lock().unwrap().iter().filter(|it| it.0 == "other").count() == 3
    })
    .await;
    until("the run is there", async || app.runs().status("play", "one").await.is_ok()).await;
    until("the queue is consumed", async || total(app, "busy").await == 1).await;
    assert_eq!(lab.clock.elapsed(), elapsed);
}

async fn job_kinds_that_hang_keep_nothing_else_waiting(lab: Lab) {
    let sender = Sender::default();
    let app = start(&lab, &sender).await;
    app.call(Sender::at("asks"), AskAll).await.unwrap();
    until("each kind has taken its places", async || {
        let pending = lab.store.pending(None, 0, 1_000).await.unwrap();
        let is_held = |it: &&steadfast_core::store::Recorded| {
            matches!(it.state, Some(steadfast_core::store::State::InFlight { .. }))
        };
        pending.iter().filter(is_held).count() == 12 * 16
    })
    .await;
    all_else_moves(&lab, &app, &sender).await;
    // The notice of a recent commit may not have been processed yet.
    until("nothing is forgotten", async || app.forgotten().await.unwrap().is_empty()).await;
}

async fn objects_that_hang_keep_nothing_else_waiting(lab: Lab) {
    let sender = Sender::default();
    let app = start(&lab, &sender).await;
    sender.gate.close();
    for number in 0..12 {
        let (from, to) = (format!("from-{number}"), format!("stuck-{number}"));
        app.call(Sender::at(&from), Send { to, many: 40 }).await.unwrap();
        sender.gate.reached().await;
    }
    all_else_moves(&lab, &app, &sender).await;
    sender.gate.open();
    until("all have heard", async || sender.heard.lock().unwrap().len() == 12 * 40 + 3).await;
}

async fn messages_of_one_turn_to_one_receiver_arrive_in_order(lab: Lab) {
    let sender = Sender::default();
    let app = start(&lab, &sender).await;
    for round in 0..20 {
        let to = format!("to-{round}");
        app.call(Sender::at("from"), Send { to: to.clone(), many: 50 }).await.unwrap();
        let heard = || {
            let heard = sender.heard.lock().unwrap();
            heard.iter().filter(|it| it.0 == to).map(|it| it.1).collect::<Vec<i64>>()
        };
        until("all have arrived", async || heard().len() == 50).await;
        assert_eq!(heard(), (0..50).collect::<Vec<i64>>());
    }
    app.stop().await;
}

async fn messages_beyond_the_memory_of_the_dispatcher_arrive_in_order_too(mut lab: Lab) {
    const MANY: i64 = 1_500;
    let sender = Sender::default();
    {
        // Nothing delivers: messages stay pending, and scans of 1,000 find them at the next start.
        let objects = Objects::builder(lab.store.clone()).class(sender.clone()).start().unwrap();
        objects.call(Sender::at("from"), Send { to: "to".into(), many: MANY }).await.unwrap();
    }
    lab.restart().await;
    let app = start(&lab, &sender).await;
    until("all have arrived", async || sender.heard.lock().unwrap().len() == MANY as usize).await;
    app.call(Sender::at("from"), Send { to: "to".into(), many: MANY }).await.unwrap();
    let all = 2 * MANY as usize;
    until("all have arrived", async || sender.heard.lock().unwrap().len() == all).await;
    let heard: Vec<i64> = sender.heard.lock().unwrap().iter().map(|it| it.1).collect();
    assert_eq!(heard, (0..MANY).chain(0..MANY).collect::<Vec<i64>>());
    app.stop().await;
}

async fn a_run_that_one_turn_starts_and_ends_is_terminated(lab: Lab) {
    let sender = Sender::default();
    let app = start(&lab, &sender).await;
    let ids: Vec<String> = (0..30).map(|it| format!("run-{it}")).collect();
    for id in &ids {
        app.call(Sender::at("from"), StartAndEnd { id: id.clone() }).await.unwrap();
    }
    until("nothing is pending", async || lab.store.totals().await.unwrap().pending == 0).await;
    for id in &ids {
        assert_eq!(app.runs().status("play", id).await.unwrap(), Status::Terminated);
    }
    app.stop().await;
}

async fn a_backlog_after_a_kill_is_delivered_at_once(mut lab: Lab) {
    let sender = Sender::default();
    {
        // Nothing delivers: messages stay pending.
        let objects = Objects::builder(lab.store.clone()).class(sender.clone());
        let objects = objects.start().unwrap();
        for number in 0..20 {
            let to = format!("to-{number}");
            objects.call(Sender::at("from"), Send { to, many: 30 }).await.unwrap();
        }
    }
    lab.kill().await;
    let before = lab.store.activity();
    let app = start(&lab, &sender).await;
    until("all have arrived", async || sender.heard.lock().unwrap().len() == 600).await;
    until("nothing is pending", async || lab.store.totals().await.unwrap().pending == 0).await;
    let heard = sender.heard.lock().unwrap().clone();
    for number in 0..20 {
        let to = format!("to-{number}");
        let order: Vec<i64> = heard.iter().filter(|it| it.0 == to).map(|it| it.1).collect();
        assert_eq!(order, (0..30).collect::<Vec<i64>>(), "{to}");
    }
    // A claim and a turn for each, and each is read once: no time has passed, and nothing polls.
    let after = lab.store.activity();
    assert!(after.commits - before.commits <= 2 * 600 + 10, "{before:?} {after:?}");
    app.stop().await;
}
