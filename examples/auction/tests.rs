//! The auction house in memory, with a virtual clock.

use steadfast::{bucket::ListOptions, test::TestApp};

use super::*;

/// An auction of five minutes with a bid of 900 cents.
async fn house() -> Result<TestApp> {
    let app = app()?.test().await?;
    let open = Open { title: "Clock".into(), seller: "sue".into(), minutes: 5 };
    app.call(Auction::at("7"), open).await?;
    bid(&app, "ann", 900).await?;
    Ok(app)
}

async fn bid(app: &TestApp, bidder: &str, cents: u64) -> Result<(), CallError> {
    app.call(Auction::at("7"), Bid { bidder: bidder.into(), cents }).await
}

async fn state(app: &TestApp) -> Result<String> {
    Ok(app.call(Auction::at("7"), Look).await?.state)
}

async fn last_mail(app: &TestApp, to: &str) -> Result<String> {
    app.settle().await;
    let list = ListOptions { prefix: format!("{to}/"), ..ListOptions::default() };
    let files = app.bucket(OUTBOX).list(&list).await?.blobs;
    let file = files.last().map_or("", |it| it.key.as_str());
    Ok(String::from_utf8(app.bucket(OUTBOX).get(file).await?.unwrap_or_default())?)
}

#[tokio::test]
async fn a_late_bid_extends_the_auction_and_notifies_the_outbid_bidder() -> Result<()> {
    let app = house().await?;
    assert_eq!(bid(&app, "bob", 900).await.unwrap_err().code(), "bid_too_low");
    app.advance(Duration::from_mins(4)).await;
    bid(&app, "bob", 1_000).await?;
    assert_eq!(last_mail(&app, "ann").await?, "outbid on Clock");
    app.advance(Duration::from_secs(119)).await;
    assert_eq!(state(&app).await?, "open", "it ends two minutes after the late bid");
    app.advance(Duration::from_secs(1)).await;
    assert_eq!(state(&app).await?, "settling");
    assert_eq!(bid(&app, "ann", 2_000).await.unwrap_err().code(), "auction_over");
    Ok(())
}

#[tokio::test]
async fn a_payment_settles_the_sale_and_the_report_is_mailed_at_midnight() -> Result<()> {
    let app = house().await?;
    app.advance(Duration::from_mins(5)).await;
    assert_eq!(last_mail(&app, "ann").await?, "Clock is yours, please pay invoice-7");
    app.run(Settlement::at("7")).send(PAYMENT, "R-1".into()).await?;
    assert_eq!(last_mail(&app, "sue").await?, "Clock is paid with R-1");
    assert_eq!(state(&app).await?, "sold");
    app.advance(Duration::from_hours(24)).await;
    assert_eq!(last_mail(&app, "house").await?, "1 sold, 900 cents");
    Ok(())
}

#[tokio::test]
async fn a_sale_without_payment_within_three_days_ends() -> Result<()> {
    let app = house().await?;
    app.advance(Duration::from_mins(5) + PAYMENT_TIME).await;
    assert_eq!(last_mail(&app, "sue").await?, "Clock is not paid");
    assert_eq!(state(&app).await?, "unpaid");
    Ok(())
}

#[tokio::test]
async fn a_photo_in_the_bucket_is_part_of_its_auction() -> Result<()> {
    let app = house().await?;
    app.bucket(PHOTOS).put("7/front.jpg", "bytes").await?;
    app.settle().await;
    assert!(app.call(Auction::at("7"), Look).await?.photos.contains("7/front.jpg"));
    Ok(())
}
