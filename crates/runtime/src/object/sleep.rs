//! Objects that nobody uses leave memory. A sleeping object is rows in the store: no file, no task.

use std::sync::Weak;

use super::objects::Shared;

/// From so many on their memory goes back to the system at once; otherwise when no others follow.
const MANY: usize = 100;

/// Looks once in the time that an object may be idle. What was not used between two looks goes, so
/// after one to two such times.
pub(super) async fn run(shared: Weak<Shared>) {
    let (mut seen, mut owed) = (0, false);
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
        if MANY <= gone || (gone == 0 && owed) {
            // It takes long enough to be in the way of others here.
            let _ = tokio::task::spawn_blocking(steadfast_vfs::give_memory_back).await;
        }
        // Those that went now may leave something for later.
        owed = 0 < gone;
        seen = calls;
    }
}
