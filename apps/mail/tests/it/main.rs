//! Mail in a whole program, on a store in memory, with a clock that the test turns.

use std::time::Duration;

use steadfast_core::{
    App, Object, Result,
    queue::{PeekState, QueueMessageView, Redrive},
    test::{TestApp, assert_survives_crashes},
};
use steadfast_mail::{
    Counting, DEAD_MAIL, Letters, MAIL, Mail, Mailbox, OPENS, Opened, Postman, Tally, Total,
};

fn program() -> App {
    App::new("test")
        .object(Mailbox)
        .object(Tally)
        .queue(MAIL.dead_letters(DEAD_MAIL))
        .queue(DEAD_MAIL)
        .consume(MAIL, Postman)
        .consume_batches(OPENS, Counting)
}

fn mail(to: &str) -> Mail {
    Mail { to: to.into(), subject: "Hello".into() }
}

async fn subjects(app: &TestApp, address: &str) -> Result<Vec<String>> {
    let letters = app.call(Mailbox::at(address), Letters {}).await?;
    Ok(letters.into_iter().map(|it| it.subject).collect())
}

async fn dead(app: &TestApp) -> Result<Vec<QueueMessageView>> {
    Ok(app.queues().peek("mail-dead", PeekState::Pending, None, 10).await?)
}

#[tokio::test]
async fn mail_is_in_the_mailbox_of_its_address() -> Result<()> {
    let app = program().test().await?;
    let id = app.queues().send(MAIL, &mail("ada@example.org")).await?;
    app.queues().send(MAIL, &mail("grace@example.org")).await?;
    app.settle().await;
    let letters = app.call(Mailbox::at("ada@example.org"), Letters {}).await?;
    assert_eq!((letters.len(), &letters[0].id), (1, &id.to_string()));
    assert_eq!(subjects(&app, "grace@example.org").await?, ["Hello"]);
    assert_eq!(app.queues().show("mail").await?.depth, 0);
    Ok(())
}

#[tokio::test]
async fn what_is_no_address_is_given_up_at_once_with_the_reason() -> Result<()> {
    let app = program().test().await?;
    app.queues().send(MAIL, &mail("nobody")).await?;
    app.settle().await;
    let dead = dead(&app).await?;
    assert_eq!((dead.len(), dead[0].attempts_before), (1, 1));
    assert_eq!(dead[0].from.as_deref(), Some("mail"));
    let why = dead[0].last_error.as_deref().unwrap_or_default();
    assert!(why.contains("`nobody` is no address"), "{why}");
    Ok(())
}

#[tokio::test]
async fn a_host_that_is_down_is_tried_again_then_given_up_and_can_be_mended() -> Result<()> {
    let app = program().test().await?;
    let id = app.queues().send(MAIL, &mail("x@down.example")).await?;
    app.settle().await;
    assert_eq!(dead(&app).await?.len(), 0, "it is tried again first");
    app.advance(Duration::from_mins(5)).await;
    let given_up = dead(&app).await?;
    assert_eq!((given_up.len(), given_up[0].attempts_before), (1, 4));
    let body = steadfast_core::store::Json::of(&mail("x@up.example"))?;
    app.queues().edit("mail-dead", id, body, None).await?;
    app.settle().await;
    assert_eq!(subjects(&app, "x@up.example").await?, ["Hello"]);
    let redriven = app.queues().redrive("mail-dead", &Redrive::default()).await?;
    assert_eq!(redriven.matched, 0, "nothing is left");
    Ok(())
}

#[tokio::test]
async fn wherever_the_process_ends_the_mail_is_in_the_mailbox_once() {
    let survived = assert_survives_crashes(program, async |app| {
        let body = steadfast_core::store::Json::of(&mail("ada@example.org"))?;
        let one = steadfast_core::queue::Outgoing { body, delay: Duration::ZERO };
        app.queues().send_json("mail", vec![one], Some("k-1")).await?;
        app.advance(Duration::from_mins(10)).await;
        subjects(app, "ada@example.org").await
    });
    assert!(4 <= survived.await);
}

#[tokio::test]
async fn what_was_opened_is_counted_in_batches() -> Result<()> {
    let app = program().test().await?;
    let opened: Vec<Opened> = (0..25).map(|it| Opened { id: it.to_string() }).collect();
    app.queues().send_all(OPENS, &opened).await?;
    app.settle().await;
    assert_eq!(app.call(Tally::at("opens"), Total {}).await?, 20, "two full batches of ten");
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(app.call(Tally::at("opens"), Total {}).await?, 25, "and what waited for company");
    Ok(())
}
