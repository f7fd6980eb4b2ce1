//! Memory that is free goes back to the system.

/// Has SQLite take less time for its memory, in the whole process. For the first line of `main`: it
/// does nothing, and says `false`, once there are other threads or SQLite is in use. Everything
/// works without it.
pub fn tune_sqlite() -> bool {
    crate::ffi::configure()
}

/// Has memory go back to the system as soon as it is free, if the feature `mimalloc` is on.
pub fn keep_no_memory() {
    crate::ffi::trim_at_once();
}

/// Gives free memory back to the system, where the allocator keeps it otherwise. For after many
/// databases were dropped; it takes a millisecond or more.
pub fn give_memory_back() {
    crate::ffi::trim();
}
