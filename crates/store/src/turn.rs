//! What a store keeps of an object: where it stands, the log of its turns, and images of its pages.
//! The store does not look into them.

use std::sync::Arc;

use crate::{Address, EntityId, Position, Timestamp};

/// Where an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its turns so far.
    pub seq: i64,
    /// The position of its last turn.
    pub position: Position,
    /// The checksum that is chained over all its turns.
    pub chk: u32,
    /// Up to where its images hold it.
    pub base: Base,
}

/// Up to which turn the images of an object hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Which object.
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
    /// Bytes of the deltas up to it that are kept.
    pub history_bytes: i64,
    /// The turn that images are being written for, in parts.
    pub parts_seq: i64,
    /// How many of the parts are there.
    pub parts: i64,
}

/// One turn of an object, to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Which object.
    pub object: Address,
    /// The message that was delivered, if it was one.
    pub cause: Option<Position>,
    /// How many messages it sends.
    pub sent: u32,
    /// The chained checksum after it.
    pub chk: u32,
    /// What it was about: the name of the message.
    pub input: Box<str>,
    /// What it changed.
    pub delta: Arc<[u8]>,
}

/// A turn as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTurn {
    /// Its place in the store.
    pub position: Position,
    /// Which object.
    pub entity: EntityId,
    /// Its number, from 1.
    pub seq: i64,
    /// The position of the turn before; 0 for the first.
    pub prev: Position,
    /// When it was committed.
    pub at: Timestamp,
    /// The message that was delivered, if it was one.
    pub cause: Option<Position>,
    /// How many messages it sent.
    pub sent: u32,
    /// The chained checksum after it.
    pub chk: u32,
    /// What it was about.
    pub input: Box<str>,
    /// What it changed.
    pub delta: Arc<[u8]>,
}

/// What one page looked like after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageImage {
    /// Which page, from 1.
    pub page: u32,
    /// After which turn.
    pub seq: i64,
    /// The checksum of the whole page.
    pub crc: u32,
    /// The page, packed.
    pub data: Arc<[u8]>,
}

/// Images of pages as they are at the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Which object.
    pub entity: EntityId,
    /// Which part this is, from 0. A part is refused if the one before it is not there: without it
    /// the last one would say that all are.
    pub part: i64,
    /// The pages.
    pub images: Vec<PageImage>,
    /// Set if with these all pages have images that are as new as they are: then the turns up to
    /// here are history.
    pub complete: Option<Complete>,
}

/// What is known of an object when all its pages have images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    /// The length of its database, in pages.
    pub pages: u32,
    /// Bytes of the deltas that became history with it.
    pub tail_bytes: i64,
}

/// How far the sweep of the turn log looks at one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldTurn {
    /// Its place in the store.
    pub position: Position,
    /// Which object.
    pub entity: EntityId,
    /// When it was committed.
    pub at: Timestamp,
    /// Whether the images hold it, so that only history would be lost.
    pub is_history: bool,
}

/// A turn without what it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSummary {
    /// Its place in the store.
    pub position: Position,
    /// Which object.
    pub entity: EntityId,
    /// Its number, from 1.
    pub seq: i64,
    /// The position of the turn before; 0 for the first.
    pub prev: Position,
    /// When it was committed.
    pub at: Timestamp,
    /// The message that was delivered, if it was one.
    pub cause: Option<Position>,
    /// How many messages it sent.
    pub sent: u32,
    /// What it was about.
    pub input: Box<str>,
    /// Bytes of what it changed.
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
    /// Where it stands.
    pub head: Head,
}
