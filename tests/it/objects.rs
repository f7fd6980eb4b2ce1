//! kill -9 of a process whose objects are at work. After every end each turn is there whole or not
//! at all, with all that it sends; calls that nobody knows about are repeated under their keys.

use steadfast::{
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

/// The next victim. Every other one repeats what nobody knows about while it is killed again.
fn victim(place: &str, books: &Books, chance: &SeededEntropy, at: Option<&str>) -> Victim {
    let again = if chance.next().is_multiple_of(2) { books.unknown() } else { Vec::new() };
    Victim::start(place, &[books.mode(), &books.next_number().to_string(), &list(&again)], at)
}

/// Repeats everything that nobody knows about, and some that is known, and waits for all of it.
async fn settle(place: &str, books: &mut Books) {
    let again = [books.unknown(), books.some_acked(20)].concat();
    let status = books.follow(Victim::start(place, &["repeat", &list(&again)], None), usize::MAX);
    assert!(status.success(), "the last victim ends in peace, not with {status}");
    books.check_all_done(place).await;
}

async fn kill_again_and_again(place: &str, kills: usize, forgets: bool) {
    let (chance, mut books) = (chance(), Books::new(forgets));
    for _ in 0..kills {
        let lines = 1 + (chance.next() % 200) as usize;
        let status = books.follow(victim(place, &books, &chance, None), lines);
        assert!(was_killed(status), "{status}");
        books.check(place).await;
    }
    settle(place, &mut books).await;
    eprintln!("{kills} kills: {}", books.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_killed_thirty_times_lose_nothing_and_tear_no_turn_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path().to_str().unwrap(), 30 * soak(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_killed_ten_times_lose_nothing_and_tear_no_turn_on_postgres() {
    kill_again_and_again(&postgres::schema().await, 10 * soak(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_killed_while_history_is_forgotten_lose_nothing_else_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path().to_str().unwrap(), 10 * soak(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_killed_while_history_is_forgotten_lose_nothing_else_on_postgres() {
    kill_again_and_again(&postgres::schema().await, 5 * soak(), true).await;
}

/// Each point once at its first time and once later.
async fn end_at_every_point(place: &str) {
    let (chance, mut books) = (chance(), Books::new(false));
    for point in COMMIT_POINTS.iter().chain(CRASH_POINTS) {
        let later = (0..soak()).map(|_| 2 + chance.next() % 50);
        for nth in std::iter::once(1).chain(later) {
            let at = format!("{point}:{nth}");
            let status = books.follow(victim(place, &books, &chance, Some(&at)), usize::MAX);
            assert!(was_killed(status), "point {at} was never reached ({status})");
            books.check(place).await;
        }
    }
    settle(place, &mut books).await;
    eprintln!("every point: {}", books.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_end_at_every_point_tear_no_turn_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    end_at_every_point(folder.path().to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_end_at_every_point_tear_no_turn_on_postgres() {
    end_at_every_point(&postgres::schema().await).await;
}
