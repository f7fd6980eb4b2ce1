//! Memory that is free goes back to the system.

/// Gives free memory back to the system, where the allocator keeps it otherwise. For after many
/// databases were dropped; it takes a millisecond or more.
pub fn give_memory_back() {
    crate::ffi::trim();
}
