//! Alarms: reminders that fire at their time, also after a restart. Each is an alarm of an object.
//!
//!     cargo run -p steadfast-examples --bin later -- --data data/later
//!     curl localhost:8787/v1/objects/desk/ada/calls/remind -d '{"of": "tea", "seconds": 3}'
//!     cargo run -p steadfast-examples --bin later -- objects sql desk ada 'SELECT * FROM rang'

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast::prelude::*;

struct FrontDesk;

/// Sets a reminder, or moves the one of the same name.
#[derive(Serialize, Deserialize)]
struct Remind {
    of: String,
    seconds: u64,
}

#[derive(Serialize, Deserialize)]
struct Ring {
    of: String,
}

impl Object for FrontDesk {
    const CLASS: &'static str = "desk";
    type Calls = (Remind, Ring);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE rang (of TEXT, at INTEGER)"];
}

impl Handle<Remind> for FrontDesk {
    const NAME: &'static str = "remind";
    const PUBLIC: bool = true;
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Remind { of, seconds }: Remind) -> Result<()> {
        turn.set_alarm(&of.clone(), Duration::from_secs(seconds), Ring { of });
        Ok(())
    }
}

impl Handle<Ring> for FrontDesk {
    const NAME: &'static str = "ring";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, Ring { of }: Ring) -> Result<()> {
        turn.sql().execute("INSERT INTO rang VALUES (?1, ?2)", (of, turn.now().0))?;
        Ok(())
    }
}

fn main() -> ExitCode {
    steadfast::main(app)
}

fn app() -> Result<App> {
    Ok(App::new("reminders").object(FrontDesk))
}
