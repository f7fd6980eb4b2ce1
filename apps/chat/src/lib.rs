//! Chat rooms. A room is an object: its members are its connections, and its lines are rows in its
//! database.
//!
//! A member joins with a `name`, and hears the lines after the last one seen. Lines have numbers,
//! and a member gives each one a key, so that neither a broken connection nor a killed server loses
//! a line or doubles one.

mod line;
mod page;
mod wire;

use std::time::Duration;

use steadfast_core::{App, Closed, Connection, ConnectionId, Error, Handle, Object, Result, Turn};
use steadfast_web::Serve;

pub use self::wire::{Event, History, LeaveIdle, Line, Said, Say};

/// Characters of a name.
const NAME_CHARS_MAX: usize = 40;
/// In a room with more people it is not told who is there.
const ANNOUNCED_MAX: usize = 100;
/// Lines that a new connection gets: those that it missed, or the last `FIRST` on a first visit.
const MISSED_MAX: u32 = 500;
const FIRST: u32 = 50;
const MISSED_BYTES_MAX: usize = 256 << 10;

/// Chat rooms.
#[derive(Debug)]
pub struct Chat {
    /// A member leaves after this time of silence.
    pub idle: Duration,
}

impl Object for Chat {
    const CLASS: &'static str = "chat";
    type Calls = (History, Say, LeaveIdle);
    const MIGRATIONS: &'static [&'static str] = &["CREATE TABLE line (\
         id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, who TEXT NOT NULL, \
         text TEXT NOT NULL, at INTEGER NOT NULL) STRICT"];

    /// Browsers cannot send pings of the protocol.
    const AUTO_REPLY: &'static [(&'static str, &'static str)] = &[("ping", r#"{"kind":"pong"}"#)];

    fn connected(&self, turn: &Turn<Self>, connection: &Connection) -> Result<()> {
        let name = connection.param("name").unwrap_or_default().trim();
        if !is_name(name) {
            return Err(no_name());
        }
        turn.attach(connection.id, &name);
        self.catch_up(turn, connection)?;
        self.stay(turn, connection.id);
        tell_who_is_here(turn)
    }

    fn received(&self, turn: &Turn<Self>, connection: &Connection, text: &str) -> Result<()> {
        let said: Said = serde_json::from_str(text).map_err(|error| {
            Error::terminal(format!("say {{\"key\", \"text\"}}: {error}")).with_code("malformed")
        })?;
        self.stay(turn, connection.id);
        let (line, is_new) = line::say(turn, &said.key, &name_of(connection)?, &said.text)?;
        if !is_new {
            // A member who repeats a line has not seen it.
            turn.tell(connection.id, &Event::Line(line));
        }
        Ok(())
    }

    fn closed(&self, turn: &Turn<Self>, connection: &Connection, _: &Closed) -> Result<()> {
        turn.cancel_alarm(&idle_alarm(connection.id));
        tell_who_is_here(turn)
    }
}

impl Chat {
    /// Sends a new connection the lines that it missed, and says which were left out.
    fn catch_up(&self, turn: &Turn<Self>, connection: &Connection) -> Result<()> {
        let last_seen = connection.last_seen();
        let limit = last_seen.map_or(FIRST, |_| MISSED_MAX);
        let after = last_seen.unwrap_or(0);
        let lines = line::between(turn, after, None, limit + 1)?;
        // One more line was read than is sent, to know whether there are others. The connection
        // gets no more bytes than it can take at once.
        let mut bytes = 0;
        let fits = lines.iter().rev().take(limit as usize).take_while(|it| {
            bytes += it.text.len();
            bytes <= MISSED_BYTES_MAX
        });
        let told = lines.len() - fits.count();
        if let Some(first) = lines.get(told).filter(|_| 0 < told) {
            turn.tell(connection.id, &Event::Earlier { after, before: first.id });
        }
        for line in lines.into_iter().skip(told) {
            turn.numbered(line.id).tell(connection.id, &Event::Line(line));
        }
        Ok(())
    }

    /// Restarts the time after which an idle member leaves.
    fn stay(&self, turn: &Turn<Self>, connection: ConnectionId) {
        turn.set_alarm(&idle_alarm(connection), self.idle, LeaveIdle { connection });
    }
}

impl Handle<LeaveIdle> for Chat {
    const NAME: &'static str = "leave-idle";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: LeaveIdle) -> Result<()> {
        turn.close(msg.connection, "inactive for too long");
        Ok(())
    }
}

impl Handle<History> for Chat {
    const NAME: &'static str = "history";
    const PUBLIC: bool = true;
    type Reply = Vec<Line>;

    fn handle(&self, turn: &Turn<Self>, msg: History) -> Result<Vec<Line>> {
        line::between(turn, msg.after, msg.before, msg.limit.clamp(1, MISSED_MAX))
    }
}

impl Handle<Say> for Chat {
    const NAME: &'static str = "say";
    const PUBLIC: bool = true;
    type Reply = Line;

    fn handle(&self, turn: &Turn<Self>, msg: Say) -> Result<Line> {
        Ok(line::say(turn, &msg.key, &msg.who, &msg.text)?.0)
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.chars().count())
}

pub(crate) fn no_name() -> Error {
    let text = format!("a name must have 1 to {NAME_CHARS_MAX} characters");
    Error::terminal(text).with_code("no_name")
}

fn tell_who_is_here(turn: &Turn<Chat>) -> Result<()> {
    // Where many come and go, nobody reads who.
    if turn.connection_count()? <= ANNOUNCED_MAX {
        let names = turn.connections()?.iter().map(name_of).collect::<Result<_>>()?;
        turn.broadcast(&Event::Here { names });
    }
    Ok(())
}

fn name_of(connection: &Connection) -> Result<String> {
    connection.attachment()?.ok_or_else(|| Error::terminal("a connection without a name"))
}

fn idle_alarm(connection: ConnectionId) -> String {
    format!("idle {connection}")
}

/// A member that sends nothing for this time leaves the room.
const IDLE: Duration = Duration::from_mins(10);

/// The application.
pub fn app() -> App {
    App::new("chat")
        .object(Chat { idle: IDLE })
        .page("Chat", "/chat", "Chat rooms; each is an object")
        .routes("", page::routes)
}
