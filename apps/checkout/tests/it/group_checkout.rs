//! The decisions of a group checkout.

use steadfast_checkout::group_checkout::{
    GroupCheckout, Input, Output, Rejection, State, Status, TIMEOUT,
};
use steadfast_core::process::{
    Action::{Complete, Publish, Reply, Schedule, Send},
    Process,
    kit::given,
};

use crate::group::{
    GROUP, NOW, check_out, completed, failed, initiate, initiated, left, left_alone, stayed,
    stayed_alone, timed_out, timeout,
};

/// Neither the process nor its runtime does anything with `input` after the end.
#[track_caller]
fn ignored_when_finished(input: Input) {
    assert_eq!(GroupCheckout::decide(&input, &State::Finished), Ok(vec![]));
    for end in [left("ann"), stayed("ann"), timeout()] {
        given::<GroupCheckout>([initiate(&["ann"]), end]).when(input.clone()).then_nothing();
    }
}

// Initiate.

#[test]
fn initiating_checks_out_each_guest_and_sets_a_timeout() {
    given::<GroupCheckout>([]).when(initiate(&["cid", "ann", "bob"])).then([
        Publish(initiated(&["cid", "ann", "bob"])),
        Send(check_out("cid")),
        Send(check_out("ann")),
        Send(check_out("bob")),
        Schedule(TIMEOUT, timeout()),
    ]);
}

#[test]
fn a_guest_named_twice_is_checked_out_once() {
    given::<GroupCheckout>([]).when(initiate(&["bob", "ann", "bob"])).then([
        Publish(initiated(&["bob", "ann"])),
        Send(check_out("bob")),
        Send(check_out("ann")),
        Schedule(TIMEOUT, timeout()),
    ]);
    given::<GroupCheckout>([initiate(&["bob", "ann", "bob"]), left("bob")])
        .when(left("ann"))
        .then(completed(&["bob", "ann"]));
}

#[test]
fn a_group_without_guests_is_rejected() {
    let rejected = Output::GroupCheckoutRejected {
        group_checkout_id: GROUP.into(),
        reason: Rejection::NoGuestStays,
        rejected_at: NOW,
    };
    given::<GroupCheckout>([]).when(initiate(&[])).then([Publish(rejected), Complete]);
    given::<GroupCheckout>([initiate(&[])]).when(initiate(&["ann"])).then_nothing();
}

#[test]
fn initiating_again_is_answered_while_pending() {
    let rejected = Output::GroupCheckoutRejected {
        group_checkout_id: GROUP.into(),
        reason: Rejection::AlreadyInitiated,
        rejected_at: NOW,
    };
    given::<GroupCheckout>([initiate(&["ann"])]).when(initiate(&["bob"])).then([Reply(rejected)]);
    given::<GroupCheckout>([initiate(&["ann"]), initiate(&["bob"])])
        .when(left("ann"))
        .then(completed(&["ann"]));
}

#[test]
fn initiating_again_is_ignored_when_finished() {
    ignored_when_finished(initiate(&["bob"]));
}

#[test]
fn a_time_at_the_end_of_time_does_no_harm() {
    let input = Input::InitiateGroupCheckout {
        group_checkout_id: GROUP.into(),
        clerk_id: "clerk-1".into(),
        guest_stay_account_ids: vec!["ann".into()],
        now: i64::MAX,
    };
    assert!(GroupCheckout::decide(&input, &State::NotExisting).is_ok());
}

// A guest has left.

#[test]
fn a_guest_who_left_without_a_group_is_ignored() {
    given::<GroupCheckout>([initiate(&["ann"])]).when(left_alone("ann")).then_nothing();
    given::<GroupCheckout>([initiate(&["ann"]), left_alone("ann")])
        .when(left("ann"))
        .then(completed(&["ann"]));
}

#[test]
fn a_guest_who_left_is_ignored_when_there_is_no_such_group() {
    given::<GroupCheckout>([]).when(left("ann")).then_nothing();
}

#[test]
fn a_guest_who_left_is_ignored_when_finished() {
    ignored_when_finished(left("bob"));
}

#[test]
fn a_guest_who_left_is_ignored_when_they_had_left_before() {
    given::<GroupCheckout>([initiate(&["ann", "bob"]), left("ann")])
        .when(left("ann"))
        .then_nothing();
}

#[test]
fn a_guest_who_left_is_ignored_when_they_had_failed_before() {
    given::<GroupCheckout>([initiate(&["ann", "bob"]), stayed("ann")])
        .when(left("ann"))
        .then_nothing();
    given::<GroupCheckout>([initiate(&["ann", "bob"]), stayed("ann"), left("ann")])
        .when(left("bob"))
        .then(failed(&["bob"], &["ann"]));
}

#[test]
fn a_guest_who_left_leads_to_nothing_while_others_are_open() {
    given::<GroupCheckout>([initiate(&["ann", "bob"])]).when(left("ann")).then_nothing();
}

#[test]
fn the_last_guest_to_leave_completes_the_group() {
    given::<GroupCheckout>([initiate(&["ann", "bob"]), left("bob")])
        .when(left("ann"))
        .then(completed(&["ann", "bob"]));
}

#[test]
fn the_last_guest_to_leave_does_not_hide_a_failure() {
    given::<GroupCheckout>([initiate(&["ann", "bob", "cid"]), stayed("bob"), left("cid")])
        .when(left("ann"))
        .then(failed(&["ann", "cid"], &["bob"]));
}

// A guest could not leave.

#[test]
fn a_failure_without_a_group_is_ignored() {
    given::<GroupCheckout>([initiate(&["ann"])]).when(stayed_alone("ann")).then_nothing();
    given::<GroupCheckout>([initiate(&["ann"]), stayed_alone("ann")])
        .when(left("ann"))
        .then(completed(&["ann"]));
}

#[test]
fn a_failure_is_ignored_when_there_is_no_such_group() {
    given::<GroupCheckout>([]).when(stayed("ann")).then_nothing();
}

#[test]
fn a_failure_is_ignored_when_finished() {
    ignored_when_finished(stayed("bob"));
}

#[test]
fn a_failure_is_ignored_when_the_guest_had_left_before() {
    given::<GroupCheckout>([initiate(&["ann", "bob"]), left("ann")])
        .when(stayed("ann"))
        .then_nothing();
    given::<GroupCheckout>([initiate(&["ann", "bob"]), left("ann"), stayed("ann")])
        .when(left("bob"))
        .then(completed(&["ann", "bob"]));
}

#[test]
fn a_failure_is_ignored_when_the_guest_had_failed_before() {
    given::<GroupCheckout>([initiate(&["ann", "bob"]), stayed("ann")])
        .when(stayed("ann"))
        .then_nothing();
}

#[test]
fn a_failure_leads_to_nothing_while_others_are_open() {
    given::<GroupCheckout>([initiate(&["ann", "bob"])]).when(stayed("ann")).then_nothing();
}

#[test]
fn one_success_and_one_failure_is_a_failure() {
    given::<GroupCheckout>([initiate(&["ann", "bob"]), left("ann")])
        .when(stayed("bob"))
        .then(failed(&["ann"], &["bob"]));
}

#[test]
fn when_all_failed_the_group_failed() {
    given::<GroupCheckout>([initiate(&["ann", "bob"]), stayed("bob")])
        .when(stayed("ann"))
        .then(failed(&[], &["ann", "bob"]));
}

// Strangers, and those who come before their group.

#[test]
fn an_unknown_guest_is_not_added() {
    for stranger in [left("eve"), stayed("eve")] {
        given::<GroupCheckout>([initiate(&["ann"])]).when(stranger.clone()).then_nothing();
        given::<GroupCheckout>([initiate(&["ann"]), stranger.clone()])
            .when(left("ann"))
            .then(completed(&["ann"]));
        given::<GroupCheckout>([initiate(&["ann"]), stranger]).when(timeout()).then(timed_out(
            &["ann"],
            &[],
            &[],
        ));
    }
}

#[test]
fn what_comes_before_the_group_does_not_keep_it_from_beginning() {
    for early in [left("ann"), stayed("ann"), timeout()] {
        let group = given::<GroupCheckout>([early, initiate(&["ann", "bob"]), left("bob")]);
        let State::Pending(guests) = group.state() else { panic!("{:?}", group.state()) };
        assert_eq!(guests.with(Status::Pending), ["ann"]);
        group.when(left("ann")).then(completed(&["ann", "bob"]));
    }
}

// Timeout.

#[test]
fn a_timeout_lists_who_is_where() {
    given::<GroupCheckout>([initiate(&["ann", "bob", "cid", "dan"]), left("dan"), stayed("bob")])
        .when(timeout())
        .then(timed_out(&["ann", "cid"], &["dan"], &["bob"]));
}

#[test]
fn a_timeout_without_any_answer_lists_all_as_incomplete() {
    given::<GroupCheckout>([initiate(&["ann", "bob"])]).when(timeout()).then(timed_out(
        &["ann", "bob"],
        &[],
        &[],
    ));
}

#[test]
fn a_timeout_is_ignored_when_there_is_no_such_group() {
    given::<GroupCheckout>([]).when(timeout()).then_nothing();
}

#[test]
fn a_timeout_is_ignored_when_finished() {
    ignored_when_finished(timeout());
}

// Routes.

#[test]
fn inputs_go_to_their_group_and_guests_without_one_to_none() {
    for input in [initiate(&["ann"]), left("ann"), stayed("ann"), timeout()] {
        assert_eq!(GroupCheckout::route(&input), Some(GROUP.to_owned()), "{input:?}");
    }
    for input in [left_alone("ann"), stayed_alone("ann")] {
        assert_eq!(GroupCheckout::route(&input), None, "{input:?}");
    }
}

#[test]
fn initiate_and_timeout_are_commands_and_guests_are_not() {
    for input in [initiate(&["ann"]), timeout()] {
        assert!(GroupCheckout::is_command(&input), "{input:?}");
    }
    for input in [left("ann"), left_alone("ann"), stayed("ann"), stayed_alone("ann")] {
        assert!(!GroupCheckout::is_command(&input), "{input:?}");
    }
}
