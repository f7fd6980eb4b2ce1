//! Workflows by chance: wherever the process ends, the outcome is that of a run without an end.

use std::time::Duration;

use steadfast::{
    Error, Runtime, Workflow,
    store::{Entropy, SeededEntropy},
    test::assert_survives_crashes,
    workflow::Status,
};

use crate::trip::{Do, Trip};

/// Longer than everything that a run waits for, but for what loses.
const ALL_OF_IT: Duration = Duration::from_hours(1);
const NEVER: u64 = 100 * 60 * 60;

/// Things to do, with branches so deep at most.
fn things(chance: &SeededEntropy, depth: u32) -> Vec<Do> {
    (0..=chance.next() % 3).map(|_| thing(chance, depth)).collect()
}

fn thing(chance: &SeededEntropy, depth: u32) -> Do {
    let name = || format!("s{}", chance.next() % 3);
    match chance.next() % [5, 8, 9][depth as usize] {
        0 | 1 => Do::Step { name: name(), fails: 0 },
        2 => Do::Refused { name: name() },
        3 => Do::Sleep { seconds: chance.next() % 20 },
        4 => Do::EventWithin { name: "never".into(), seconds: 1 + chance.next() % 20 },
        5 => Do::Join { left: things(chance, depth - 1), right: things(chance, depth - 1) },
        6 => Do::Map { items: things(chance, depth - 1), limit: 1 + (chance.next() % 2) as usize },
        8 => Do::Event { name: "many".into() },
        // Which one is first must not depend on how long the process was away.
        _ => {
            let mut left = vec![Do::Sleep { seconds: NEVER }];
            left.extend(things(chance, depth - 1));
            Do::Select { left, right: things(chance, depth - 1) }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_the_process_ends_a_workflow_by_chance_ends_as_it_would_have() {
    let mut survived = 0;
    for seed in 1..=16 {
        let input = things(&SeededEntropy::new(seed), 2);
        eprintln!("seed {seed}: {input:?}");
        survived += assert_survives_crashes(
            || Runtime::builder().workflow(Trip::default()),
            async |app| {
                app.start(&Trip::at("one"), &input).await?;
                // As many as it can take; each the same, because some are sent again after an end.
                for _ in 0..3 {
                    let sent = app.runs().send_event("trip", "one", "many", &"event").await;
                    if let Err(error) = sent
                        && error.code() != "wrong_status"
                    {
                        return Err(error.into());
                    }
                }
                app.advance(ALL_OF_IT).await;
                let status = app.runs().run("trip", "one").await?.status;
                let Status::Complete(output) = status else {
                    return Err(Error::retryable(format!("{status:?}")));
                };
                Ok(output)
            },
        )
        .await;
    }
    assert!(300 < survived, "{survived}");
}
