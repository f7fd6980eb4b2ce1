//! Messages of a room and its members.

use serde::{Deserialize, Serialize};
use steadfast_core::ConnectionId;

/// A message of a connected member.
#[derive(Debug, Serialize, Deserialize)]
pub struct Said {
    /// Chosen by who says it. The same key again is the same line.
    pub key: String,
    /// The text.
    pub text: String,
}

/// Says something without being connected.
#[derive(Debug, Serialize, Deserialize)]
pub struct Say {
    /// As in [`Said`].
    pub key: String,
    /// The member who says it.
    pub who: String,
    /// The text.
    pub text: String,
}

/// Asks for the newest lines between two others.
#[derive(Debug, Serialize, Deserialize)]
pub struct History {
    /// Behind this line.
    #[serde(default)]
    pub after: i64,
    /// Before this one, if it is given.
    #[serde(default)]
    pub before: Option<i64>,
    /// At most so many.
    pub limit: u32,
}

/// The alarm of somebody who says nothing.
#[derive(Debug, Serialize, Deserialize)]
pub struct LeaveIdle {
    /// The member.
    pub connection: ConnectionId,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number; each room counts its own.
    pub id: i64,
    /// The key that it was said with.
    pub key: String,
    /// The member who said it.
    pub who: String,
    /// The text.
    pub text: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

/// A message to a connected member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Event {
    /// A line.
    Line(Line),
    /// Lines between two others were left out; ask for them with [`History`].
    Earlier {
        /// Behind this one.
        after: i64,
        /// Before this one.
        before: i64,
    },
    /// The members in the room.
    Here {
        /// Their names.
        names: Vec<String>,
    },
    /// The answer to `ping`.
    Pong,
}
