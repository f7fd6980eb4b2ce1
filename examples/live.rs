//! A live chat: a room is an object, and its lines reach all connections once they are durable.
//!
//!     cargo run -p steadfast-examples --bin live -- --data data/live
//!     curl -N -H 'Accept: text/event-stream' localhost:8787/v1/objects/room/lobby/connect
//!     curl localhost:8787/v1/objects/room/lobby/calls/say -d '{"text": "hello"}'
//!
//! A WebSocket at the same address receives the same lines, and its texts are said in the room.

use serde::{Deserialize, Serialize};
use steadfast::prelude::*;

struct Room;

#[derive(Serialize, Deserialize)]
struct Say {
    text: String,
}

impl Object for Room {
    const CLASS: &'static str = "room";
    type Calls = (Say,);
    const MIGRATIONS: &'static [&'static str] =
        &["CREATE TABLE line (id INTEGER PRIMARY KEY, text TEXT NOT NULL)"];

    /// Sends the newest 100 lines that the client has missed.
    fn connected(&self, turn: &Turn<Self>, connection: &Connection) -> Result<()> {
        let missed = "SELECT id, text FROM (SELECT id, text FROM line WHERE ?1 < id
            ORDER BY id DESC LIMIT 100) ORDER BY id";
        let mut lines = turn.sql().prepare(missed)?;
        let mut lines = lines.query([connection.last_seen().unwrap_or(0)])?;
        while let Some(row) = lines.next()? {
            turn.numbered(row.get(0)?).tell(connection.id, &row.get::<_, String>(1)?);
        }
        Ok(())
    }

    fn received(&self, turn: &Turn<Self>, _: &Connection, text: &str) -> Result<()> {
        self.handle(turn, Say { text: text.into() })
    }
}

impl Handle<Say> for Room {
    const NAME: &'static str = "say";
    const PUBLIC: bool = true;
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Say { text }: Say) -> Result<()> {
        turn.sql().execute("INSERT INTO line (text) VALUES (?1)", [&text])?;
        turn.numbered(turn.sql().last_insert_rowid()).broadcast(&text);
        Ok(())
    }
}

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app() -> Result<App> {
    Ok(App::new("chat").object(Room))
}
