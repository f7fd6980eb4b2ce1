//! A queue: mail is delivered to a mailbox exactly once. Mail that keeps failing becomes a dead
//! letter.
//!
//!     cargo run -p steadfast-examples --bin queue -- --data data/queue
//!     curl localhost:8787/v1/queues/mail/messages -d '{"body": {"to": "ada", "text": "hello"}}'
//!     cargo run -p steadfast-examples --bin queue -- objects sql mailbox ada 'SELECT * FROM mail'

use serde::{Deserialize, Serialize};
use steadfast::prelude::*;

const MAIL: Queue<Mail> = Queue::named("mail");
const DEAD_MAIL: Queue<Mail> = Queue::named("mail-dead");

#[derive(Clone, Serialize, Deserialize)]
struct Mail {
    to: String,
    text: String,
}

struct Postman;

impl Consumer for Postman {
    type Message = Mail;
    async fn deliver(&self, delivery: Delivery<Mail>) -> Result<Settled> {
        let mail = delivery.message.clone();
        if mail.to.is_empty() {
            return Ok(delivery.bury("the mail has no recipient"));
        }
        // One commit takes the mail from the queue and puts it into the mailbox.
        delivery.settle_with(Mailbox::at(&mail.to), mail).await
    }
}

struct Mailbox;

impl Object for Mailbox {
    const CLASS: &'static str = "mailbox";
    type Calls = (Mail,);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE mail (text TEXT NOT NULL)"];
}

impl Handle<Mail> for Mailbox {
    const NAME: &'static str = "receive";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, mail: Mail) -> Result<()> {
        turn.sql().execute("INSERT INTO mail VALUES (?1)", [mail.text])?;
        Ok(())
    }
}

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app() -> Result<App> {
    let mail = MAIL.retries(5).dead_letters(DEAD_MAIL);
    Ok(App::new("post").queue(mail).queue(DEAD_MAIL).consume(MAIL, Postman).object(Mailbox))
}
