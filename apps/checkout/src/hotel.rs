//! The hotel: where guests are checked out.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use steadfast::{Failure, process::Execute, store::Clock};

use crate::group_checkout::{GroupCheckout, Input, Output, Reason};

/// Checks out guests, except those who have not paid.
#[derive(Debug)]
pub struct Hotel {
    clock: Arc<dyn Clock>,
    delay: Duration,
    unpaid: BTreeSet<String>,
}

impl Hotel {
    /// A hotel where everybody has paid, and which answers at once.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, delay: Duration::ZERO, unpaid: BTreeSet::new() }
    }

    /// Takes so long for each guest.
    #[must_use]
    pub fn taking(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// These guests have not paid.
    #[must_use]
    pub fn unpaid<T: Into<String>>(mut self, guests: impl IntoIterator<Item = T>) -> Self {
        self.unpaid.extend(guests.into_iter().map(Into::into));
        self
    }
}

#[async_trait]
impl Execute<GroupCheckout> for Hotel {
    async fn execute(&self, output: Output, _key: &str) -> Result<Option<Input>, Failure> {
        let Output::CheckOut { guest_stay_account_id, group_checkout_id } = output else {
            return Ok(None);
        };
        self.clock.sleep(self.delay).await;

        let now = self.clock.now().0;
        let group_checkout_id = Some(group_checkout_id);
        Ok(Some(if self.unpaid.contains(&guest_stay_account_id) {
            Input::GuestCheckoutFailed {
                guest_stay_account_id,
                reason: Reason::BalanceNotSettled,
                failed_at: now,
                group_checkout_id,
            }
        } else {
            Input::GuestCheckedOut { guest_stay_account_id, checked_out_at: now, group_checkout_id }
        }))
    }
}
