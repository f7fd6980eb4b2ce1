//! kill -9 of a process with active runs: each ends once, as if there had been no kill.

use steadfast_core::{
    CRASH_POINTS,
    store::{Entropy, crash::COMMIT_POINTS},
};

use crate::{
    killer::{Victim, chance, soak, was_killed},
    postgres,
    trips::Trips,
};

/// The next victim: it completes the runs in progress, and starts new ones.
fn victim(place: &str, trips: &Trips, at: Option<&str>) -> Victim {
    Victim::start(place, &["trips", &trips.next_number().to_string(), &trips.under_way()], at)
}

/// Sends all trips the last event, and waits for their ends.
async fn settle(place: &str, trips: &mut Trips) {
    let last = Victim::start(place, &["home", &trips.under_way()], None);
    let status = trips.follow(last, usize::MAX);
    assert!(status.success(), "the last victim ends in peace, not with {status}");
    trips.check_all_done(place).await;
}

async fn kill_again_and_again(place: &str, kills: usize) {
    let (chance, mut trips) = (chance(), Trips::default());
    let mut killed = 0;
    while killed < kills {
        let lines = 1 + (chance.next() % 250) as usize;
        // Every third victim only delivers the backlog of the others.
        let victim = match chance.next() % 3 {
            0 => Victim::start(place, &["drain"], None),
            _ => victim(place, &trips, None),
        };
        let status = trips.follow(victim, lines);
        assert!(was_killed(status) || status.success(), "{status}");
        killed += usize::from(was_killed(status));
        trips.check(place).await;
    }
    settle(place, &mut trips).await;
    eprintln!("{kills} kills: {}", trips.summary());
}

/// A step whose process was killed eight times fails: before that, all trips must complete without
/// kills.
const ENDS_IN_A_ROW: usize = 4;

/// Each point once at its first time and once later.
async fn end_at_every_point(place: &str) {
    let (chance, mut trips) = (chance(), Trips::default());
    let mut ends = 0;
    for point in COMMIT_POINTS.iter().chain(CRASH_POINTS) {
        // Only leftovers of a kill are claimed, and those are few.
        let claims = point.starts_with("claim");
        if !claims && ENDS_IN_A_ROW <= ends {
            settle(place, &mut trips).await;
            ends = 0;
        }
        ends += 2;
        let later = if claims { 2 } else { 50 };
        for nth in [1, 2 + chance.next() % later] {
            let at = format!("{point}:{nth}");
            let status = trips.follow(victim(place, &trips, Some(&at)), usize::MAX);
            assert!(was_killed(status), "point {at} was never reached ({status})");
            trips.check(place).await;
        }
    }
    settle(place, &mut trips).await;
    eprintln!("every point: {}", trips.summary());
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_killed_thirty_times_lose_nothing_and_end_once_on_sqlite() {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        kill_again_and_again(folder.path().to_str().unwrap(), 30).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_killed_ten_times_lose_nothing_and_end_once_on_postgres() {
    for _ in 0..soak() {
        kill_again_and_again(&postgres::schema().await, 10).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_whose_process_ends_at_every_point_end_once_on_sqlite() {
    for _ in 0..soak() {
        let folder = tempfile::tempdir().unwrap();
        end_at_every_point(folder.path().to_str().unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_whose_process_ends_at_every_point_end_once_on_postgres() {
    for _ in 0..soak() {
        end_at_every_point(&postgres::schema().await).await;
    }
}
