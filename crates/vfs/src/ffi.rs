//! The VFS of an image: one for each connection.
//!
//! SQLite passes a temporary file to a VFS, but not its connection. All temporary files of a
//! connection share one budget, so each connection is opened with a VFS of its own ([`slot`]),
//! registered only while it is opened. Later lookups by name, for the copy that VACUUM makes, find
//! the one VFS that stays registered, `steadfast`.
//!
//! No panic reaches C: every function that SQLite calls does its work inside [`guard`].

mod file;
mod memory;
mod slot;
mod vfs;

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
    sync::Arc,
};

use rusqlite::{Connection, ffi as sqlite};

pub(crate) use self::slot::Lease;
use self::slot::guard;
pub use self::{
    memory::{give_memory_back, keep_no_memory, tune_sqlite},
    vfs::at_time,
};
use crate::image::Image;

/// Opens the image with a VFS of its own.
pub(crate) fn open(image: &Arc<Image>) -> rusqlite::Result<(Connection, Arc<Lease>)> {
    slot::open(image, vfs::METHODS)
}

/// Makes the small-object memory of a connection 16 KiB instead of 48. Best effort: SQLite works
/// with either.
pub(crate) fn shrink_lookaside(connection: &Connection) {
    const SIZE: c_int = 512;
    const COUNT: c_int = 32;
    // SAFETY: the handle is open for as long as `connection` lives. For this operation the variable
    // arguments are a pointer, where null lets SQLite allocate, and two ints.
    unsafe {
        let buffer = ptr::null_mut::<c_void>();
        let operation = sqlite::SQLITE_DBCONFIG_LOOKASIDE;
        sqlite::sqlite3_db_config(connection.handle(), operation, buffer, SIZE, COUNT);
    }
}

/// Refuses to attach any file, and to VACUUM into one, which attaches it first.
pub(crate) fn guard_attach(connection: &Connection, lease: &Lease) {
    let user = ptr::from_ref(lease.slot()).cast_mut().cast::<c_void>();
    // SAFETY: the handle is open for as long as `connection` lives. `user` is a slot, which is
    // never freed, so it outlives every call.
    unsafe {
        sqlite::sqlite3_set_authorizer(connection.handle(), Some(authorize), user);
    }
}

unsafe extern "C" fn authorize(
    user: *mut c_void,
    action: c_int,
    first: *const c_char,
    _: *const c_char,
    _: *const c_char,
    _: *const c_char,
) -> c_int {
    if action != sqlite::SQLITE_ATTACH {
        return sqlite::SQLITE_OK;
    }
    guard(sqlite::SQLITE_DENY, || {
        // SAFETY: for this action SQLite passes the file's name as a C string, or null if it is not
        // known before it runs.
        let plain = !first.is_null() && unsafe { CStr::from_ptr(first) }.is_empty();
        if !plain {
            return sqlite::SQLITE_DENY;
        }
        // SAFETY: `guard_attach` registered this function with a slot, which is never freed.
        let slot = unsafe { &*user.cast::<slot::Slot>() };
        slot::note_attach(slot);
        sqlite::SQLITE_OK
    })
}
