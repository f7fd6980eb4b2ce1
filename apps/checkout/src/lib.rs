//! Two processes as a user would write them.
//!
//! [`GroupCheckout`] checks out the guests of a group and says how it went; the [`Hotel`] does the
//! work. Its events are on the [`NoticeBoard`], and a second clerk gets a reply.
//! [`TrafficFine`] turns a police report into a fine; the [`FineRegistry`] does the work.

pub mod group_checkout;
pub mod traffic_fine;

mod fine_registry;
mod hotel;
mod notice_board;
mod recorded_answers;
mod verb;

use std::sync::Arc;

use steadfast_core::{App, store::SystemClock};
use steadfast_web::Serve;

pub use self::{
    fine_registry::FineRegistry,
    group_checkout::GroupCheckout,
    hotel::Hotel,
    notice_board::{BoardConsumer, Notice, NoticeBoard, Notices, PUBLISHED},
    recorded_answers::RecordedAnswers,
    traffic_fine::TrafficFine,
};

/// The guest who has not paid, so that both ends of a checkout can be seen.
const UNPAID: &str = "unpaid";

/// The guest who cannot be found, so that a group can be seen that waits: a second clerk gets a
/// reply.
const ABSENT: &str = "absent";

/// Both processes, their executors, and the board with their events.
pub fn app() -> App {
    let hotel = Hotel::new(Arc::new(SystemClock)).unpaid([UNPAID]).absent([ABSENT]);
    let (hotel, registry) = (Arc::new(hotel), Arc::new(FineRegistry::default()));
    App::new("checkout")
        .process::<GroupCheckout>(hotel.clone())
        .process::<TrafficFine>(registry.clone())
        .subscribe::<GroupCheckout>(PUBLISHED)
        .consume(PUBLISHED, BoardConsumer)
        .object(NoticeBoard)
        .verb("example", |_, args| verb::run_example(args))
        .on_open(move |program| {
            let keep_dead = program.retention().messages.keep_dead;
            for answers in [hotel.answers(), registry.answers()] {
                answers.keep_in(program.store().clone(), keep_dead);
            }
        })
}
