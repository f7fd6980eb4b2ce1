//! The branches of a run. Each branch is a sequence of its own, so that a replay can identify
//! concurrent steps in any order.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use super::{ctx::Ctx, record::Key};

/// The prefix of the scopes of the branches of a combination.
pub(super) fn within(key: &Key) -> String {
    let Key { scope, kind, name, count } = key;
    format!("{scope}{kind}{name}#{count}.")
}

/// A future whose steps are in a branch of their own.
pub(super) struct Branch<'a, F> {
    ctx: &'a Ctx,
    scope: String,
    future: Pin<Box<F>>,
}

impl<'a, F: Future> Branch<'a, F> {
    /// The branch with this number of a combination.
    pub(super) fn new(ctx: &'a Ctx, of: &Key, number: usize, future: F) -> Self {
        Self { ctx, scope: format!("{}{number}/", within(of)), future: Box::pin(future) }
    }

    /// Polls it as the current branch of the run.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = self.ctx.enter(self.scope.clone());
        let polled = self.future.as_mut().poll(context);
        self.ctx.enter(before);
        polled
    }

    /// Polls it, unless it has ended.
    pub(super) fn poll_into(&mut self, context: &mut Context<'_>, result: &mut Option<F::Output>) {
        if result.is_none()
            && let Poll::Ready(value) = self.poll(context)
        {
            *result = Some(value);
        }
    }
}
