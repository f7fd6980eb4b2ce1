//! A class with connections for the laws: the members, the lines, and how each connection ended.

use serde::{Deserialize, Serialize};
use steadfast_core::{Closed, Connection, Error, Handle, Object, Result, Turn, rusqlite::params};

#[derive(Clone, Debug)]
pub(crate) struct Hall;

/// Adds a line without a connection.
#[derive(Serialize, Deserialize)]
pub(crate) struct Say {
    pub(crate) text: String,
}
/// Sends an event to all and changes nothing.
#[derive(Serialize, Deserialize)]
pub(crate) struct Hint;
/// Deletes the hall in a turn that sends an event to all.
#[derive(Serialize, Deserialize)]
pub(crate) struct Raze;
/// The members by the tables of the class, those by the runtime, and how the others ended.
#[derive(Serialize, Deserialize)]
pub(crate) struct Look;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) here: Vec<String>,
    pub(crate) connected: Vec<String>,
    pub(crate) gone: Vec<(String, u16, String)>,
    pub(crate) said: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) id: i64,
    pub(crate) who: String,
    pub(crate) text: String,
}

impl Object for Hall {
    const CLASS: &'static str = "hall";
    type Calls = (Say, Hint, Look, Raze);
    const MIGRATIONS: &'static [&'static str] = &["\
        CREATE TABLE said (id INTEGER PRIMARY KEY, who TEXT NOT NULL, text TEXT NOT NULL);
        CREATE TABLE here (who TEXT NOT NULL PRIMARY KEY);
        CREATE TABLE gone (id INTEGER PRIMARY KEY, who TEXT, code INTEGER, reason TEXT)"];

    const AUTO_REPLY: &'static [(&'static str, &'static str)] = &[("ping", "\"pong\"")];

    fn connected(&self, turn: &Turn<Self>, connection: &Connection) -> Result<()> {
        let name = connection.param("name").unwrap_or("somebody");
        turn.sql().execute("INSERT INTO here VALUES (?1)", [name])?;
        turn.attach(connection.id, &name);
        turn.set_tags(connection.id, &[name, "guest"]);
        if name == "nobody" {
            return Err(Error::terminal("nobody may come in").with_code("no_entry"));
        }
        let missed = "SELECT id, who, text FROM said WHERE id > ?1 ORDER BY id";
        let mut missed = turn.sql().prepare(missed)?;
        let missed = missed.query_map([connection.last_seen().unwrap_or(i64::MAX)], |row| {
            Ok(Line { id: row.get(0)?, who: row.get(1)?, text: row.get(2)? })
        })?;
        for line in missed {
            let line = line?;
            turn.numbered(line.id).tell(connection.id, &line);
        }
        Ok(())
    }

    fn received(&self, turn: &Turn<Self>, connection: &Connection, text: &str) -> Result<()> {
        let who: String = connection.attachment()?.unwrap_or_default();
        Self::say(turn, &who, text)?;
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        match verb {
            "refuse" => return Err(Error::terminal("not this").with_code("no_such_word")),
            "panic" => panic!("as the test wanted"),
            "whisper" => turn.broadcast_to(rest, &format!("{who} whispers")),
            "kick" => {
                let all = turn.connections()?;
                let kicked = all.iter().filter(|it| it.tags.iter().any(|it| it == rest));
                kicked.for_each(|it| turn.close(it.id, "kicked"));
            }
            "rename" => turn.attach(connection.id, &rest),
            "maybe" => {
                let _ = turn.attempt(|| {
                    turn.broadcast(&"never");
                    turn.set_tags(connection.id, &["never"]);
                    Err::<(), _>(Error::terminal("given up"))
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn closed(&self, turn: &Turn<Self>, connection: &Connection, closed: &Closed) -> Result<()> {
        let who: String = connection.attachment()?.unwrap_or_default();
        turn.sql().execute("DELETE FROM here WHERE who = ?1", [&who])?;
        turn.sql().execute(
            "INSERT INTO gone (who, code, reason) VALUES (?1, ?2, ?3)",
            params![who, closed.code, closed.reason],
        )?;
        if who == "stubborn" {
            return Err(Error::terminal("stays"));
        }
        if who == "angry" {
            panic!("as the test wanted");
        }
        // One of them sends little; all of them together exceed the limit of a turn.
        let times = if who.starts_with("chatty") { 30 } else { 1 };
        (0..times).for_each(|_| turn.broadcast(&format!("{who} is gone")));
        Ok(())
    }
}

impl Hall {
    fn say(turn: &Turn<Self>, who: &str, text: &str) -> Result<()> {
        let insert = "INSERT INTO said (who, text) VALUES (?1, ?2) RETURNING id";
        let id = turn.sql().query_row(insert, params![who, text], |row| row.get(0))?;
        let line = Line { id, who: who.into(), text: text.into() };
        turn.numbered(id).broadcast(&line);
        Ok(())
    }

    fn texts(turn: &Turn<Self>, sql: &str) -> Result<Vec<String>> {
        let mut list = turn.sql().prepare(sql)?;
        let texts = list.query_map((), |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(texts)
    }
}

impl Handle<Say> for Hall {
    const NAME: &'static str = "say";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, msg: Say) -> Result<()> {
        Self::say(turn, "hall", &msg.text)
    }
}

impl Handle<Hint> for Hall {
    const NAME: &'static str = "hint";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Hint) -> Result<()> {
        turn.broadcast(&"hint");
        Ok(())
    }
}

impl Handle<Raze> for Hall {
    const NAME: &'static str = "raze";
    type Reply = ();
    fn handle(&self, turn: &Turn<Self>, _: Raze) -> Result<()> {
        turn.broadcast(&"razed");
        turn.delete();
        Ok(())
    }
}

impl Handle<Look> for Hall {
    const NAME: &'static str = "look";
    type Reply = Seen;
    fn handle(&self, turn: &Turn<Self>, _: Look) -> Result<Seen> {
        let mut gone = turn.sql().prepare("SELECT who, code, reason FROM gone ORDER BY id")?;
        let gone = gone.query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let connected = turn.connections()?.into_iter();
        let connected =
            connected.map(|it| it.attachment::<String>().map(Option::unwrap_or_default));
        Ok(Seen {
            here: Self::texts(turn, "SELECT who FROM here ORDER BY who")?,
            connected: connected.collect::<Result<_>>()?,
            gone: gone.collect::<Result<_, _>>()?,
            said: Self::texts(turn, "SELECT text FROM said ORDER BY id")?,
        })
    }
}
