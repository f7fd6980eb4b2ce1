//! Named points at which a test may kill the process or make the disk fail. The feature
//! `crash-points` compiles them in; without it each is a no-op.

/// The points of a commit, in order. `./test` kills a process at each of them.
pub const COMMIT_POINTS: &[&str] =
    &["commit.begun", "commit.planned", "commit.written", "commit.durable", "commit.answered"];

/// Kills the process here if `STEADFAST_CRASH_AT` is `name:n` and this is the n-th time.
pub fn point(name: &str) {
    #[cfg(feature = "crash-points")]
    armed::point(name);
    #[cfg(not(feature = "crash-points"))]
    let _ = name;
}

/// Whether a test makes the disk fail here.
pub(crate) fn disk_fails() -> bool {
    #[cfg(feature = "crash-points")]
    return armed::FLUSHES.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) <= 0;
    #[cfg(not(feature = "crash-points"))]
    false
}

#[cfg(feature = "crash-points")]
pub use armed::fail_fsync_after;

#[cfg(feature = "crash-points")]
mod armed {
    use std::sync::{
        LazyLock,
        atomic::{AtomicI64, AtomicU64, Ordering},
    };

    struct Trap {
        name: String,
        nth: u64,
        hits: AtomicU64,
    }

    static TRAP: LazyLock<Option<Trap>> = LazyLock::new(|| {
        let text = std::env::var("STEADFAST_CRASH_AT").ok()?;
        let (name, nth) = text.split_once(':')?;
        Some(Trap { name: name.into(), nth: nth.parse().ok()?, hits: AtomicU64::new(0) })
    });

    /// The number of flushes that still succeed.
    pub(super) static FLUSHES: AtomicI64 = AtomicI64::new(i64::MAX);

    /// Makes flushes to disk fail after this many more, in the whole process.
    pub fn fail_fsync_after(flushes: u32) {
        FLUSHES.store(flushes.into(), Ordering::Relaxed);
    }

    pub(super) fn point(name: &str) {
        if let Some(trap) = &*TRAP
            && trap.name == name
            && trap.hits.fetch_add(1, Ordering::Relaxed) + 1 == trap.nth
        {
            // Like kill -9 from outside: no destructor runs, nothing is flushed.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
    }
}
