//! Random histories of one name, with events that come twice, late and in any order: in the end the
//! row is what the bucket holds.

use std::{sync::atomic::Ordering, time::Duration};

use steadfast::{
    BlobEvent,
    store::{Entropy, SeededEntropy},
};
use steadfast_uploads::{Status, UPLOADS};

use crate::stage::{ACME, Fake, delete, delete_event, deliver, put, put_event, row, start};

const SEEDS: u64 = 150;
const NAME: &str = "pet.png";

#[tokio::test]
async fn after_any_history_the_row_is_what_the_bucket_holds() {
    for seed in 0..SEEDS {
        one(seed).await;
    }
}

async fn one(seed: u64) {
    let chance = SeededEntropy::new(seed);
    let below = |limit: usize| (chance.next() % limit as u64) as usize;
    let fake = Fake::default();
    let app = start(&fake, false).await;
    let mut late: Vec<BlobEvent> = Vec::new();
    for _ in 0..3 + below(8) {
        match below(6) {
            0..=3 => {
                // "later" is classified only when the model is there.
                let bytes = ["cat", "dog", "later"][below(3)];
                late.push(put_event(&put(&app, NAME, bytes).await));
            }
            _ => {
                if app.bucket(UPLOADS).head(&format!("{ACME}/{NAME}")).await.unwrap().is_some() {
                    late.push(delete_event(NAME, delete(&app, NAME).await));
                }
            }
        }
        // Some of what is on its way arrives: any of it, once or twice.
        while !late.is_empty() && below(3) == 0 {
            let at = below(late.len());
            let event = if below(3) == 0 { late[at].clone() } else { late.swap_remove(at) };
            deliver(&app, &event).await;
            if below(2) == 0 {
                app.settle().await;
            }
        }
        if below(4) == 0 {
            fake.is_ready.store(below(2) == 0, Ordering::SeqCst);
            app.advance(Duration::from_secs(below(20) as u64)).await;
        }
    }
    while !late.is_empty() {
        let event = late.swap_remove(below(late.len()));
        deliver(&app, &event).await;
    }
    fake.is_ready.store(true, Ordering::SeqCst);
    app.advance(Duration::from_mins(1)).await;
    let blob = app.bucket(UPLOADS).head(&format!("{ACME}/{NAME}")).await.unwrap();
    let shown = row(&app, NAME).await;
    let bucket = blob.as_ref().map(|it| (it.version(), it.sequence));
    assert_eq!(shown.as_ref().map(|it| (it.version.clone(), it.sequence)), bucket, "seed {seed}");
    if let Some(shown) = shown {
        let bytes = app.bucket(UPLOADS).get(&format!("{ACME}/{NAME}")).await.unwrap().unwrap();
        let label = String::from_utf8(bytes).unwrap().to_uppercase();
        assert_eq!(
            (shown.status, shown.classification_label),
            (Status::Classified, Some(label)),
            "seed {seed}"
        );
    }
}
