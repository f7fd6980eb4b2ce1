//! An end of the process before and after every commit, from the request to the library.

use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast_core::{Object, test::assert_survives_crashes};
use steadfast_generations::{DEFAULT_WORKSPACE, GenerationManager, GetGeneration, Library};

use crate::stage::{Books, Fake, ID, program, request};

#[tokio::test]
async fn no_end_of_the_process_pays_twice_or_loses_or_doubles_an_artifact() {
    for prompt in ["now", "lost"] {
        let (fake, processes) = (Fake::new(), AtomicUsize::new(0));
        let survived = assert_survives_crashes(
            || {
                // One process without a fault, then two in each game. A game has a provider that
                // knows nothing of the games before.
                if processes.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
                    *fake.books() = Books::default();
                }
                program(&fake)
            },
            async |app| {
                app.call(GenerationManager::at(ID), request(prompt, 2)).await?;
                app.advance(std::time::Duration::from_secs(120)).await;
                let ask = GetGeneration { id: ID.into() };
                let kept = app.call(Library::at(DEFAULT_WORKSPACE), ask).await?;
                let kept = kept.expect("it is in the library");
                // A task that was never asked for counts as well as one that was paid twice.
                let paid: Vec<u32> = fake.books().paid.values().copied().collect();
                Ok((kept.status, kept.counts, kept.artifacts.len(), paid))
            },
        );
        assert!(10 < survived.await);
        fake.assert_fair();
    }
}
