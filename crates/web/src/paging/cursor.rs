//! Cursors: the end of a page, opaque to clients so that their content may change.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use steadfast_core::store::{Address, Position, Timestamp, Version};

/// The key of the last row of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// In a list ordered by address.
    Address(Address),
    /// In a list ordered by position.
    Position(Position),
    /// In a list ordered by version.
    Version(Version),
    /// In a list ordered by due time.
    Due(Timestamp, Position),
    /// In a list ordered by name.
    Name(String),
    /// In a list ordered by time, in milliseconds, and id.
    Time(i64, String),
}

impl Cursor {
    /// Encodes it, safe for a URL.
    pub fn encode(&self) -> String {
        let text = match self {
            Cursor::Address(address) => format!("a{address}"),
            Cursor::Position(position) => format!("p{position}"),
            Cursor::Version(version) => format!("v{version}"),
            Cursor::Due(due_at, position) => format!("d{}.{position}", due_at.0),
            Cursor::Name(name) => format!("n{name}"),
            Cursor::Time(at, id) => format!("t{at}.{id}"),
        };
        HEXLOWER.encode(text.as_bytes())
    }

    /// Decodes the text of `encode`.
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let number = |text: &str| text.parse::<i64>().ok().filter(|it| 0 <= *it);
        match text.split_at_checked(1)? {
            ("a", address) => address.parse().ok().map(Cursor::Address),
            ("p", position) => number(position).map(Cursor::Position),
            ("v", version) => number(version).map(Cursor::Version),
            ("d", due) => {
                let (due_at, position) = due.split_once('.')?;
                Some(Cursor::Due(Timestamp(due_at.parse().ok()?), number(position)?))
            }
            ("n", name) => Some(Cursor::Name(name.into())),
            ("t", time) => {
                let (at, id) = time.split_once('.')?;
                Some(Cursor::Time(at.parse().ok()?, id.into()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips() {
        let address = "process/checkout/ü/ö?".parse().unwrap();
        let due = Cursor::Due(Timestamp(-5), 17);
        let name = Cursor::Name("ü/\0".into());
        let address = Cursor::Address(address);
        let time = Cursor::Time(17, "cat.png".into());
        for cursor in [address, Cursor::Position(17), Cursor::Version(0), due, name, time] {
            assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
        }
    }

    #[test]
    fn a_broken_cursor_is_refused() {
        for broken in
            ["", "7", "xx", "7031x", "71", "702d31", "7078", "ff", "6178", "ü", "6435", "7435"]
        {
            assert_eq!(Cursor::decode(broken), None, "{broken}");
        }
    }
}
