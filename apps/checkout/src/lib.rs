//! Two processes as a user would write them.
//!
//! [`GroupCheckout`] checks out the guests of a group and says how it went; the [`Hotel`] does the
//! work. What it publishes is on the [`NoticeBoard`], and a second clerk gets a reply.
//! [`TrafficFine`] turns a police report into a fine; the [`Office`] does the work.

pub mod group_checkout;
pub mod traffic_fine;

mod answers;
mod hotel;
mod news;
mod office;

pub use self::{
    group_checkout::GroupCheckout,
    hotel::Hotel,
    news::{NEWS, Notice, NoticeBoard, Notices, Reception},
    office::Office,
    traffic_fine::TrafficFine,
};
