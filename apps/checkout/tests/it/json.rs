//! Messages and states as they are written.

use std::fmt::Debug;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use steadfast_checkout::{
    group_checkout::{self, Guests, Reason, Rejection, State, Status},
    traffic_fine::{self, Offense},
};

use crate::group::{LATER, NOW, TOO_LATE, check_out, initiate, initiated, left, stayed, timeout};

/// It is written so, and read back as it was.
#[track_caller]
fn written<T: Serialize + DeserializeOwned + PartialEq + Debug>(it: T, as_json: Value) {
    assert_eq!(serde_json::to_value(&it).expect("it can be written"), as_json);
    assert_eq!(serde_json::from_value::<T>(as_json).expect("it can be read"), it);
}

#[test]
fn inputs_of_a_group_checkout_are_type_and_data_in_camel_case() {
    written(
        initiate(&["ann", "bob"]),
        json!({"type": "InitiateGroupCheckout", "data": {
            "groupCheckoutId": "group-1", "clerkId": "clerk-1",
            "guestStayAccountIds": ["ann", "bob"], "now": NOW}}),
    );
    written(
        left("ann"),
        json!({"type": "GuestCheckedOut", "data": {
            "guestStayAccountId": "ann", "checkedOutAt": LATER, "groupCheckoutId": "group-1"}}),
    );
    written(
        stayed("ann"),
        json!({"type": "GuestCheckoutFailed", "data": {
            "guestStayAccountId": "ann", "reason": "BalanceNotSettled", "failedAt": LATER,
            "groupCheckoutId": "group-1"}}),
    );
    written(
        timeout(),
        json!({"type": "TimeoutGroupCheckout", "data": {
            "groupCheckoutId": "group-1", "startedAt": NOW, "timeOutAt": TOO_LATE}}),
    );
}

#[test]
fn a_guest_without_a_group_has_no_group_field() {
    written(
        group_checkout::Input::GuestCheckedOut {
            guest_stay_account_id: "ann".into(),
            checked_out_at: LATER,
            group_checkout_id: None,
        },
        json!({"type": "GuestCheckedOut", "data": {
            "guestStayAccountId": "ann", "checkedOutAt": LATER}}),
    );
    written(
        group_checkout::Input::GuestCheckoutFailed {
            guest_stay_account_id: "ann".into(),
            reason: Reason::NotCheckedIn,
            failed_at: LATER,
            group_checkout_id: None,
        },
        json!({"type": "GuestCheckoutFailed", "data": {
            "guestStayAccountId": "ann", "reason": "NotCheckedIn", "failedAt": LATER}}),
    );
}

#[test]
fn outputs_of_a_group_checkout_are_type_and_data_in_camel_case() {
    written(
        initiated(&["ann"]),
        json!({"type": "GroupCheckoutInitiated", "data": {
            "groupCheckoutId": "group-1", "clerkId": "clerk-1",
            "guestStayAccountIds": ["ann"], "initiatedAt": NOW}}),
    );
    written(
        check_out("ann"),
        json!({"type": "CheckOut", "data": {
            "guestStayAccountId": "ann", "groupCheckoutId": "group-1"}}),
    );
    written(
        group_checkout::Output::GroupCheckoutRejected {
            group_checkout_id: "group-1".into(),
            reason: Rejection::NoGuestStays,
            rejected_at: NOW,
        },
        json!({"type": "GroupCheckoutRejected", "data": {
            "groupCheckoutId": "group-1", "reason": "NoGuestStays", "rejectedAt": NOW}}),
    );
    written(
        group_checkout::Output::GroupCheckoutTimedOut {
            group_checkout_id: "group-1".into(),
            incomplete_checkouts: vec!["ann".into()],
            completed_checkouts: vec![],
            failed_checkouts: vec!["bob".into()],
            timed_out_at: TOO_LATE,
        },
        json!({"type": "GroupCheckoutTimedOut", "data": {
            "groupCheckoutId": "group-1", "incompleteCheckouts": ["ann"],
            "completedCheckouts": [], "failedCheckouts": ["bob"], "timedOutAt": TOO_LATE}}),
    );
}

#[test]
fn a_state_is_read_back_from_a_snapshot() {
    written(State::NotExisting, json!("NotExisting"));
    let guests = Guests::pending(&["bob".into(), "ann".into()]).close("ann", Status::Failed);
    written(
        State::Pending(guests),
        json!({"Pending": [
            {"id": "bob", "status": "Pending"}, {"id": "ann", "status": "Failed"}]}),
    );
    written(State::Finished, json!("Finished"));
}

#[test]
fn police_reports_are_written_as_the_police_write_them() {
    written(
        traffic_fine::Input::PoliceReportPublished {
            police_report_id: "XG.96.L1.5000267/2023".into(),
            offense: Offense::SpeedingViolation { maximum_speed: "50km/h".into() },
        },
        json!({"type": "PoliceReportPublished", "data": {
            "policeReportId": "XG.96.L1.5000267/2023",
            "offense": {"speedingViolation": {"maximumSpeed": "50km/h"}}}}),
    );
    written(
        traffic_fine::Input::PoliceReportPublished {
            police_report_id: "XG.96.L1.5000267/2023".into(),
            offense: Offense::ParkingViolation,
        },
        json!({"type": "PoliceReportPublished", "data": {
            "policeReportId": "XG.96.L1.5000267/2023", "offense": "parkingViolation"}}),
    );
}

#[test]
fn numbers_and_codes_are_type_and_data_in_camel_case() {
    written(
        traffic_fine::Input::TrafficFineManualIdentificationCodeGenerated {
            police_report_id: "r".into(),
            number: "n".into(),
            code: "c".into(),
        },
        json!({"type": "TrafficFineManualIdentificationCodeGenerated", "data": {
            "policeReportId": "r", "number": "n", "code": "c"}}),
    );
    written(
        traffic_fine::Output::IssueTrafficFine {
            police_report_id: "r".into(),
            system_number: "n".into(),
            manual_identification_code: "c".into(),
        },
        json!({"type": "IssueTrafficFine", "data": {
            "policeReportId": "r", "systemNumber": "n", "manualIdentificationCode": "c"}}),
    );
}
