//! The whole of it: inputs, commands, results and timeouts, on a stage whose clock the test turns.

use std::{sync::Arc, time::Duration};

use steadfast_checkout::{
    FineRegistry, GroupCheckout, Hotel, TrafficFine,
    group_checkout::{Input, Output},
    traffic_fine,
};
use steadfast_core::{
    Failure,
    process::{Event, Execute, kit::Stage},
    store::{ManualClock, Timestamp},
};

fn initiate(guests: &[&str]) -> Input {
    Input::InitiateGroupCheckout {
        group_checkout_id: "g".into(),
        clerk_id: "c".into(),
        guest_stay_account_ids: guests.iter().map(ToString::to_string).collect(),
        now: 1,
    }
}

fn hotel() -> Hotel {
    Hotel::new(Arc::new(ManualClock::at(Timestamp(5))))
}

async fn published(stage: &Stage<GroupCheckout>) -> Option<Output> {
    let events = stage.events("g").await.expect("stream is read");
    assert_eq!(events.last(), Some(&Event::Completed));
    events.into_iter().rev().find_map(|event| {
        let Event::Published(output) = event else { return None };
        Some(output)
    })
}

#[tokio::test]
async fn a_group_whose_guests_have_all_paid_is_checked_out() {
    let stage = Stage::<GroupCheckout>::new(hotel()).await.expect("stage is set");
    stage.input(initiate(&["ann", "bob"])).await.expect("taken");
    let Some(Output::GroupCheckoutCompleted { completed_checkouts, .. }) = published(&stage).await
    else {
        panic!("not completed")
    };
    assert_eq!(completed_checkouts, ["ann", "bob"]);
}

#[tokio::test]
async fn a_group_with_one_who_has_not_paid_fails_with_the_right_names() {
    let stage = Stage::<GroupCheckout>::new(hotel().unpaid(["bob"])).await.expect("stage is set");
    stage.input(initiate(&["ann", "bob", "eve"])).await.expect("taken");
    let Some(Output::GroupCheckoutFailed { completed_checkouts, failed_checkouts, .. }) =
        published(&stage).await
    else {
        panic!("not failed")
    };
    assert_eq!(
        (completed_checkouts, failed_checkouts),
        (vec!["ann".to_owned(), "eve".into()], vec!["bob".to_owned()])
    );
}

/// A hotel whose desk for one guest never answers.
struct Asleep;

impl Execute<GroupCheckout> for Asleep {
    async fn execute(&self, output: Output, key: &str) -> Result<Option<Input>, Failure> {
        if matches!(&output, Output::CheckOut { guest_stay_account_id: it, .. } if it == "bob") {
            return Ok(None);
        }
        hotel().execute(output, key).await
    }
}

#[tokio::test]
async fn who_does_not_answer_is_listed_as_incomplete_when_time_is_out() {
    let stage = Stage::<GroupCheckout>::new(Asleep).await.expect("stage is set");
    stage.input(initiate(&["ann", "bob"])).await.expect("taken");
    stage.advance(Duration::from_mins(11)).await;
    let Some(Output::GroupCheckoutTimedOut { incomplete_checkouts, completed_checkouts, .. }) =
        published(&stage).await
    else {
        panic!("not timed out")
    };
    assert_eq!(
        (incomplete_checkouts, completed_checkouts),
        (vec!["bob".to_owned()], vec!["ann".to_owned()])
    );
}

#[tokio::test]
async fn a_speeding_fine_is_issued_with_the_sample_values() {
    let stage = Stage::<TrafficFine>::new(FineRegistry::default()).await.expect("stage is set");
    let report = "XG.96.L1.5000267/2023";
    let maximum_speed = "50km/h".into();
    let offense = traffic_fine::Offense::SpeedingViolation { maximum_speed };
    let police_report_id = report.to_owned();
    let input = traffic_fine::Input::PoliceReportPublished { police_report_id, offense };
    stage.input(input).await.expect("taken");
    let events = stage.events(report).await.expect("stream is read");
    let names: Vec<&str> = events
        .iter()
        .map(|event| match event {
            Event::Began => "Began",
            Event::InitiatedBy(_) => "InitiatedBy",
            Event::Received(_) => "Received",
            Event::Sent(_) => "Sent",
            Event::Completed => "Completed",
            Event::Replied(_) | Event::Published(_) | Event::Scheduled(..) => "another",
        })
        .collect();
    let expected =
        ["Began", "InitiatedBy", "Sent", "Received", "Sent", "Received", "Sent", "Completed"];
    assert_eq!(names, expected);
    assert!(format!("{events:?}").contains("PPXRG/23TV8457"));
    assert!(format!("{events:?}").contains("XMfhyM"));
}
