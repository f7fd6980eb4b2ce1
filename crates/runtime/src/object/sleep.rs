//! Objects that nobody uses leave memory. A sleeping object is rows in the store: no file, no task.

use std::sync::Weak;

use super::objects::Shared;

/// From so many on it is worth to give their memory back to the system.
const MANY: usize = 100;

/// Looks once in the time that an object may be idle. What was not used between two looks goes, so
/// after one to two such times.
pub(super) async fn run(shared: Weak<Shared>) {
    let mut seen = 0;
    loop {
        let Some((clock, pause)) =
            shared.upgrade().map(|it| (it.clock.clone(), it.options.idle_time))
        else {
            return;
        };
        clock.sleep_until(clock.now().after(pause)).await;
        let Some(shared) = shared.upgrade() else { return };
        let calls = shared.awake.calls();
        let gone = shared.awake.sleep(seen);
        if MANY <= gone {
            // It takes long enough to be in the way of others here.
            let _ = tokio::task::spawn_blocking(steadfast_vfs::give_memory_back).await;
        }
        seen = calls;
    }
}
