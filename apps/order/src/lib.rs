//! Three workflows as a user would write them: an invoice of three steps, an order that waits for
//! its payment, and a reminder that sleeps for a month.

mod inventory;
mod invoice;
mod order;
mod reminder;

use steadfast_core::App;

pub use self::{
    inventory::{Inventory, Release, Reserve, Reserved},
    invoice::{Invoice, InvoiceInput, InvoiceOutput},
    order::{Order, OrderInput, OrderOutput, Outcome, Payment},
    reminder::{Reminder, ReminderInput},
};

/// The application.
pub fn app() -> App {
    App::new("order").object(Inventory).workflow(Invoice).workflow(Order).workflow(Reminder)
}
