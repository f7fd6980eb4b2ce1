//! Settings of SQLite for the whole process.

use std::ffi::{c_int, c_void};

use rusqlite::ffi::{SQLITE_CONFIG_MEMSTATUS, SQLITE_CONFIG_PAGECACHE, SQLITE_OK, sqlite3_config};

/// Sets that SQLite does not count its memory under a lock, and takes none for pages before it
/// needs them. `false` if SQLite is in use already, or if this process has other threads.
pub(crate) fn configure() -> bool {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|it| it.count() == 1) {
        // SAFETY: these settings must not be made while another thread uses SQLite, and there is
        // no other thread. An SQLite that is in use refuses. The arguments are those that the two
        // settings take: an int; a pointer and two ints.
        unsafe {
            let counts = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
            let none = std::ptr::null_mut::<c_void>();
            let begins = sqlite3_config(SQLITE_CONFIG_PAGECACHE, none, 0 as c_int, 0 as c_int);
            counts == SQLITE_OK && begins == SQLITE_OK
        }
    } else {
        false
    }
}
