//! The outputs of a group checkout.

use serde::{Deserialize, Serialize};

/// An output. Times are milliseconds since 1970; guests are in the order of initiation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub enum Output {
    /// It has begun.
    GroupCheckoutInitiated {
        group_checkout_id: String,
        clerk_id: String,
        guest_stay_account_ids: Vec<String>,
        initiated_at: i64,
    },
    /// It could not begin.
    GroupCheckoutRejected { group_checkout_id: String, reason: Rejection, rejected_at: i64 },
    /// Asks the hotel to check out one guest.
    CheckOut { guest_stay_account_id: String, group_checkout_id: String },
    /// All guests have left.
    GroupCheckoutCompleted {
        group_checkout_id: String,
        completed_checkouts: Vec<String>,
        completed_at: i64,
    },
    /// All guests have an answer, and for some it is no.
    GroupCheckoutFailed {
        group_checkout_id: String,
        completed_checkouts: Vec<String>,
        failed_checkouts: Vec<String>,
        failed_at: i64,
    },
    /// Some guests had no answer in time.
    GroupCheckoutTimedOut {
        group_checkout_id: String,
        incomplete_checkouts: Vec<String>,
        completed_checkouts: Vec<String>,
        failed_checkouts: Vec<String>,
        timed_out_at: i64,
    },
}

/// Why a group checkout could not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rejection {
    /// There is nobody to check out.
    NoGuestStays,
    /// It has begun before.
    AlreadyInitiated,
}
