//! The events in the stream of a group checkout, and the state that is read from them.

use std::time::Duration;

use steadfast_checkout::group_checkout::{
    GroupCheckout, Guests, Input, Output, State, Status, TIMEOUT,
};
use steadfast_core::process::{Event, Process, kit::given_events, translate};

use crate::group::{check_out, failed, initiate, initiated, left, stayed, timeout};

/// Decides the inputs one after the other and records them.
fn record(inputs: impl IntoIterator<Item = Input>) -> Vec<Event<Input, Output>> {
    let mut state = State::default();
    let mut stream = Vec::new();
    for input in inputs {
        let actions = GroupCheckout::decide(&input, &state).expect("it never refuses");
        let events = translate::<GroupCheckout>(stream.is_empty(), input, actions);
        state = events.iter().fold(state, GroupCheckout::evolve);
        stream.extend(events);
    }
    stream
}

fn pending(guests: &[&str]) -> Guests {
    Guests::pending(&guests.iter().map(|&guest| guest.to_owned()).collect::<Vec<_>>())
}

#[test]
fn the_first_input_begins_the_stream() {
    assert_eq!(
        record([initiate(&["ann", "bob"])]),
        [
            Event::Began,
            Event::InitiatedBy(initiate(&["ann", "bob"])),
            Event::Published(initiated(&["ann", "bob"])),
            Event::Sent(check_out("ann")),
            Event::Sent(check_out("bob")),
            Event::Scheduled(TIMEOUT, timeout()),
        ]
    );
}

#[test]
fn later_inputs_are_received_and_the_last_completes() {
    let stream = record([initiate(&["ann", "bob"]), left("ann"), stayed("bob")]);
    let mut expected = vec![Event::Received(left("ann"))];
    expected.extend(translate::<GroupCheckout>(false, stayed("bob"), failed(&["ann"], &["bob"])));
    assert_eq!(stream[6..], expected);
    assert_eq!(stream.last(), Some(&Event::Completed));
}

#[test]
fn an_ignored_input_is_recorded_all_the_same() {
    assert_eq!(record([left("ann")]), [Event::Began, Event::InitiatedBy(left("ann"))]);
}

#[test]
fn own_decisions_do_not_change_the_state() {
    let states = [
        State::NotExisting,
        State::Pending(pending(&["ann", "bob"]).close("ann", Status::Completed)),
        State::Finished,
    ];
    for state in states {
        let events = [
            Event::Began,
            Event::Replied(initiated(&["eve"])),
            Event::Sent(check_out("ann")),
            Event::Published(initiated(&["eve"])),
            Event::Scheduled(Duration::ZERO, initiate(&["eve"])),
        ];
        for event in events {
            assert_eq!(GroupCheckout::evolve(state.clone(), &event), state, "{event:?}");
        }
    }
}

#[test]
fn completion_finishes_and_nothing_begins_again() {
    let stream = record([initiate(&["ann"]), left("ann")]);
    let group = given_events::<GroupCheckout>(stream);
    assert_eq!(*group.state(), State::Finished);
    for late in [initiate(&["bob"]), left("bob"), stayed("bob"), timeout()] {
        let state = GroupCheckout::evolve(State::Finished, &Event::Received(late));
        assert_eq!(state, State::Finished);
    }
}

#[test]
fn deciding_leaves_the_state_alone() {
    let state = State::Pending(pending(&["ann", "bob"]));
    let before = state.clone();
    for input in [initiate(&["eve"]), left("ann"), stayed("bob"), left("eve"), timeout()] {
        let once = GroupCheckout::decide(&input, &state);
        assert_eq!(GroupCheckout::decide(&input, &state), once, "{input:?}");
    }
    assert_eq!(state, before);
}

#[test]
fn two_groups_do_not_know_of_each_other() {
    let one = given_events::<GroupCheckout>(record([initiate(&["ann", "bob"]), left("ann")]));
    let other = given_events::<GroupCheckout>(record([initiate(&["ann", "cid"])]));
    assert_ne!(one.state(), other.state());
    one.when(stayed("bob")).then(failed(&["ann"], &["bob"]));
    other.when(stayed("cid")).then_nothing();
}
