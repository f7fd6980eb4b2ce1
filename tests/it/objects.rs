//! kill -9 of a process with objects under load. After every kill each turn is durable whole or not
//! at all, with all messages that it sends; calls with an unknown outcome are repeated under their
//! keys.

use steadfast_core::{
    CRASH_POINTS,
    store::{Entropy, SeededEntropy, crash::COMMIT_POINTS},
};

use crate::{
    accounts::Books,
    killer::{Victim, chance, soak, was_killed},
    postgres,
};

fn list(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    if numbers.is_empty() { "-".into() } else { numbers.join(",") }
}

/// The next victim. Every other one repeats calls with unknown outcomes while it is killed again.
fn victim(place: &str, books: &Books, chance: &SeededEntropy, at: Option<&str>) -> Victim {
    let again = if chance.next().is_multiple_of(2) { books.unknown() } else { Vec::new() };
    Victim::start(place, &[books.mode(), &books.next_number().to_string(), &list(&again)], at)
}

/// Repeats all calls with unknown outcomes, and some others, and waits for all of them.
async fn settle(place: &str, books: &mut Books) {
    let again = [books.unknown(), books.some_acked(20)].concat();
    let status = books.follow(Victim::start(place, &["repeat", &list(&again)], None), usize::MAX);
    assert!(status.success(), "the last victim ends in peace, not with {status}");
    books.check_all_done(place).await;
}

async fn kill_again_and_again(place: &str, kills: usize, forgets: bool) {
    let (chance, mut books) = (chance(), Books::new(forgets));
    let mut killed = 0;
    while killed < kills {
        let lines = 1 + (chance.next() % 300) as usize;
        // Every third victim only delivers the backlog of the others.
        let victim = if chance.next().is_multiple_of(3) {
            Victim::start(place, &["repeat", &list(&books.unknown())], None)
        } else {
            victim(place, &books, &chance, None)
        };
        let status = books.follow(victim, lines);
        assert!(was_killed(status) || status.success(), "{status}");
        killed += usize::from(was_killed(status));
        books.check(place).await;
    }
    settle(place, &mut books).await;
    eprintln!("{kills} kills: {}", books.summary());
}

/// Each point once at its first time and once later.
async fn end_at_every_point(place: &str) {
    let (chance, mut books) = (chance(), Books::new(false));
    for point in COMMIT_POINTS.iter().chain(CRASH_POINTS) {
        for nth in [1, 2 + chance.next() % 50] {
            let at = format!("{point}:{nth}");
            let status = books.follow(victim(place, &books, &chance, Some(&at)), usize::MAX);
            assert!(was_killed(status), "point {at} was never reached ({status})");
            books.check(place).await;
        }
    }
    settle(place, &mut books).await;
    eprintln!("every point: {}", books.summary());
}

/// A fresh store for each round: the checks after every kill take time in proportion to its size.
async fn rounds_on_sqlite(round: impl AsyncFn(&str)) {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        round(folder.path().to_str().unwrap()).await;
    }
}

async fn rounds_on_postgres(round: impl AsyncFn(&str)) {
    for _ in 0..soak() {
        round(&postgres::schema().await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_killed_thirty_times_lose_nothing_and_tear_no_turn_on_sqlite() {
    rounds_on_sqlite(async |place| kill_again_and_again(place, 30, false).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_killed_ten_times_lose_nothing_and_tear_no_turn_on_postgres() {
    rounds_on_postgres(async |place| kill_again_and_again(place, 10, false).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_killed_while_history_is_forgotten_lose_nothing_else_on_sqlite() {
    rounds_on_sqlite(async |place| kill_again_and_again(place, 10, true).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_killed_while_history_is_forgotten_lose_nothing_else_on_postgres() {
    rounds_on_postgres(async |place| kill_again_and_again(place, 5, true).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_end_at_every_point_tear_no_turn_on_sqlite() {
    rounds_on_sqlite(end_at_every_point).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_end_at_every_point_tear_no_turn_on_postgres() {
    rounds_on_postgres(end_at_every_point).await;
}
