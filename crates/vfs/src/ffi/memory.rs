//! Memory of the whole process: how SQLite takes it, and how it goes back to the system.

use std::ffi::{c_int, c_void};

use rusqlite::ffi::{SQLITE_CONFIG_MEMSTATUS, SQLITE_CONFIG_PAGECACHE, SQLITE_OK, sqlite3_config};

/// Has SQLite take less time for its memory, in the whole process: it does not count it under a
/// lock, and takes none for pages before it needs them. For the first line of `main`: it does
/// nothing, and says `false`, once there are other threads or SQLite is in use. Everything works
/// without it.
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

/// Has memory go back to the system as soon as it is free, if the feature `mimalloc` is on. That
/// allocator returns it a second later otherwise, if somebody uses it then.
pub fn keep_no_memory() {
    #[cfg(feature = "mimalloc")]
    {
        /// `mi_option_purge_delay`, in milliseconds. The crate does not name it; its number stays,
        /// since mimalloc leaves the places of options that are gone empty.
        const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
        // SAFETY: it may be called at any time by any thread. It stores a number.
        unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) };
    }
}

/// Gives free memory back to the system, where the allocator keeps it otherwise: mimalloc, if the
/// feature is on, and that of the C library, which SQLite uses in any case. For after many
/// databases were dropped; it takes a millisecond or more.
pub fn give_memory_back() {
    #[cfg(feature = "mimalloc")]
    // SAFETY: it may be called at any time by any thread, also if nobody else uses that allocator.
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
