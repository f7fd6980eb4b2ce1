//! A message that crashes the process of its consumer: its attempts are counted, and it is given up
//! in the end; other messages are not.

use std::{sync::Arc, time::Duration};

use steadfast_core::{
    App, Batch, BatchConsumer, Queue, QueueSettings, Result, Runtime, SettledBatch,
    queue::PeekState,
    store::{ManualClock, MemoryStore, Moment, Position, SettledAs, State, Store},
};

use crate::{
    lab::START,
    play::until,
    post::{DEAD, MAIL, Mail, OTHER, Post, ids, mail},
};

/// Processes on one store in memory, each of which crashes on request.
struct Processes {
    store: Arc<MemoryStore>,
    clock: ManualClock,
    post: Post,
}

impl Processes {
    fn new() -> Self {
        let clock = ManualClock::at(START);
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let post = Post::by(&clock);
        Self { store, clock, post }
    }

    async fn next(&mut self, add: impl FnOnce(App, Post) -> App) -> Runtime {
        self.store = Arc::new(self.store.restart());
        let builder = App::new("test");
        add(builder, self.post.clone()).start(self.store.clone()).await.unwrap()
    }

    /// Crashes the process. Its memory is lost.
    async fn end(&self, app: Runtime) {
        self.store.crash_at(1, Moment::Before);
        assert!(app.queues().send(OTHER, &mail("nobody")).await.is_err());
        // Its remaining tasks have no effect, whenever they end.
        tokio::spawn(app.stop());
        self.clock.advance(Duration::from_millis(1));
    }

    /// Waits until there were this many deliveries in all.
    async fn came(&self, count: usize) {
        until("they came", async || self.post.got().len() == count).await;
    }

    /// The end of a message.
    async fn end_of(&self, position: Position) -> Option<(SettledAs, u32)> {
        let store: &dyn Store = &*self.store;
        match store.message(position).await.unwrap().unwrap().state.unwrap() {
            State::Settled(it) => Some((it.as_, it.attempts)),
            State::Pending { .. } | State::InFlight { .. } => None,
        }
    }
}

async fn send(app: &Runtime, all: &[&str]) -> Vec<Position> {
    let all: Vec<Mail> = all.iter().map(|it| mail(it)).collect();
    app.queues().send_all(MAIL, &all).await.unwrap()
}

fn consumed(it: App, post: Post) -> App {
    it.queue(MAIL.retries(2).dead_letters(DEAD)).consume(MAIL, post)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_crashes_each_process_is_counted_and_given_up() {
    let mut processes = Processes::new();
    let mut app = processes.next(consumed).await;
    let sent = send(&app, &["hangs"]).await;
    // The first process had no reason to count; after that each attempt is counted.
    for deliveries in 1..=4 {
        processes.came(deliveries).await;
        processes.end(app).await;
        app = processes.next(consumed).await;
    }
    let dead = app.queues().peek("mail-dead", PeekState::Pending, None, 9).await.unwrap();
    assert_eq!((ids(&dead), dead[0].attempts_before), (sent.clone(), 3));
    assert_eq!(dead[0].enqueued_at, START);
    let log = app.store().attempts(sent[0]).await.unwrap();
    let errors: Vec<String> = log.into_iter().map(|it| it.error).collect();
    let expected = [1, 2, 3].map(|it| format!("the process ended during attempt {it}"));
    assert_eq!(errors, expected);
    assert_eq!(processes.post.attempts()["hangs"], [1, 1, 2, 3]);
    assert_eq!(app.queues().show("mail").await.unwrap().depth, 0);
    // The next process has no suspects.
    send(&app, &["fine"]).await;
    processes.came(5).await;
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_retries_neighbours_are_not_given_up_and_the_message_itself_is() {
    let once =
        |it: App, post: Post| it.queue(MAIL.retries(0).dead_letters(DEAD)).consume(MAIL, post);
    let mut processes = Processes::new();
    let mut app = processes.next(once).await;
    let sent = send(&app, &["waits", "hangs", "waits"]).await;
    for process in 1..=2 {
        processes.came(3 * process).await;
        processes.end(app).await;
        app = processes.next(once).await;
    }
    processes.post.stage.open("door", 100);
    // One by one: the first is done, the second crashes the process once more, and for the last
    // time.
    let post = processes.post.clone();
    until("it hangs alone", async || post.attempts()["hangs"].len() == 3).await;
    processes.end(app).await;
    app = processes.next(once).await;
    for position in [sent[0], sent[2]] {
        until("it is done", async || processes.end_of(position).await.is_some()).await;
        assert_eq!(processes.end_of(position).await, Some((SettledAs::Done, 1)));
    }
    let dead = app.queues().peek("mail-dead", PeekState::Pending, None, 9).await.unwrap();
    assert_eq!((ids(&dead), dead[0].attempts_before), (vec![sent[1]], 1));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_in_flight_with_it_get_one_more_attempt_and_are_not_given_up() {
    let mut processes = Processes::new();
    let mut app = processes.next(consumed).await;
    let names = ["waits", "waits", "waits", "hangs", "waits", "waits", "waits", "waits"];
    let sent = send(&app, &names).await;
    for process in 1..=2 {
        processes.came(8 * process).await;
        processes.end(app).await;
        app = processes.next(consumed).await;
    }
    // All of them are suspect now, and are delivered one by one; innocent ones are not delayed.
    processes.post.stage.open("door", 100);
    let post = processes.post.clone();
    let poisoned = || post.attempts()["hangs"].len();
    until("it is its turn", async || poisoned() == 3).await;
    processes.end(app).await;
    let app = processes.next(consumed).await;
    until("it is its turn", async || poisoned() == 4).await;
    processes.end(app).await;
    let app = processes.next(consumed).await;
    let is_empty = async || {
        let view = app.queues().show("mail").await.unwrap();
        view.depth == 0
    };
    until("all have ended", is_empty).await;
    let dead = app.queues().peek("mail-dead", PeekState::Pending, None, 9).await.unwrap();
    assert_eq!((ids(&dead), dead[0].attempts_before), (vec![sent[3]], 3));
    for (position, name) in sent.iter().zip(names) {
        if name == "waits" {
            let (as_, attempts) = processes.end_of(*position).await.unwrap();
            assert_eq!(as_, SettledAs::Done);
            assert!(attempts <= 2, "{position}: {attempts} attempts");
        }
    }
    assert!(processes.post.attempts()["waits"].iter().all(|it| *it <= 2));
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_sent_after_such_a_crash_is_delivered_without_a_claim() {
    let mut processes = Processes::new();
    let app = processes.next(consumed).await;
    send(&app, &["hangs"]).await;
    processes.came(1).await;
    processes.end(app).await;
    let app = processes.next(consumed).await;
    processes.came(2).await;
    let before = processes.store.activity().commits;
    let sent = send(&app, &["fine"]).await;
    until("it is done", async || processes.end_of(sent[0]).await.is_some()).await;
    // A commit is seen a moment before it is counted.
    let commits = || processes.store.activity().commits - before;
    until("the send and the end are counted", async || 2 <= commits()).await;
    assert_eq!(commits(), 2, "the send and the end");
    processes.end(app).await;
}

/// Hangs with a batch that has such a message in it.
struct Sorter(Post);

impl BatchConsumer for Sorter {
    type Message = Mail;

    async fn deliver(&self, batch: Batch<Mail>) -> Result<SettledBatch> {
        self.0.stage.count(&format!("batches of {}", batch.len()));
        if batch.messages().any(|it| it.to == "hangs") {
            self.0.stage.count("hangs");
            std::future::pending().await
        }
        Ok(batch.done())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_with_such_a_message_is_taken_apart() {
    let settings = QueueSettings {
        max_retries: 2,
        batch_size: 5,
        batch_timeout_ms: 0,
        dead_letter_queue: Some("mail-dead".into()),
        ..QueueSettings::default()
    };
    let sorted = |it: App, post: Post| {
        it.queue(MAIL.with(settings.clone())).consume_batches(MAIL, Sorter(post))
    };
    let mut processes = Processes::new();
    let stage = processes.post.stage.clone();
    let mut app = processes.next(sorted).await;
    let sent = send(&app, &["a", "b", "hangs", "c", "d"]).await;
    for deliveries in 1..=4 {
        until("it hangs", async || stage.ran("hangs") == deliveries).await;
        processes.end(app).await;
        app = processes.next(sorted).await;
    }
    let is_empty = async || app.queues().show("mail").await.unwrap().oldest_age_ms.is_none();
    until("all have ended", is_empty).await;
    let dead = app.queues().peek("mail-dead", PeekState::Pending, None, 9).await.unwrap();
    assert_eq!((ids(&dead), dead[0].attempts_before), (sent[2..3].to_vec(), 3));
    for position in [sent[0], sent[1], sent[3], sent[4]] {
        let (as_, attempts) = processes.end_of(position).await.unwrap();
        assert!(as_ == SettledAs::Done && attempts <= 2, "{position}: {as_:?} {attempts}");
    }
    assert_eq!(stage.ran("batches of 5"), 2);
    app.stop().await;
}

const FRESH: Queue<Mail> = Queue::named("fresh");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_hangs_alone_holds_up_nothing_for_longer_than_half_a_minute() {
    let both = |it: App, post: Post| {
        let it = it.queue(MAIL.retries(1).dead_letters(DEAD)).consume(MAIL, post.clone());
        it.queue(OTHER).consume(OTHER, post.clone()).queue(FRESH).consume(FRESH, post)
    };
    let mut processes = Processes::new();
    let app = processes.next(both).await;
    let sent = send(&app, &["hangs"]).await;
    processes.came(1).await;
    processes.end(app).await;
    let app = processes.next(both).await;
    // It is claimed now; a message that is sent and not consumed before the next crash is suspect,
    // too.
    processes.came(2).await;
    app.queues().pause("other").await.unwrap();
    let all: Vec<Mail> = (0..20).map(|it| mail(&format!("other {it}"))).collect();
    app.queues().send_all(OTHER, &all).await.unwrap();
    processes.end(app).await;
    let app = processes.next(both).await;
    // It hangs in its last attempt, without another suspect in flight.
    processes.came(3).await;
    app.queues().resume("other").await.unwrap();
    let fresh = app.queues().send(FRESH, &mail("fresh")).await.unwrap();
    until("other messages are not delayed", async || processes.end_of(fresh).await.is_some()).await;
    assert_eq!(processes.post.got().len(), 4, "{:?}", processes.post.names());
    processes.clock.advance(Duration::from_secs(30));
    processes.came(24).await;
    until("all the others have ended", async || {
        app.queues().show("other").await.unwrap().oldest_age_ms.is_none()
    })
    .await;
    // It is to blame if the process crashes now.
    processes.end(app).await;
    let app = processes.next(both).await;
    let dead = app.queues().peek("mail-dead", PeekState::Pending, None, 9).await.unwrap();
    assert_eq!(ids(&dead), sent);
    app.stop().await;
}
