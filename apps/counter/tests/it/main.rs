//! The counter in a whole program, on a store in memory.

use steadfast_core::{App, Object, Result, test::assert_survives_crashes};
use steadfast_counter::{Counter, Increment, Read};

#[tokio::test]
async fn each_counter_counts_for_itself() -> Result<()> {
    let app = App::new("test").object(Counter).test().await?;
    assert_eq!(app.call(Counter::at("a"), Increment { by: 2 }).await?, 2);
    assert_eq!(app.call(Counter::at("a"), Increment { by: -5 }).await?, -3);
    assert_eq!(app.call(Counter::at("b"), Increment { by: 1 }).await?, 1);
    assert_eq!(app.call(Counter::at("a"), Read {}).await?, -3);
    assert_eq!(app.call(Counter::at("c"), Read {}).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_step_too_far_is_refused_and_changes_nothing() -> Result<()> {
    let app = App::new("test").object(Counter).test().await?;
    app.call(Counter::at("a"), Increment { by: i64::MAX }).await?;
    let refused = app.call(Counter::at("a"), Increment { by: 1 }).await.unwrap_err();
    assert_eq!((refused.code(), refused.is_retryable()), ("out_of_range", false));
    assert_eq!(app.call(Counter::at("a"), Read {}).await?, i64::MAX);
    Ok(())
}

#[tokio::test]
async fn a_repeated_step_counts_once_whenever_the_process_ends() {
    let survived = assert_survives_crashes(
        || App::new("test").object(Counter),
        async |app| {
            let counter = || Counter::at("a");
            app.call(counter(), Increment { by: 2 }).key("k-1").await?;
            app.call(counter(), Increment { by: 3 }).key("k-2").await?;
            Ok(app.call(counter(), Read {}).await?)
        },
    );
    // Before and after each commit: the name of the program, and two steps.
    assert_eq!(survived.await, 6);
}
