//! Code that runs when a scope is left, however it is left.

/// Runs a closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(F);

/// Runs a closure when the scope of the result ends: also by a return, by a panic, and when the
/// future that holds it is dropped.
pub(crate) fn on_drop<F: FnMut()>(run: F) -> OnDrop<F> {
    OnDrop(run)
}

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
