//! A reminder: it sleeps for a month, and takes no memory meanwhile.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_core::{Ctx, Result, Workflow};

const MONTH: Duration = Duration::from_hours(30 * 24);

/// Reminders.
#[derive(Debug)]
pub struct Reminder;

/// The input of a reminder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReminderInput {
    /// The text.
    pub text: String,
}

impl Workflow for Reminder {
    const NAME: &'static str = "reminder";
    type Input = ReminderInput;
    type Output = String;

    async fn run(&self, ctx: &Ctx, reminder: ReminderInput) -> Result<String> {
        ctx.sleep("a month", MONTH).await?;
        ctx.step("remind", async || Ok(format!("Remember: {}", reminder.text))).await
    }
}
