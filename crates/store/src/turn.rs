//! Objects in a store: the head, the log of turns, and images of pages. The store does not
//! interpret them.

use std::sync::Arc;

use crate::{Address, EntityId, Position, Timestamp};

/// The head of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of its turns.
    pub seq: i64,
    /// The position of its last turn.
    pub position: Position,
    /// The checksum that is chained over all its turns.
    pub chk: u32,
    /// The turn up to which its images contain it.
    pub base: Base,
}

/// The turn up to which the images of an object contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The object.
    pub entity: EntityId,
    /// The position of its first turn.
    pub number: Position,
    /// The turn; 0 if it has no images.
    pub seq: i64,
    /// The position of that turn.
    pub position: Position,
    /// The chained checksum after it.
    pub chk: u32,
    /// The length of the database after it, in pages.
    pub pages: u32,
    /// Bytes of the stored deltas up to it.
    pub history_bytes: i64,
    /// The turn that images are being written for, in parts.
    pub parts_seq: i64,
    /// The number of parts written.
    pub parts: i64,
}

/// One turn of an object, to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The object.
    pub object: Address,
    /// The message that was delivered, if it was one.
    pub cause: Option<Position>,
    /// The number of messages that it sends.
    pub sent: u32,
    /// The chained checksum after it.
    pub chk: u32,
    /// The name of the message.
    pub input: Box<str>,
    /// The changed pages.
    pub delta: Arc<[u8]>,
}

/// A stored turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTurn {
    /// Its position in the store.
    pub position: Position,
    /// The object.
    pub entity: EntityId,
    /// Its number, from 1.
    pub seq: i64,
    /// The position of the turn before; 0 for the first.
    pub prev: Position,
    /// When it was committed.
    pub at: Timestamp,
    /// The message that was delivered, if it was one.
    pub cause: Option<Position>,
    /// The number of messages that it sent.
    pub sent: u32,
    /// The chained checksum after it.
    pub chk: u32,
    /// The name of the message.
    pub input: Box<str>,
    /// The changed pages.
    pub delta: Arc<[u8]>,
}

/// The image of one page after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageImage {
    /// The page, from 1.
    pub page: u32,
    /// The turn.
    pub seq: i64,
    /// The checksum of the whole page.
    pub crc: u32,
    /// The page, packed.
    pub data: Arc<[u8]>,
}

/// Images of the current pages of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// The object.
    pub entity: EntityId,
    /// The part, from 0. A part is rejected if the previous one is missing: otherwise the last one
    /// would mark incomplete images as complete.
    pub part: i64,
    /// The pages.
    pub images: Vec<PageImage>,
    /// Set if all pages have current images with these: then a load does not need the turns up to
    /// here.
    pub complete: Option<Complete>,
}

/// The state of an object whose pages all have images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    /// The length of its database, in pages.
    pub pages: u32,
    /// Bytes of the deltas that a load does not need any more.
    pub tail_bytes: i64,
}

/// A turn as the sweep sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldTurn {
    /// Its position in the store.
    pub position: Position,
    /// The object.
    pub entity: EntityId,
    /// When it was committed.
    pub at: Timestamp,
    /// Whether the images contain it, so that deleting it loses only history.
    pub is_history: bool,
}

/// A turn without its changed pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSummary {
    /// Its position in the store.
    pub position: Position,
    /// The object.
    pub entity: EntityId,
    /// Its number, from 1.
    pub seq: i64,
    /// The position of the turn before; 0 for the first.
    pub prev: Position,
    /// When it was committed.
    pub at: Timestamp,
    /// The message that was delivered, if it was one.
    pub cause: Option<Position>,
    /// The number of messages that it sent.
    pub sent: u32,
    /// The name of the message.
    pub input: Box<str>,
    /// Bytes of the changed pages.
    pub bytes: i64,
}

/// One object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSummary {
    /// Its address.
    pub address: Address,
    /// When its name was first used.
    pub created_at: Timestamp,
    /// When its last turn was committed, if that turn is still kept.
    pub updated_at: Option<Timestamp>,
    /// Its head.
    pub head: Head,
}
