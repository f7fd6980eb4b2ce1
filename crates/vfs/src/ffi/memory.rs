//! Memory of the whole process: how SQLite allocates it, and how it is returned to the system.

use std::ffi::{c_int, c_void};

use rusqlite::ffi::{SQLITE_CONFIG_MEMSTATUS, SQLITE_CONFIG_PAGECACHE, SQLITE_OK, sqlite3_config};

/// Makes memory allocation of SQLite faster, in the whole process: SQLite does not count it under a
/// lock, and allocates none for pages before it needs them. Call it in the first line of `main`: it
/// does nothing, and returns `false`, once there are other threads or SQLite is in use. Everything
/// works without it.
pub fn tune_sqlite() -> bool {
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

/// Returns memory to the system as soon as it is free, if the feature `mimalloc` is on. Otherwise
/// that allocator returns it a second later, if it is used then.
pub fn keep_no_memory() {
    #[cfg(feature = "mimalloc")]
    {
        /// `mi_option_purge_delay`, in milliseconds. The crate does not name it; its number is
        /// stable, since mimalloc does not reuse the numbers of removed options.
        const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
        // SAFETY: it may be called at any time by any thread. It stores a number.
        unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) };
    }
}

/// Returns free memory to the system, where the allocator keeps it otherwise: mimalloc, if the
/// feature is on, and that of the C library, which SQLite uses in any case. Call it after many
/// databases were dropped; it takes a millisecond or more.
pub fn give_memory_back() {
    #[cfg(feature = "mimalloc")]
    // SAFETY: any thread may call it at any time, even if nothing else uses that allocator.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> c_int;
        }
        // SAFETY: glibc declares it so; it takes the locks it needs and touches only memory that is
        // free.
        unsafe { malloc_trim(0) };
    }
}
