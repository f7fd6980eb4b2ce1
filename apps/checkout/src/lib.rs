//! Two processes as a user would write them.
//!
//! [`GroupCheckout`] checks out the guests of a group and says how it went; the [`Hotel`] does the
//! work. [`TrafficFine`] turns a police report into a fine; the [`Office`] does the work.

pub mod group_checkout;
pub mod traffic_fine;

mod answers;
mod hotel;
mod office;

pub use self::{
    group_checkout::GroupCheckout, hotel::Hotel, office::Office, traffic_fine::TrafficFine,
};
