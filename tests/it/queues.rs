//! kill -9 of a process that sends and consumes: each letter is done once, or dead once.

use steadfast_core::{
    App, Queue,
    queue::{PeekState, QUEUE_CRASH_POINTS},
    store::{Entropy, SettledAs, State, crash::COMMIT_POINTS},
};

use crate::{
    fate::POISON,
    killer::{Victim, chance, open, read_all, soak, was_killed},
    letters::Post,
    postgres,
};

/// The next victim: it sends new letters, and consumes all.
fn victim(place: &str, post: &Post, at: Option<&str>) -> Victim {
    Victim::start(place, &["letters", &post.next_number().to_string()], at)
}

async fn settle(place: &str, post: &mut Post) {
    let status = post.follow(Victim::start(place, &["delivered"], None), usize::MAX);
    assert!(status.success(), "the last victim ends in peace, not with {status}");
    post.check_all_done(place).await;
}

async fn kill_again_and_again(place: &str, kills: usize) {
    let (chance, mut post) = (chance(), Post::default());
    let mut killed = 0;
    while killed < kills {
        let lines = 1 + (chance.next() % 300) as usize;
        // Every third victim only delivers the backlog of the others.
        let victim = match chance.next() % 3 {
            0 => Victim::start(place, &["delivered"], None),
            _ => victim(place, &post, None),
        };
        let status = post.follow(victim, lines);
        assert!(was_killed(status) || status.success(), "{status}");
        killed += usize::from(was_killed(status));
        post.check(place).await;
    }
    settle(place, &mut post).await;
    eprintln!("{kills} kills: {}", post.summary());
}

/// Each point once at its first time and once later.
async fn end_at_every_point(place: &str) {
    let (chance, mut post) = (chance(), Post::default());
    for point in COMMIT_POINTS.iter().chain(QUEUE_CRASH_POINTS) {
        // Only leftovers of a kill are claimed, and those are few.
        let later = if point.starts_with("queue.claim") { 2 } else { 40 };
        for nth in [1, 2 + chance.next() % later] {
            let at = format!("{point}:{nth}");
            let status = post.follow(victim(place, &post, Some(&at)), usize::MAX);
            assert!(was_killed(status), "point {at} was never reached ({status})");
            post.check(place).await;
        }
    }
    settle(place, &mut post).await;
    eprintln!("every point: {}", post.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_killed_thirty_times_lose_nothing_and_bury_only_failing_messages_on_sqlite() {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        kill_again_and_again(folder.path().to_str().unwrap(), 30).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_killed_ten_times_lose_nothing_and_bury_only_failing_messages_on_postgres() {
    for _ in 0..soak() {
        kill_again_and_again(&postgres::schema().await, 10).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_whose_process_is_killed_at_every_point_settle_each_message_once_on_sqlite() {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        end_at_every_point(folder.path().to_str().unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_whose_process_is_killed_at_every_point_settle_each_message_once_on_postgres() {
    for _ in 0..soak() {
        end_at_every_point(&postgres::schema().await).await;
    }
}

/// The first crash is not counted, because nothing is written before such a delivery. From then on
/// each attempt is counted before it begins, and the poison is soon delivered alone.
async fn a_message_that_crashes_the_process_is_buried(queue: &'static str) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let store = open(place).await;
    let program = App::new("test").start(store.clone()).await.unwrap();
    // All the others are done at the first attempt.
    let mut numbers: Vec<u64> = (0..8).map(|it| 10 * it + 6).collect();
    numbers.insert(3, POISON);
    let ids = program.queues().send_all(Queue::named(queue), &numbers).await.unwrap();
    program.stop().await;
    store.close().await;

    let mut ends = 0;
    while !Victim::start(place, &["poisoned"], None).wait().success() {
        ends += 1;
        assert!(ends <= 4, "the poison still ends the process after {ends} times");
    }
    assert_eq!(ends, 4, "one that was not counted, and as many as there are attempts");
    let store = open(place).await;
    for message in read_all(&*store).await.iter().filter(|it| it.position != ids[3]) {
        let is_done =
            matches!(&message.state, Some(State::Settled(it)) if it.as_ == SettledAs::Done);
        assert!(is_done, "{message:?}");
    }
    let program = App::new("test").start(store.clone()).await.unwrap();
    let dead = format!("{queue}-dead");
    let dead = program.queues().peek(&dead, PeekState::Pending, None, 10).await.unwrap();
    let told: Vec<_> = dead
        .iter()
        .map(|it| (it.id, it.attempts_before, it.from.as_deref(), it.last_error.as_deref()))
        .collect();
    assert_eq!(told, [(ids[3], 3, Some(queue), Some("the process ended during attempt 3"))]);
    program.stop().await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_crashes_the_process_is_buried_and_the_others_are_done() {
    a_message_that_crashes_the_process_is_buried("letters").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_crashes_the_process_is_buried_and_the_others_of_its_batch_are_done() {
    a_message_that_crashes_the_process_is_buried("bundles").await;
}
