//! The lines of a room.

use steadfast_core::{
    Error, Result, Turn,
    rusqlite::{OptionalExtension, params},
};

use crate::{Chat, Event, Line, is_name, no_name};

/// Characters of one line.
const TEXT_CHARS_MAX: usize = 2_000;
/// Bytes of a key.
const KEY_BYTES_MAX: usize = 100;

/// Writes a line down and tells everybody. A line that was said before under the same key is not
/// said again: `false`.
pub(crate) fn say(turn: &Turn<Chat>, key: &str, who: &str, text: &str) -> Result<(Line, bool)> {
    let text = text.trim();
    if !(1..=TEXT_CHARS_MAX).contains(&text.chars().count()) {
        let limit = format!("a line must have 1 to {TEXT_CHARS_MAX} characters");
        return Err(Error::terminal(limit).with_code("invalid_text"));
    }
    if !is_name(who) {
        return Err(no_name());
    }
    if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
        let limit = format!("a key must have 1 to {KEY_BYTES_MAX} bytes");
        return Err(Error::terminal(limit).with_code("invalid_key"));
    }
    let add = "INSERT INTO line (key, who, text, at) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (key) DO NOTHING RETURNING id, key, who, text, at";
    let mut add = turn.sql().prepare_cached(add)?;
    let added = add.query_row(params![key, who, text, turn.now().0], line).optional()?;
    if let Some(line) = added {
        turn.numbered(line.id).broadcast(&Event::Line(line.clone()));
        return Ok((line, true));
    }
    let find = "SELECT id, key, who, text, at FROM line WHERE key = ?1";
    Ok((turn.sql().prepare_cached(find)?.query_row([key], line)?, false))
}

/// The newest lines between two others, in order.
pub(crate) fn between(
    turn: &Turn<Chat>,
    after: i64,
    before: Option<i64>,
    limit: u32,
) -> Result<Vec<Line>> {
    let newest = "SELECT id, key, who, text, at FROM line WHERE id > ?1 AND id < ?2 \
         ORDER BY id DESC LIMIT ?3";
    let mut newest = turn.sql().prepare_cached(newest)?;
    let lines = newest.query_map(params![after, before.unwrap_or(i64::MAX), limit], line)?;
    let mut lines = lines.collect::<Result<Vec<_>, _>>()?;
    lines.reverse();
    Ok(lines)
}

fn line(row: &steadfast_core::rusqlite::Row<'_>) -> steadfast_core::rusqlite::Result<Line> {
    Ok(Line {
        id: row.get(0)?,
        key: row.get(1)?,
        who: row.get(2)?,
        text: row.get(3)?,
        at: row.get(4)?,
    })
}
