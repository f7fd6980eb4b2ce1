//! The words of the group checkout tests: what comes in, and what goes out.

use steadfast_checkout::group_checkout::{GroupCheckout, Input, Output, Reason, TIMEOUT};
use steadfast_core::process::{
    Action::{Complete, Publish},
    Actions,
};

pub(crate) const GROUP: &str = "group-1";
pub(crate) const NOW: i64 = 1_700_000_000_000;
pub(crate) const LATER: i64 = NOW + 5_000;
pub(crate) const TOO_LATE: i64 = NOW + TIMEOUT.as_millis() as i64;

pub(crate) fn initiate(guests: &[&str]) -> Input {
    Input::InitiateGroupCheckout {
        group_checkout_id: GROUP.into(),
        clerk_id: "clerk-1".into(),
        guest_stay_account_ids: ids(guests),
        now: NOW,
    }
}

pub(crate) fn left(guest: &str) -> Input {
    Input::GuestCheckedOut {
        guest_stay_account_id: guest.into(),
        checked_out_at: LATER,
        group_checkout_id: Some(GROUP.into()),
    }
}

pub(crate) fn left_alone(guest: &str) -> Input {
    Input::GuestCheckedOut {
        guest_stay_account_id: guest.into(),
        checked_out_at: LATER,
        group_checkout_id: None,
    }
}

pub(crate) fn stayed(guest: &str) -> Input {
    Input::GuestCheckoutFailed {
        guest_stay_account_id: guest.into(),
        reason: Reason::BalanceNotSettled,
        failed_at: LATER,
        group_checkout_id: Some(GROUP.into()),
    }
}

pub(crate) fn stayed_alone(guest: &str) -> Input {
    Input::GuestCheckoutFailed {
        guest_stay_account_id: guest.into(),
        reason: Reason::NotCheckedIn,
        failed_at: LATER,
        group_checkout_id: None,
    }
}

pub(crate) fn timeout() -> Input {
    Input::TimeoutGroupCheckout {
        group_checkout_id: GROUP.into(),
        started_at: NOW,
        time_out_at: TOO_LATE,
    }
}

pub(crate) fn initiated(guests: &[&str]) -> Output {
    Output::GroupCheckoutInitiated {
        group_checkout_id: GROUP.into(),
        clerk_id: "clerk-1".into(),
        guest_stay_account_ids: ids(guests),
        initiated_at: NOW,
    }
}

pub(crate) fn check_out(guest: &str) -> Output {
    Output::CheckOut { guest_stay_account_id: guest.into(), group_checkout_id: GROUP.into() }
}

pub(crate) fn completed(guests: &[&str]) -> Actions<GroupCheckout> {
    let completed = Output::GroupCheckoutCompleted {
        group_checkout_id: GROUP.into(),
        completed_checkouts: ids(guests),
        completed_at: LATER,
    };
    vec![Publish(completed), Complete]
}

pub(crate) fn failed(completed: &[&str], failed: &[&str]) -> Actions<GroupCheckout> {
    let failed = Output::GroupCheckoutFailed {
        group_checkout_id: GROUP.into(),
        completed_checkouts: ids(completed),
        failed_checkouts: ids(failed),
        failed_at: LATER,
    };
    vec![Publish(failed), Complete]
}

pub(crate) fn timed_out(
    incomplete: &[&str],
    completed: &[&str],
    failed: &[&str],
) -> Actions<GroupCheckout> {
    let timed_out = Output::GroupCheckoutTimedOut {
        group_checkout_id: GROUP.into(),
        incomplete_checkouts: ids(incomplete),
        completed_checkouts: ids(completed),
        failed_checkouts: ids(failed),
        timed_out_at: TOO_LATE,
    };
    vec![Publish(timed_out), Complete]
}

fn ids(guests: &[&str]) -> Vec<String> {
    guests.iter().map(|&guest| guest.to_owned()).collect()
}
