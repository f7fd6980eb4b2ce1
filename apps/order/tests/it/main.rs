//! The workflows in a whole program, on a store in memory, with a clock that the test turns.

use std::time::Duration;

use steadfast::{
    Error, Object, Result, Runtime, Workflow,
    test::{App, assert_survives_crashes},
    workflow::Status,
};
use steadfast_order::{
    Inventory, Order, OrderInput, OrderOutput, Outcome, Payment, Reminder, ReminderInput, Reserved,
};

fn program() -> steadfast::Builder {
    Runtime::builder().object(Inventory).workflow(Order).workflow(Reminder)
}

async fn start(app: &App, id: &str) -> Result<()> {
    let input = OrderInput { order_id: id.into(), amount: 500 };
    app.start(&Order::at(id), &input).await?;
    Ok(())
}

async fn output(app: &App, id: &str) -> Result<OrderOutput> {
    let status = app.runs().run("order", id).await?.status;
    let Status::Complete(output) = status else {
        return Err(Error::retryable(format!("{status:?}")));
    };
    Ok(serde_json::from_value(output)?)
}

async fn reserved(app: &App) -> Result<Vec<String>> {
    Ok(app.call(Inventory::at("main"), Reserved {}).await?)
}

#[tokio::test]
async fn an_order_that_is_paid_is_shipped() -> Result<()> {
    let app = program().test().await?;
    start(&app, "o-1").await?;
    app.advance(Duration::from_secs(14 * 60)).await;
    assert_eq!(app.runs().run("order", "o-1").await?.status, Status::Waiting);
    assert_eq!(reserved(&app).await?, ["o-1"]);
    app.runs().send_event("order", "o-1", "payment", &Payment { amount: 500 }).await?;
    app.settle().await;
    let shipped = output(&app, "o-1").await?;
    assert_eq!((shipped.outcome, shipped.tracking.as_deref()), (Outcome::Shipped, Some("T-o-1")));
    Ok(())
}

#[tokio::test]
async fn an_order_that_is_not_paid_in_time_or_not_enough_gives_its_goods_back() -> Result<()> {
    let app = program().test().await?;
    start(&app, "late").await?;
    start(&app, "short").await?;
    app.runs().send_event("order", "short", "payment", &Payment { amount: 499 }).await?;
    app.advance(Duration::from_secs(15 * 60)).await;
    for id in ["late", "short"] {
        assert_eq!(output(&app, id).await?.outcome, Outcome::Released);
    }
    assert_eq!(reserved(&app).await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_reminder_comes_after_a_month_and_not_before() -> Result<()> {
    let app = program().test().await?;
    let input = ReminderInput { text: "water the plants".into() };
    app.start(&Reminder::at("r"), &input).await?;
    app.advance(Duration::from_hours(30 * 24 - 1)).await;
    assert_eq!(app.runs().run("reminder", "r").await?.status, Status::Waiting);
    app.advance(Duration::from_hours(1)).await;
    let status = app.runs().run("reminder", "r").await?.status;
    assert_eq!(status, Status::Complete("Remember: water the plants".into()));
    Ok(())
}

#[tokio::test]
async fn wherever_the_process_ends_goods_are_reserved_once_and_given_back_once() {
    let survived = assert_survives_crashes(program, async |app| {
        start(app, "o-1").await?;
        app.advance(Duration::from_secs(20 * 60)).await;
        Ok((output(app, "o-1").await?, reserved(app).await?))
    });
    assert!(10 <= survived.await);
}
