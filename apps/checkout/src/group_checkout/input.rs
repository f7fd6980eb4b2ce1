//! The inputs of a group checkout.

use serde::{Deserialize, Serialize};

/// An input. Times are milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named for what they are")]
pub enum Input {
    /// A clerk asks for it.
    InitiateGroupCheckout {
        group_checkout_id: String,
        clerk_id: String,
        guest_stay_account_ids: Vec<String>,
        now: i64,
    },
    /// A guest has left.
    GuestCheckedOut {
        guest_stay_account_id: String,
        checked_out_at: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group_checkout_id: Option<String>,
    },
    /// A guest could not leave.
    GuestCheckoutFailed {
        guest_stay_account_id: String,
        reason: Reason,
        failed_at: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group_checkout_id: Option<String>,
    },
    /// The time is up.
    TimeoutGroupCheckout { group_checkout_id: String, started_at: i64, time_out_at: i64 },
}

/// Why a guest could not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// They never came.
    NotCheckedIn,
    /// They have not paid.
    BalanceNotSettled,
}
