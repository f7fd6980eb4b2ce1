//! A client: sends mail to the program `queue` in another process, and shows the queue.
//!
//!     cargo run -p steadfast-examples --bin queue -- --data data/queue
//!     cargo run -p steadfast-examples --bin client -- http://127.0.0.1:8787 ada hello

use serde::{Deserialize, Serialize};
use steadfast::{api::queues::ShowQueue, prelude::*};

const MAIL: Queue<Mail> = Queue::named("mail");

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
    text: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, to, text] = &arguments[..] else {
        return Err(Error::terminal("write: client URL RECIPIENT TEXT"));
    };
    let program = steadfast::connect(url);
    // A `Client` has the verbs of the program itself: `call`, `send`, `start`, `run`, `bucket`.
    let mail = Mail { to: to.clone(), text: text.clone() };
    program.client().send(MAIL, mail).await?;
    // An operation of the HTTP API is a type.
    let queue = program.send(&ShowQueue { queue: MAIL.name().into() }).await?;
    steadfast::web::print(&format!("sent; {} messages are in the queue\n", queue.depth))?;
    Ok(())
}
