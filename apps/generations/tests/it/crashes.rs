//! An end of the process before and after every commit, from the request to the library.

use steadfast::{Object, test::assert_survives_crashes};
use steadfast_generations::{DEFAULT_WORKSPACE, GenerationManager, GetGeneration, Library};

use crate::stage::{Fake, ID, program, request};

#[tokio::test]
async fn no_end_of_the_process_pays_twice_or_loses_or_doubles_an_artifact() {
    for prompt in ["now", "lost"] {
        let fake = Fake::new();
        let survived = assert_survives_crashes(
            || program(&fake),
            async |app| {
                app.call(GenerationManager::at(ID), request(prompt, 2)).await?;
                app.advance(std::time::Duration::from_secs(120)).await;
                let ask = GetGeneration { id: ID.into() };
                let kept = app.call(Library::at(DEFAULT_WORKSPACE), ask).await?;
                let kept = kept.expect("it is in the library");
                Ok((kept.status, kept.counts, kept.artifacts.len()))
            },
        );
        assert!(10 < survived.await);
    }
}
