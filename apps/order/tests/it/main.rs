//! The workflows in a whole program, on a store in memory, with a clock that the test turns.

use std::time::Duration;

use steadfast_core::{
    App, Error, Object, Result, Workflow,
    test::{TestApp, assert_survives_crashes},
    workflow::Status,
};
use steadfast_order::{
    Inventory, Invoice, InvoiceInput, InvoiceOutput, Order, OrderInput, OrderOutput, Outcome,
    Payment, Reminder, ReminderInput, Reserved,
};

fn program() -> steadfast_core::App {
    App::new("test").object(Inventory).workflow(Invoice).workflow(Order).workflow(Reminder)
}

async fn start(app: &TestApp, id: &str) -> Result<()> {
    let input = OrderInput { order_id: id.into(), amount: 500 };
    app.start(Order::at(id), input).await?;
    Ok(())
}

/// Runs an invoice over these amounts, and returns its final status.
async fn invoice(app: &TestApp, amounts: &[i64]) -> Result<Status> {
    let input = InvoiceInput { customer: "Ada".into(), amounts: amounts.into() };
    app.start(Invoice::at("i-1"), input).await?;
    app.settle().await;
    Ok(app.runs().status("invoice", "i-1").await?)
}

async fn output(app: &TestApp, id: &str) -> Result<OrderOutput> {
    let status = app.runs().status("order", id).await?;
    let Status::Complete(output) = status else {
        return Err(Error::retryable(format!("{status:?}")));
    };
    Ok(serde_json::from_value(output)?)
}

async fn reserved(app: &TestApp) -> Result<Vec<String>> {
    Ok(app.call(Inventory::at("main"), Reserved {}).await?)
}

#[tokio::test]
async fn an_order_that_is_paid_is_shipped() -> Result<()> {
    let app = program().test().await?;
    start(&app, "o-1").await?;
    app.advance(Duration::from_secs(14 * 60)).await;
    assert_eq!(app.runs().status("order", "o-1").await?, Status::Waiting);
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
    app.start(Reminder::at("r"), input).await?;
    app.advance(Duration::from_hours(30 * 24 - 1)).await;
    assert_eq!(app.runs().status("reminder", "r").await?, Status::Waiting);
    app.advance(Duration::from_hours(1)).await;
    let status = app.runs().status("reminder", "r").await?;
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

#[tokio::test]
async fn an_invoice_has_a_number_a_total_and_a_letter() -> Result<()> {
    let app = program().test().await?;
    let Status::Complete(output) = invoice(&app, &[1_200, 800, -500]).await? else {
        panic!("it is not complete");
    };
    let (number, letter) = ("I-i-1".into(), "Ada owes 1500".into());
    let expected = InvoiceOutput { number, total: 1_500, letter };
    assert_eq!(serde_json::from_value::<InvoiceOutput>(output)?, expected);
    Ok(())
}

#[tokio::test]
async fn an_invoice_whose_total_is_too_large_fails_and_is_not_tried_again() -> Result<()> {
    let app = program().test().await?;
    let Status::Errored(error) = invoice(&app, &[i64::MAX, 1]).await? else {
        panic!("it is not errored");
    };
    assert_eq!(error.code(), "too_large");
    let view = app.runs().look("invoice", "i-1").await?;
    let tried: Vec<_> = view.steps.iter().map(|it| (&*it.name, it.attempts.len())).collect();
    assert_eq!(tried, [("number", 1), ("total", 1)]);
    Ok(())
}

#[tokio::test]
async fn wherever_the_process_ends_an_invoice_is_written_and_the_same() {
    let survived = assert_survives_crashes(program, async |app| invoice(app, &[1_200, 800]).await);
    assert!(2 <= survived.await);
}
