//! Objects in the store: reading them, loading pages lazily, writing page images, and restoring
//! past states. Nothing here runs a turn.

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
