//! Two workflows as a user would write them: an order that waits for its payment, and a reminder
//! that sleeps for a month.

mod inventory;
mod order;
mod reminder;

pub use self::{
    inventory::{Inventory, Release, Reserve, Reserved},
    order::{Order, OrderInput, OrderOutput, Outcome, Payment},
    reminder::{Reminder, ReminderInput},
};
