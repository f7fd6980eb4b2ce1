//! The table of the example, growing.

use std::io::{ErrorKind, IsTerminal, Write, stdout};

use rustix::termios::{Winsize, tcgetwinsize};
use steadfast_store::Recorded;

use crate::{
    api::wire::{Addresses, Message, MessageState},
    failure::Failure,
};

/// The table's width.
const COLUMNS: u16 = 78;

/// The table's height, with what is around it.
const LINES: u16 = 20;

/// Takes the cursor this many lines up and clears what is below; only sent to a terminal.
fn back(lines: usize) -> String {
    format!("\x1b[{lines}A\x1b[J")
}

/// Shows a stream while it grows: in place on a terminal, else each row once and all at the end.
pub(super) struct View {
    in_place: bool,
    /// What is shown now.
    rows: Vec<String>,
}

impl View {
    /// Nothing is shown yet.
    pub(super) fn new() -> Self {
        let out = stdout();
        // A line that wraps, or a table that scrolls away, cannot be written over.
        let fits = |size: Winsize| COLUMNS <= size.ws_col && LINES <= size.ws_row;
        let in_place = out.is_terminal() && tcgetwinsize(&out).is_ok_and(fits);
        Self { in_place, rows: Vec::new() }
    }

    /// Writes a text above the table.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        write(text)
    }

    /// Shows the stream as it is now.
    pub(super) fn show(&mut self, stream: &[Recorded]) -> Result<(), Failure> {
        let rows: Vec<String> = stream.iter().map(row).collect();
        let mut text = String::new();
        if self.rows.is_empty() {
            text.push_str(&heading());
        }
        if self.in_place && rows != self.rows {
            if !self.rows.is_empty() {
                text.push_str(&back(self.rows.len()));
            }
            text.push_str(&rows.concat());
        } else {
            text.push_str(&rows[self.rows.len().min(rows.len())..].concat());
        }
        self.rows = rows;
        write(&text)
    }

    /// Shows the whole stream at its end.
    pub(super) fn finish(&self, stream: &[Recorded]) -> Result<(), Failure> {
        let outcome = stream.iter().rev().find(|it| it.action == "publish");
        let outcome = outcome.map_or("Completed", |it| it.message_type.as_str());
        if !self.in_place {
            write(&format!("\nThe stream at its end:\n\n{}{}", heading(), self.rows.concat()))?;
        }
        write(&format!("\n{outcome}: {} messages. Run it again for a new one.\n", stream.len()))
    }
}

fn heading() -> String {
    line(["POSITION", "KIND", "DIRECTION", "TYPE", "PROCESSED", "EXECUTED AT"])
}

fn row(recorded: &Recorded) -> String {
    let message = Message::of(recorded, &Addresses::default());
    let processed = match message.state {
        None => "-",
        Some(MessageState::Done) => "yes",
        Some(MessageState::Pending | MessageState::InFlight) => "no",
        Some(state @ (MessageState::Dead | MessageState::Cancelled)) => state.word(),
    };
    let executed = message.processed_at.as_deref().map_or("-", time_of_day);
    let position = message.position.to_string();
    line([&position, &message.kind, &message.direction, &message.type_, processed, executed])
}

fn time_of_day(rfc3339: &str) -> &str {
    rfc3339.split_once('T').map_or(rfc3339, |(_, time)| time).trim_end_matches('Z')
}

fn line([position, kind, direction, type_, processed, executed]: [&str; 6]) -> String {
    let line = format!(
        "{position:<8}  {kind:<7}  {direction:<9}  {type_:<22}  {processed:<9}  {executed}"
    );
    format!("{}\n", line.trim_end())
}

/// A reader that has seen enough is no failure, and the checkout goes on.
fn write(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}
