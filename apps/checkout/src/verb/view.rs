//! The table of the example, growing.

use std::io::{IsTerminal, stdout};

use rustix::termios::{Winsize, tcgetwinsize};
use steadfast_core::{
    Result,
    store::{Direction, MessageKind, Recorded, SettledAs, State, Timestamp},
};
use steadfast_web::print;

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
    /// The rows on the screen.
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
    pub(super) fn say(&self, text: &str) -> Result<()> {
        print(text).map(drop)
    }

    /// Shows the stream as it is now.
    pub(super) fn show(&mut self, stream: &[Recorded]) -> Result<()> {
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
        print(&text).map(drop)
    }

    /// Shows the whole stream at its end.
    pub(super) fn finish(&self, stream: &[Recorded]) -> Result<()> {
        let outcome = stream.iter().rev().find(|it| it.action == "publish");
        let outcome = outcome.map_or("Completed", |it| it.message_type.as_str());
        if !self.in_place {
            print(&format!("\nThe stream when it ended:\n\n{}{}", heading(), self.rows.concat()))?;
        }
        let text =
            format!("\n{outcome}: {} messages. Run it again for a new checkout.\n", stream.len());
        print(&text).map(drop)
    }
}

fn heading() -> String {
    line(["POSITION", "KIND", "DIRECTION", "TYPE", "PROCESSED", "EXECUTED AT"])
}

fn row(message: &Recorded) -> String {
    let (processed, executed) = match &message.state {
        None => ("-", None),
        Some(State::Pending { .. } | State::InFlight { .. }) => ("no", None),
        Some(State::Settled(settled)) => match settled.as_ {
            SettledAs::Done => ("yes", Some(time_of_day(settled.at))),
            SettledAs::Dead => ("dead", None),
            SettledAs::Cancelled => ("cancelled", None),
        },
    };
    let executed = executed.unwrap_or_else(|| "-".into());
    let position = message.version.to_string();
    let kind = match message.kind {
        MessageKind::Command => "command",
        MessageKind::Event => "event",
    };
    let direction = match message.direction {
        Direction::Input => "input",
        Direction::Output => "output",
    };
    line([&position, kind, direction, &message.message_type, processed, &executed])
}

/// Hours, minutes, seconds and milliseconds, in UTC.
fn time_of_day(Timestamp(ms): Timestamp) -> String {
    let (seconds, ms) = (ms.div_euclid(1_000), ms.rem_euclid(1_000));
    let (hours, minutes) = (seconds.div_euclid(3_600).rem_euclid(24), seconds.rem_euclid(3_600));
    format!("{hours:02}:{:02}:{:02}.{ms:03}", minutes / 60, minutes % 60)
}

fn line([position, kind, direction, type_, processed, executed]: [&str; 6]) -> String {
    let line = format!(
        "{position:<8}  {kind:<7}  {direction:<9}  {type_:<22}  {processed:<9}  {executed}"
    );
    format!("{}\n", line.trim_end())
}
