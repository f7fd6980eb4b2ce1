//! Options and limits of objects.

use std::time::Duration;

use steadfast_store::RetryPolicy;
use steadfast_vfs::{Limits, PAGE_SIZE};

/// Plain settings of objects.
#[derive(Clone, Copy, Debug)]
pub struct ObjectOptions {
    /// Threads that run turns.
    pub threads: usize,
    /// Calls that may wait for one object.
    pub mailbox_max: usize,
    /// Maximum objects in memory; beyond it, the least recently used ones are evicted.
    pub awake_max: usize,
    /// Approximate maximum bytes of objects in memory; beyond it, the same happens.
    pub awake_bytes_max: usize,
    /// Idle time after which an object is evicted; at most twice as long.
    pub idle_time: Duration,
    /// Maximum SQL time of one turn.
    pub turn_time: Duration,
    /// Maximum time of the migrations of one object.
    pub migration_time: Duration,
    /// Bytes that one turn may change.
    pub delta_bytes_max: usize,
    /// Bytes of one database.
    pub database_bytes_max: u64,
    /// Live connections of one object.
    pub connections_max: usize,
    /// Live connections of all objects.
    pub all_connections_max: usize,
    /// Maximum unread bytes of one connection; beyond it the connection is closed.
    pub unread_bytes_max: usize,
    /// The retry policy of alarms whose handlers fail.
    pub alarm_retry: RetryPolicy,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            threads: cores.max(2),
            mailbox_max: 1_024,
            awake_max: 10_000,
            awake_bytes_max: 256 << 20,
            idle_time: Duration::from_secs(30),
            turn_time: Duration::from_secs(5),
            migration_time: Duration::from_mins(1),
            delta_bytes_max: 16 << 20,
            database_bytes_max: 256 << 20,
            connections_max: 10_000,
            all_connections_max: 20_000,
            unread_bytes_max: 1 << 20,
            alarm_retry: RetryPolicy {
                attempts_max: 20,
                delay: Duration::from_secs(2),
                delay_max: Duration::from_mins(10),
            },
        }
    }
}

impl ObjectOptions {
    pub(super) fn limits(&self) -> Limits {
        let pages_max = self.database_bytes_max / PAGE_SIZE as u64;
        let pages_max = u32::try_from(pages_max).unwrap_or(u32::MAX);
        Limits { pages_max, ..Limits::default() }
    }
}
