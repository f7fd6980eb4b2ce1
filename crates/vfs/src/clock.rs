//! The time that SQL returns as 'now'.

use std::cell::Cell;

thread_local! {
    static NOW: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Restores the previous value, on unwinding too.
struct Restore(Option<i64>);

impl Drop for Restore {
    fn drop(&mut self) {
        NOW.set(self.0);
    }
}

/// Runs `f`; SQL on an [`Image`](crate::Image) inside it returns this as 'now':
/// `CURRENT_TIMESTAMP`, `datetime('now')`, `unixepoch()`. It applies to this thread.
pub fn at_time<R>(unix_ms: i64, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(NOW.replace(Some(unix_ms)));
    f()
}

/// The time that [`at_time`] has set, in milliseconds since 1970.
pub(crate) fn now() -> Option<i64> {
    NOW.get()
}
