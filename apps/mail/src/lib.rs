//! The smallest queue: mail that is delivered to mailboxes, each exactly once.

mod mailbox;
mod opens;

use serde::{Deserialize, Serialize};
use steadfast_core::{
    App, Consumer, Delivery, Error, Object, Queue, QueueSettings, Result, Settled,
};

pub use self::{
    mailbox::{Letter, Letters, Mailbox, Receive},
    opens::{Add, Counting, OPENS, Opened, Tally, Total},
};

/// Mail that is to be delivered.
pub const MAIL: Queue<Mail> = Queue::named("mail");

/// Mail that could not be delivered.
pub const DEAD_MAIL: Queue<Mail> = Queue::named("mail-dead");

/// One mail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mail {
    /// The address.
    pub to: String,
    /// The text.
    pub subject: String,
}

/// A host that takes no mail now: what is sent there is tried again, and then given up.
const DOWN: &str = "down.example";

/// Delivers mail into the mailbox of its address.
#[derive(Debug)]
pub struct Postman;

impl Consumer for Postman {
    type Message = Mail;

    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        let Mail { to, subject } = delivery.message.clone();
        let Some((_, host)) = to.rsplit_once('@') else {
            // It does not get better by itself: no retries, straight to the dead letters.
            return Err(Error::terminal(format!("`{to}` is no address: it has no @"))
                .with_code("no_address"));
        };
        if host == DOWN {
            return Err(Error::retryable(format!("{DOWN} does not answer")));
        }
        // The mailbox has it in the commit that takes it out of the queue: not lost, not twice.
        let receive = Receive { id: delivery.id(), subject };
        delivery.settle_with(Mailbox::at(&to), receive).await
    }
}

/// The application.
pub fn app() -> App {
    App::new("mail")
        .queue(MAIL.dead_letters(DEAD_MAIL))
        .queue(DEAD_MAIL)
        .queue(OPENS.with(QueueSettings { batch_size: 100, ..QueueSettings::default() }))
        .consume(MAIL, Postman)
        .consume_batches(OPENS, Counting)
        .object(Mailbox)
        .object(Tally)
}
