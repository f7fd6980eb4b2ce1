//! An object in the store: how it is read, which pages are read later, when its pages are written
//! as images, and how it is seen as it was. Nothing here runs a turn.

mod checkpoint;
mod history;
mod pages;
mod restore;

pub use self::history::{HistoryError, HistoryRetention, Past, pages_at, sweep_history};
pub(super) use self::{
    checkpoint::CheckpointTail,
    pages::StoredPages,
    restore::{Extent, Restored, chain, restore},
};
