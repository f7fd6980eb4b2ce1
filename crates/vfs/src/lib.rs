//! SQLite databases with pages in memory, and the reversible deltas of their turns.
//!
//! An [`Image`] holds the pages of one database. [`Image::connect`] opens it with ordinary SQLite
//! over a small VFS. The changes of a turn are one compact delta ([`Image::changes`]), which
//! [`apply`] repeats and [`revert`] undoes, byte for byte. Pages can be loaded lazily from a
//! [`Source`]. Nothing here uses a disk: the caller makes the deltas durable.

#![deny(unsafe_op_in_unsafe_fn)]

mod connect;
mod delta;
#[allow(unsafe_code, reason = "SQLite speaks C; every block argues why it is sound")]
mod ffi;
#[doc(hidden)]
pub mod fuzz;
mod image;
mod source;
mod temp;

pub use self::{
    delta::{DeltaError, apply, apply_to, pack, pages_after, revert, touched, unpack},
    ffi::{at_time, give_memory_back, keep_no_memory, tune_sqlite},
    image::{Image, ImageChanges, Limits},
    source::{NotLoaded, PAGE_SIZE, Page, Source, checksum},
};
