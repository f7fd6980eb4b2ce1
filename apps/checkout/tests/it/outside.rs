//! The hotel and the registry.

use std::{future::Future, pin::pin, sync::Arc, task::Context, time::Duration};

use steadfast_checkout::{FineRegistry, Hotel, group_checkout, traffic_fine};
use steadfast_core::{
    Failure,
    process::Execute,
    store::{Clock, ManualClock, MemoryStore, Store, Timestamp},
};

use crate::group::{LATER, check_out, initiated, left, stayed};

const REPORT: &str = "XG.96.L1.5000267/2023";

/// How long commands are kept that were given up.
const KEEP_DEAD: Duration = Duration::from_hours(90 * 24);

fn clock() -> ManualClock {
    ManualClock::at(Timestamp(LATER))
}

async fn ask(hotel: &Hotel, guest: &str) -> Result<Option<group_checkout::Input>, Failure> {
    hotel.execute(check_out(guest), "group-1/3").await
}

#[tokio::test]
async fn guests_who_have_paid_leave_and_others_do_not() {
    let hotel = Hotel::new(Arc::new(clock())).unpaid(["bob"]);
    assert_eq!(ask(&hotel, "ann").await, Ok(Some(left("ann"))));
    assert_eq!(hotel.execute(check_out("bob"), "group-1/4").await, Ok(Some(stayed("bob"))));
}

#[tokio::test]
async fn the_hotel_takes_its_time_by_the_clock_it_was_given() {
    let clock = clock();
    clock.set(Timestamp(LATER - 300));
    let hotel = Hotel::new(Arc::new(clock.clone())).taking(Duration::from_millis(300));
    let mut answer = pin!(ask(&hotel, "ann"));
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(answer.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_millis(299));
    assert!(answer.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_millis(1));
    assert_eq!(answer.await, Ok(Some(left("ann"))));
}

#[tokio::test]
async fn the_hotel_has_no_answer_to_what_is_only_said() {
    let hotel = Hotel::new(Arc::new(clock()));
    assert_eq!(hotel.execute(initiated(&["ann"]), "group-1/2").await, Ok(None));
}

async fn number_and_code(report: &str) -> (String, String) {
    let generate_number =
        traffic_fine::Output::GenerateTrafficFineSystemNumber { police_report_id: report.into() };
    let answer = FineRegistry::default().execute(generate_number, "1").await;
    let Ok(Some(traffic_fine::Input::TrafficFineSystemNumberGenerated { number, .. })) = answer
    else {
        panic!("{answer:?}");
    };
    let generate_code = traffic_fine::Output::GenerateTrafficFineManualIdentificationCode {
        police_report_id: report.into(),
        system_number: number.clone(),
    };
    let answer = FineRegistry::default().execute(generate_code, "2").await;
    let Ok(Some(traffic_fine::Input::TrafficFineManualIdentificationCodeGenerated {
        police_report_id,
        number: same_number,
        code,
    })) = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!((police_report_id.as_str(), &same_number), (report, &number));
    (number, code)
}

#[tokio::test]
async fn the_report_of_the_note_gets_the_number_and_the_code_of_the_note() {
    assert_eq!(number_and_code(REPORT).await, ("PPXRG/23TV8457".into(), "XMfhyM".into()));
}

#[tokio::test]
async fn a_report_always_gets_the_same_number_and_another_report_another() {
    let (number, code) = number_and_code("report-1").await;
    assert_eq!(number_and_code("report-1").await, (number.clone(), code.clone()));
    assert_eq!((number.len(), number.find('/'), code.len()), (14, Some(5), 6));
    let (other_number, other_code) = number_and_code("report-2").await;
    assert_ne!(other_number, number);
    assert_ne!(other_code, code);
}

#[tokio::test]
async fn nobody_answers_a_fine() {
    let issue = traffic_fine::Output::IssueTrafficFine {
        police_report_id: REPORT.into(),
        system_number: "n".into(),
        manual_identification_code: "c".into(),
    };
    assert_eq!(FineRegistry::default().execute(issue, "3").await, Ok(None));
}

fn registry_in(store: &Arc<dyn Store>) -> FineRegistry {
    let registry = FineRegistry::default();
    registry.answers().keep_in(store.clone(), KEEP_DEAD);
    registry
}

#[tokio::test]
async fn a_command_that_comes_again_gets_the_first_answer_also_after_a_restart() {
    let clock = clock();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let hotel = || {
        let hotel = Hotel::new(Arc::new(clock.clone()));
        hotel.answers().keep_in(store.clone(), KEEP_DEAD);
        hotel
    };
    assert_eq!(ask(&hotel(), "ann").await, Ok(Some(left("ann"))));
    clock.advance(Duration::from_secs(9));
    let again = hotel().unpaid(["ann"]);
    assert_eq!(ask(&again, "ann").await, Ok(Some(left("ann"))), "she has left, and when");
    let issue = || traffic_fine::Output::IssueTrafficFine {
        police_report_id: REPORT.into(),
        system_number: "n".into(),
        manual_identification_code: "c".into(),
    };
    let registry = registry_in(&store);
    for _ in 0..3 {
        assert_eq!(registry.execute(issue(), "fine-1/7").await, Ok(None));
    }
    let reopened = registry_in(&store);
    assert_eq!(reopened.execute(issue(), "fine-1/7").await, Ok(None));
    assert_eq!((registry.letters(), reopened.letters()), (1, 0), "one letter for one command");
    assert_eq!(reopened.execute(issue(), "fine-2/7").await, Ok(None));
    assert_eq!(reopened.letters(), 1);
}

#[tokio::test]
async fn an_answer_is_there_for_as_long_as_its_command_may_be_sent_again() {
    let clock = clock();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
    let registry = registry_in(&store);
    let issue = || traffic_fine::Output::IssueTrafficFine {
        police_report_id: REPORT.into(),
        system_number: "n".into(),
        manual_identification_code: "c".into(),
    };
    assert_eq!(registry.execute(issue(), "fine-1/7").await, Ok(None));
    // It is given up, and sent again on the last day; and that again.
    for _ in 0..3 {
        clock.advance(KEEP_DEAD);
        assert_eq!(store.expired_entries(clock.now(), 9).await.unwrap(), [], "nothing may go");
        assert_eq!(registry.execute(issue(), "fine-1/7").await, Ok(None));
    }
    assert_eq!(registry.letters(), 1, "one letter for one command");
    clock.advance(KEEP_DEAD * 2);
    assert_eq!(store.expired_entries(clock.now(), 9).await.unwrap().len(), 1, "nor stays for ever");
}
