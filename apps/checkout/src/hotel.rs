//! The hotel: where guests are checked out.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use steadfast_core::{Failure, process::Execute, store::Clock};

use crate::{
    group_checkout::{GroupCheckout, Input, Output, Reason},
    recorded_answers::RecordedAnswers,
};

/// Checks out guests, except those who have not paid.
#[derive(Debug)]
pub struct Hotel {
    clock: Arc<dyn Clock>,
    delay: Duration,
    unpaid: BTreeSet<String>,
    absent: BTreeSet<String>,
    answers: RecordedAnswers,
}

impl Hotel {
    /// A hotel where everybody has paid, and which answers at once.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let answers = RecordedAnswers::in_memory("hotel");
        let (unpaid, absent) = (BTreeSet::new(), BTreeSet::new());
        Self { clock, delay: Duration::ZERO, unpaid, absent, answers }
    }

    /// Takes so long for each guest.
    #[must_use]
    pub fn taking(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The answers that it remembers.
    pub fn answers(&self) -> &RecordedAnswers {
        &self.answers
    }

    /// These guests have not paid.
    #[must_use]
    pub fn unpaid<T: Into<String>>(mut self, guests: impl IntoIterator<Item = T>) -> Self {
        self.unpaid.extend(guests.into_iter().map(Into::into));
        self
    }

    /// These guests cannot be found: their checkout gets no answer, and the group waits.
    #[must_use]
    pub fn absent<T: Into<String>>(mut self, guests: impl IntoIterator<Item = T>) -> Self {
        self.absent.extend(guests.into_iter().map(Into::into));
        self
    }
}

impl Execute<GroupCheckout> for Hotel {
    async fn execute(&self, output: Output, key: &str) -> Result<Option<Input>, Failure> {
        let Output::CheckOut { guest_stay_account_id, group_checkout_id } = output else {
            return Ok(None);
        };
        if self.absent.contains(&guest_stay_account_id) {
            return Ok(None);
        }
        if let Some(answer) = self.answers.find(key).await? {
            return Ok(Some(answer));
        }
        self.clock.sleep(self.delay).await;

        let now = self.clock.now().0;
        let group_checkout_id = Some(group_checkout_id);
        let answer = if self.unpaid.contains(&guest_stay_account_id) {
            Input::GuestCheckoutFailed {
                guest_stay_account_id,
                reason: Reason::BalanceNotSettled,
                failed_at: now,
                group_checkout_id,
            }
        } else {
            Input::GuestCheckedOut { guest_stay_account_id, checked_out_at: now, group_checkout_id }
        };
        self.answers.keep(key, answer).await.map(Some)
    }
}
