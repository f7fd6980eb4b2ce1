//! Checks out the guests of a group, and says how it went.

mod input;
mod output;
mod state;

use std::time::Duration;

use steadfast_core::{
    process::{
        Action::{Complete, Publish, Reply, Schedule, Send},
        Actions, Event, Process, Refused,
    },
    store::Timestamp,
};

pub use self::{
    input::{Input, Reason},
    output::{Output, Rejection},
    state::{Guest, Guests, State, Status},
};

/// How long the guests have.
pub const TIMEOUT: Duration = Duration::from_mins(10);

/// Checks out each guest of a group. It ends when all have an answer, or when the time is up.
pub struct GroupCheckout;

impl Process for GroupCheckout {
    const NAME: &'static str = "group-checkout";
    type Input = Input;
    type Output = Output;
    type State = State;

    fn route(input: &Input) -> Option<String> {
        match input {
            Input::InitiateGroupCheckout { group_checkout_id, .. }
            | Input::TimeoutGroupCheckout { group_checkout_id, .. } => {
                Some(group_checkout_id.clone())
            }
            // A guest who leaves alone belongs to no group.
            Input::GuestCheckedOut { group_checkout_id, .. }
            | Input::GuestCheckoutFailed { group_checkout_id, .. } => group_checkout_id.clone(),
        }
    }

    fn is_command(input: &Input) -> bool {
        match input {
            Input::InitiateGroupCheckout { .. } | Input::TimeoutGroupCheckout { .. } => true,
            Input::GuestCheckedOut { .. } | Input::GuestCheckoutFailed { .. } => false,
        }
    }

    fn decide(input: &Input, state: &State) -> Result<Actions<Self>, Refused> {
        Ok(match (input, state) {
            (
                Input::InitiateGroupCheckout {
                    group_checkout_id,
                    clerk_id,
                    guest_stay_account_ids,
                    now,
                },
                State::NotExisting,
            ) => {
                let guests = Guests::pending(guest_stay_account_ids);
                initiate(group_checkout_id, clerk_id, &guests, *now)
            }
            // The clerk gets a rejection; the checkout in progress continues.
            (Input::InitiateGroupCheckout { group_checkout_id, now, .. }, State::Pending(_)) => {
                vec![Reply(Output::GroupCheckoutRejected {
                    group_checkout_id: group_checkout_id.clone(),
                    reason: Rejection::AlreadyInitiated,
                    rejected_at: *now,
                })]
            }
            (
                Input::GuestCheckedOut {
                    guest_stay_account_id,
                    checked_out_at,
                    group_checkout_id: Some(group),
                },
                State::Pending(guests),
            ) => close(group, guests, guest_stay_account_id, Status::Completed, *checked_out_at),
            (
                Input::GuestCheckoutFailed {
                    guest_stay_account_id,
                    failed_at,
                    group_checkout_id: Some(group),
                    ..
                },
                State::Pending(guests),
            ) => close(group, guests, guest_stay_account_id, Status::Failed, *failed_at),
            (
                Input::TimeoutGroupCheckout { group_checkout_id, time_out_at, .. },
                State::Pending(guests),
            ) => time_out(group_checkout_id, guests, *time_out_at),
            // Too early, too late, or about nobody here: worth a record, but nothing to do.
            _ => vec![],
        })
    }

    fn evolve(state: State, event: &Event<Input, Output>) -> State {
        match (state, event) {
            (_, Event::Completed) => State::Finished,
            (state, Event::InitiatedBy(input) | Event::Received(input)) => state.after(input),
            (state, _) => state,
        }
    }
}

fn initiate(group: &str, clerk: &str, guests: &Guests, now: i64) -> Actions<GroupCheckout> {
    let ids = guests.ids();
    if ids.is_empty() {
        let rejected = Output::GroupCheckoutRejected {
            group_checkout_id: group.into(),
            reason: Rejection::NoGuestStays,
            rejected_at: now,
        };
        return vec![Publish(rejected), Complete];
    }

    let mut actions = vec![Publish(Output::GroupCheckoutInitiated {
        group_checkout_id: group.into(),
        clerk_id: clerk.into(),
        guest_stay_account_ids: ids.clone(),
        initiated_at: now,
    })];
    actions.extend(ids.into_iter().map(|guest_stay_account_id| {
        Send(Output::CheckOut { guest_stay_account_id, group_checkout_id: group.into() })
    }));
    let timeout = Input::TimeoutGroupCheckout {
        group_checkout_id: group.into(),
        started_at: now,
        time_out_at: Timestamp(now).after(TIMEOUT).0,
    };
    actions.push(Schedule(TIMEOUT, timeout));
    actions
}

/// The answer of one guest. The last one closes the group.
fn close(
    group: &str,
    guests: &Guests,
    guest: &str,
    status: Status,
    at: i64,
) -> Actions<GroupCheckout> {
    if !guests.is_pending(guest) {
        return vec![];
    }
    let guests = guests.clone().close(guest, status);
    if !guests.with(Status::Pending).is_empty() {
        return vec![];
    }

    let group_checkout_id = group.into();
    let completed_checkouts = guests.with(Status::Completed);
    let failed_checkouts = guests.with(Status::Failed);
    let outcome = if failed_checkouts.is_empty() {
        Output::GroupCheckoutCompleted { group_checkout_id, completed_checkouts, completed_at: at }
    } else {
        Output::GroupCheckoutFailed {
            group_checkout_id,
            completed_checkouts,
            failed_checkouts,
            failed_at: at,
        }
    };
    vec![Publish(outcome), Complete]
}

fn time_out(group: &str, guests: &Guests, at: i64) -> Actions<GroupCheckout> {
    let timed_out = Output::GroupCheckoutTimedOut {
        group_checkout_id: group.into(),
        incomplete_checkouts: guests.with(Status::Pending),
        completed_checkouts: guests.with(Status::Completed),
        failed_checkouts: guests.with(Status::Failed),
        timed_out_at: at,
    };
    vec![Publish(timed_out), Complete]
}
