//! How often mail was opened: many small messages, counted a hundred at a time.

use serde::{Deserialize, Serialize};
use steadfast_core::{Batch, BatchConsumer, Handle, Object, Queue, Result, SettledBatch, Turn};

/// News that a mail was opened.
pub const OPENS: Queue<Opened> = Queue::named("opens");

/// A mail was opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opened {
    /// Which one.
    pub id: String,
}

/// Counts opened mails. After a crash a batch may be delivered again, so the count is an estimate
/// and not fit for invoices.
#[derive(Debug)]
pub struct Counting;

impl BatchConsumer for Counting {
    type Message = Opened;

    async fn deliver(&self, mut batch: Batch<Opened>) -> Result<SettledBatch> {
        let count = batch.len() as u64;
        let Some(first) = batch.next() else { return Ok(batch.done()) };
        // One turn for all of them; under the same key it counts once.
        let key = format!("{} and {} more", first.id(), count - 1);
        first.call(Tally::at("opens"), Add { count }).key(key).await?;
        batch.settle(first.done());
        Ok(batch.done())
    }
}

/// A number that grows.
#[derive(Debug)]
pub struct Tally;

/// Adds to it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Add {
    /// How much.
    pub count: u64,
}

/// Asks for it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Total {}

impl Object for Tally {
    const CLASS: &'static str = "tally";
    type Calls = (Add, Total);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE tally (total INTEGER NOT NULL) STRICT; INSERT INTO tally VALUES (0)"];
}

impl Handle<Add> for Tally {
    const NAME: &'static str = "add";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Add) -> Result<()> {
        turn.sql().prepare_cached("UPDATE tally SET total = total + ?1")?.execute([msg.count])?;
        Ok(())
    }
}

impl Handle<Total> for Tally {
    const NAME: &'static str = "total";
    const PUBLIC: bool = true;
    type Reply = u64;

    fn handle(&self, turn: &Turn<Self>, _: Total) -> Result<u64> {
        Ok(turn.sql().query_row("SELECT total FROM tally", (), |row| row.get(0))?)
    }
}
