//! Where mail ends: one object for each address.

use serde::{Deserialize, Serialize};
use steadfast_core::{Handle, Object, Result, Turn};

/// A mailbox, by its address.
#[derive(Debug)]
pub struct Mailbox;

/// Puts a letter into it. The queue sees to it that this happens once.
#[derive(Debug, Serialize, Deserialize)]
pub struct Receive {
    /// The id of the message in the queue.
    pub id: String,
    /// The text.
    pub subject: String,
}

/// Asks for what is in it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Letters {}

/// A mail in a mailbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    /// The id of the message that it came with.
    pub id: String,
    /// The text.
    pub subject: String,
}

impl Object for Mailbox {
    const CLASS: &'static str = "mailbox";
    type Calls = (Receive, Letters);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE letter (id TEXT NOT NULL, subject TEXT NOT NULL) STRICT"];
}

impl Handle<Receive> for Mailbox {
    const NAME: &'static str = "receive";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: Receive) -> Result<()> {
        let mut add = turn.sql().prepare_cached("INSERT INTO letter VALUES (?1, ?2)")?;
        add.execute((msg.id, msg.subject))?;
        Ok(())
    }
}

impl Handle<Letters> for Mailbox {
    const NAME: &'static str = "letters";
    const PUBLIC: bool = true;
    type Reply = Vec<Letter>;

    fn handle(&self, turn: &Turn<Self>, _: Letters) -> Result<Vec<Letter>> {
        // The newest that a page has room for.
        let all = "SELECT id, subject FROM letter ORDER BY rowid DESC LIMIT 1000";
        let mut all = turn.sql().prepare_cached(all)?;
        let letter = |row: &steadfast_core::rusqlite::Row<'_>| {
            Ok(Letter { id: row.get(0)?, subject: row.get(1)? })
        };
        let letters: Result<Vec<Letter>, _> = all.query_map((), letter)?.collect();
        Ok(letters?)
    }
}
