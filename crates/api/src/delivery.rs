//! The state of a delivery.

use serde::{Deserialize, Serialize};
use steadfast_store::{SettledAs, State};
use utoipa::ToSchema;

/// The state of a message that is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// Waiting.
    Pending,
    /// Delivered to a receiver under a lease.
    #[serde(rename = "in flight")]
    InFlight,
    /// Handled.
    Done,
    /// A dead letter.
    Dead,
    /// Cancelled.
    Cancelled,
}

steadfast_store::texts! {
    DeliveryState {
        Pending = "pending",
        InFlight = "in flight",
        Done = "done",
        Dead = "dead",
        Cancelled = "cancelled",
    }
}

impl DeliveryState {
    /// The state as text.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl From<&State> for DeliveryState {
    fn from(state: &State) -> Self {
        match state {
            State::Pending { .. } => Self::Pending,
            State::InFlight { .. } => Self::InFlight,
            State::Settled(settled) => match settled.as_ {
                SettledAs::Done => Self::Done,
                SettledAs::Dead => Self::Dead,
                SettledAs::Cancelled => Self::Cancelled,
            },
        }
    }
}
