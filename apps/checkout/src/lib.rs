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
mod verb;

use std::sync::Arc;

use steadfast_core::{App, store::SystemClock};
use steadfast_web::Serve;

pub use self::{
    group_checkout::GroupCheckout,
    hotel::Hotel,
    news::{NEWS, Notice, NoticeBoard, Notices, Reception},
    office::Office,
    traffic_fine::TrafficFine,
};

/// The guest who has not paid, so that both ends of a checkout can be seen.
const UNPAID: &str = "unpaid";

/// The guest who cannot be found, so that a group can be seen that waits: a second clerk gets a
/// reply.
const ABSENT: &str = "absent";

/// Both processes, with those who do their work and the board with their news.
pub fn app() -> App {
    let hotel = Hotel::new(Arc::new(SystemClock)).unpaid([UNPAID]).absent([ABSENT]);
    let (hotel, office) = (Arc::new(hotel), Arc::new(Office::default()));
    App::new("checkout")
        .process::<GroupCheckout>(hotel.clone())
        .process::<TrafficFine>(office.clone())
        .subscribe::<GroupCheckout>(NEWS)
        .consume(NEWS, Reception)
        .object(NoticeBoard)
        .verb("example", |_, args| verb::run_example(args))
        .on_open(move |program| {
            let keep_dead = program.retention().messages.keep_dead;
            hotel.remember(program.store().clone(), keep_dead);
            office.remember(program.store().clone(), keep_dead);
        })
}
