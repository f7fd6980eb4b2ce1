//! The state of a group checkout.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Input;

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Nobody has asked for it.
    #[default]
    NotExisting,
    /// Some guests have no answer yet.
    Pending(Guests),
    /// It is over.
    Finished,
}

impl State {
    /// The state once `input` has come.
    pub(super) fn after(self, input: &Input) -> Self {
        match (self, input) {
            (Self::NotExisting, Input::InitiateGroupCheckout { guest_stay_account_ids, .. }) => {
                Self::Pending(Guests::pending(guest_stay_account_ids))
            }
            (
                Self::Pending(guests),
                Input::GuestCheckedOut {
                    guest_stay_account_id, group_checkout_id: Some(_), ..
                },
            ) => Self::Pending(guests.close(guest_stay_account_id, Status::Completed)),
            (
                Self::Pending(guests),
                Input::GuestCheckoutFailed {
                    guest_stay_account_id,
                    group_checkout_id: Some(_),
                    ..
                },
            ) => Self::Pending(guests.close(guest_stay_account_id, Status::Failed)),
            (state, _) => state,
        }
    }
}

/// The guests of a group, in the order of initiation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guests(Vec<Guest>);

/// One guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Which one.
    pub id: String,
    /// Their answer.
    pub status: Status,
}

/// The answer of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// None yet.
    Pending,
    /// They have left.
    Completed,
    /// They could not leave.
    Failed,
}

impl Guests {
    /// Guests without an answer. Who is named twice is one guest.
    pub fn pending(ids: &[String]) -> Self {
        let mut seen = BTreeSet::new();
        let once = ids.iter().filter(|id| seen.insert(id.as_str()));
        Self(once.map(|id| Guest { id: id.clone(), status: Status::Pending }).collect())
    }

    /// Takes the answer of a guest. The first one counts, and strangers do not.
    pub fn close(mut self, id: &str, status: Status) -> Self {
        if let Some(guest) = self.0.iter_mut().find(|guest| guest.is_pending(id)) {
            guest.status = status;
        }
        self
    }

    /// Whether this is a guest of the group without an answer.
    pub fn is_pending(&self, id: &str) -> bool {
        self.0.iter().any(|guest| guest.is_pending(id))
    }

    /// All of them.
    pub fn ids(&self) -> Vec<String> {
        self.0.iter().map(|guest| guest.id.clone()).collect()
    }

    /// Those with this answer.
    pub fn with(&self, status: Status) -> Vec<String> {
        let those = self.0.iter().filter(|guest| guest.status == status);
        those.map(|guest| guest.id.clone()).collect()
    }
}

impl Guest {
    fn is_pending(&self, id: &str) -> bool {
        self.id == id && self.status == Status::Pending
    }
}
