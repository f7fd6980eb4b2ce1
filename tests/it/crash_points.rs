//! The process is killed at each named point, once early and once later; the test fails when a
//! point is never reached.

use steadfast_core::{CRASH_POINTS, store::crash::COMMIT_POINTS};

use crate::{
    killer::{Ledger, Victim, was_killed},
    postgres,
};

async fn end_at_every_point(place: &str) {
    let mut ledger = Ledger::default();
    for point in COMMIT_POINTS.iter().chain(CRASH_POINTS) {
        for nth in [1, 23] {
            let at = format!("{point}:{nth}");
            let first = ledger.next_key().to_string();
            let mut victim = Victim::start(place, &["load", &first], Some(&at));
            while let Some(line) = victim.line() {
                ledger.note(&line);
            }
            let status = victim.wait();
            assert!(was_killed(status), "point {at} was never reached ({status})");
        }
    }
    ledger.settle(place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_every_point_of_commit_claim_execute_and_settle_loses_nothing_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    end_at_every_point(folder.path().to_str().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_every_point_of_commit_claim_execute_and_settle_loses_nothing_on_postgres() {
    end_at_every_point(&postgres::schema().await).await;
}
