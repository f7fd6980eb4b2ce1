//! Random workflows: wherever the process crashes, the outcome is that of a run without a crash.

use std::time::Duration;

use steadfast_core::{
    App, Error, Result, Workflow,
    store::{EntityKind, Entropy, SeededEntropy},
    test::{TestApp, assert_survives_crashes},
    workflow::Status,
};

use crate::{
    lab::address_of,
    ledger::AUDIT,
    trip::{Do, Trip},
};

/// Longer than all waits of a run, except those that lose.
const ALL_OF_IT: Duration = Duration::from_hours(1);
const NEVER: u64 = 100 * 60 * 60;

/// Random operations, with this depth of branches at most.
fn things(chance: &SeededEntropy, depth: u32) -> Vec<Do> {
    (0..=chance.next() % 3).map(|_| thing(chance, depth)).collect()
}

fn thing(chance: &SeededEntropy, depth: u32) -> Do {
    let name = || format!("s{}", chance.next() % 3);
    match chance.next() % [7, 10, 11][depth as usize] {
        0 | 1 => Do::Step { name: name(), fails: (chance.next() % 3) as u32 },
        2 => Do::Refused { name: name() },
        3 => Do::Sleep { seconds: chance.next() % 20 },
        4 => Do::EventWithin { name: "never".into(), seconds: 1 + chance.next() % 20 },
        5 => Do::Send { number: (chance.next() % 1_000) as i64 },
        6 => Do::Say { percent: (chance.next() % 100) as u32 },
        7 => Do::Join { left: things(chance, depth - 1), right: things(chance, depth - 1) },
        8 => Do::Map { items: things(chance, depth - 1), limit: 1 + (chance.next() % 2) as usize },
        10 => Do::Event { name: "many".into() },
        // The winner must not depend on how long the process was down.
        _ => {
            let mut left = vec![Do::Sleep { seconds: NEVER }];
            left.extend(things(chance, depth - 1));
            Do::Select { left, right: things(chance, depth - 1) }
        }
    }
}

/// Its sent messages that still exist, in any order.
async fn sent(app: &TestApp) -> Result<Vec<String>> {
    let queue = address_of(EntityKind::Queue, AUDIT.name(), "0").id();
    let pending = app.store().pending(None, 0, 1_000).await?;
    let sent = pending.iter().filter(|it| it.target == Some(queue));
    let mut sent: Vec<String> = sent.map(|it| it.data.as_str().to_owned()).collect();
    sent.sort();
    Ok(sent)
}

/// Every entry is recorded once.
async fn assert_no_key_is_known_twice(app: &TestApp) -> Result<()> {
    let history = app.runs().history("trip", "one", 0, 10_000).await?;
    let known = history
        .iter()
        .filter(|it| ["done", "failed", "timer", "took"].contains(&it.entry.as_str()));
    let mut keys: Vec<String> = known.map(|it| it.fields["key"].to_string()).collect();
    keys.sort();
    let twice: Vec<_> = keys.windows(2).filter(|it| it[0] == it[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_process_ends_a_random_workflow_has_the_same_outcome() {
    let mut survived = 0;
    let seeds = std::env::var_os("STEADFAST_SOAK").map_or(36, |_| 600);
    for seed in 1..=seeds {
        let chance = SeededEntropy::new(seed);
        let input = things(&chance, 2);
        // As many events as it can take, at random times; all equal, because some are sent again
        // after a crash.
        let moments = [(); 3].map(|()| Duration::from_secs(chance.next() % 30));
        eprintln!("seed {seed}: {input:?}, events after {moments:?}");
        survived += assert_survives_crashes(
            || App::new("test").workflow(Trip::default()),
            async |app| {
                app.start(Trip::at("one"), input.clone()).await?;
                for moment in moments {
                    app.advance(moment).await;
                    let sent = app.runs().send_event("trip", "one", "many", &"event").await;
                    if let Err(error) = sent
                        && error.code() != "wrong_status"
                    {
                        return Err(error.into());
                    }
                }
                app.advance(ALL_OF_IT).await;
                let status = app.runs().status("trip", "one").await?;
                let Status::Complete(output) = status else {
                    return Err(Error::retryable(format!("{status:?}")));
                };
                assert_no_key_is_known_twice(app).await?;
                Ok((output, sent(app).await?))
            },
        )
        .await;
    }
    assert!(300 < survived, "{survived}");
}
