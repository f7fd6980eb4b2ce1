//! Evicts idle objects. An evicted object is rows in the store: no file, no task.

use std::sync::Weak;

use super::Scheduler;

/// Checks after which memory is returned to the system, even under load.
const LOOKS: u32 = 20;

/// Checks once per idle time. Objects that were not used between two checks are evicted, so after
/// one to two idle times.
pub(super) async fn run(scheduler: Weak<Scheduler>) {
    steadfast_vfs::keep_no_memory();
    let (mut seen, mut unreturned) = (0, UnreturnedMemory::default());
    loop {
        let Some((clock, pause)) =
            scheduler.upgrade().map(|it| (it.clock.clone(), it.options.idle_time))
        else {
            return;
        };
        clock.sleep(pause).await;
        let Some(scheduler) = scheduler.upgrade() else { return };
        let calls = scheduler.table.calls();
        // Closing many databases would block other tasks on this thread.
        let sleep = move || scheduler.table.sleep(seen);
        let gone = tokio::task::spawn_blocking(sleep).await.unwrap_or_default();
        if unreturned.is_time(gone as u64, calls - seen) {
            let _ = tokio::task::spawn_blocking(steadfast_vfs::give_memory_back).await;
        }
        seen = calls;
    }
}

/// Memory that is not yet returned to the system. Under load it is reused soon, and returning it
/// delays all calls.
#[derive(Default)]
struct UnreturnedMemory {
    /// Evicted objects.
    objects: u64,
    /// Checks since the first of them.
    looks: u32,
}

impl UnreturnedMemory {
    /// Whether to return it now.
    fn is_time(&mut self, gone: u64, calls: u64) -> bool {
        self.objects += gone;
        if self.objects == 0 {
            return false;
        }
        self.looks += 1;
        let is_time = calls < self.objects || LOOKS <= self.looks;
        if is_time {
            *self = Self::default();
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_when_it_is_quiet_and_sooner_or_later_all_the_same() {
        let mut unreturned = UnreturnedMemory::default();
        assert!(!unreturned.is_time(0, 0), "nothing has gone");
        assert!(unreturned.is_time(1_000, 200), "it is quiet");
        assert!(!unreturned.is_time(0, 0), "nothing is left");
        let busy = |unreturned: &mut UnreturnedMemory, gone| unreturned.is_time(gone, 5_000);
        assert!(!busy(&mut unreturned, 1_000));
        assert!(!busy(&mut unreturned, 1_000));
        assert!(unreturned.is_time(0, 1_999), "enough is unreturned by now");
        assert!(!busy(&mut unreturned, 1));
        let looks = (0..LOOKS).position(|_| busy(&mut unreturned, 0));
        assert_eq!(looks, Some(LOOKS as usize - 2));
    }
}
