//! kill -9 under mixed load, repeatedly on the same data.

use steadfast_core::store::Entropy;

use crate::{
    killer::{Ledger, Victim, chance, soak},
    postgres::{self, Cluster},
};

async fn kill_again_and_again(place: &str, kills: usize, is_unsteady: bool) {
    let (chance, mut ledger) = (chance(), Ledger::default());
    for _ in 0..kills {
        let key = ledger.next_key().to_string();
        let victim = match is_unsteady {
            true => Victim::unsteady(place, &["load", &key], chance.next()),
            false => Victim::start(place, &["load", &key], None),
        };
        let enough = ledger.acked() + (chance.next() % 60) as usize;
        ledger.follow(victim, |ledger| enough <= ledger.acked());
    }
    assert!(0 < ledger.acked());
    ledger.settle(place).await;
    eprintln!("{kills} kills, {} acknowledged, none lost", ledger.acked());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_fifty_kills_nothing_acknowledged_is_lost_and_nothing_is_made_up_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path().to_str().unwrap(), 50 * soak(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_fifteen_kills_nothing_acknowledged_is_lost_and_nothing_is_made_up_on_postgres() {
    kill_again_and_again(&postgres::schema().await, 15 * soak(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_under_a_clock_that_is_set_ahead_and_back_lose_nothing_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(folder.path().to_str().unwrap(), 20 * soak(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_under_a_clock_that_is_set_ahead_and_back_lose_nothing_on_postgres() {
    kill_again_and_again(&postgres::schema().await, 8 * soak(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_server_that_is_killed_under_load_loses_nothing_and_the_node_continues() {
    let cluster = Cluster::start();
    let mut ledger = Ledger::default();
    for _ in 0..soak() {
        let key = ledger.next_key().to_string();
        let mut victim = Victim::start(&cluster.url, &["load", &key], None);
        for _ in 0..5 {
            // Let it write for a while, then kill its database.
            let enough = ledger.acked() + 100;
            while ledger.acked() < enough {
                let line = victim.line().expect("the victim survives its database");
                ledger.note(&line);
            }
            cluster.kill_and_restart();
        }
        let enough = ledger.acked() + 100;
        ledger.follow(victim, |ledger| enough <= ledger.acked());
    }
    ledger.settle(&cluster.url).await;
}
