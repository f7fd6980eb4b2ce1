//! Concurrent branches, and the first of several: plain futures, identified by their branch.

use std::{future::poll_fn, panic::Location, task::Poll, time::Duration};

use super::{
    branch::Branch,
    ctx::{Ctx, SourceLine},
    record::Entry,
};
use crate::Result;

/// One of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

impl Ctx {
    /// Runs both concurrently to their ends; returns the first error in source order.
    #[track_caller]
    pub fn join<A: Send, B: Send>(
        &self,
        a: impl Future<Output = Result<A>> + Send,
        b: impl Future<Output = Result<B>> + Send,
    ) -> impl Future<Output = Result<(A, B)>> + Send {
        let line = Location::caller();
        async move {
            let key = self.key("join", "", line).await;
            let (mut a, mut b) = (Branch::new(self, &key, 0, a), Branch::new(self, &key, 1, b));
            let (mut x, mut y) = (None, None);
            poll_fn(|context| {
                a.poll_into(context, &mut x);
                b.poll_into(context, &mut y);
                if x.is_some() && y.is_some() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            match (x, y) {
                (Some(x), Some(y)) => Ok((x?, y?)),
                _ => unreachable!("both were polled to their ends"),
            }
        }
    }

    /// The first of two that is ready; the other is dropped. The winner is recorded.
    #[track_caller]
    pub fn select<A: Send, B: Send>(
        &self,
        a: impl Future<Output = A> + Send,
        b: impl Future<Output = B> + Send,
    ) -> impl Future<Output = Either<A, B>> + Send {
        self.first_of(a, b, Location::caller())
    }

    async fn first_of<A, B>(
        &self,
        a: impl Future<Output = A> + Send,
        b: impl Future<Output = B> + Send,
        line: SourceLine,
    ) -> Either<A, B> {
        let key = self.key("select", "", line).await;
        let known = self.known_value(&key).and_then(|it| it.as_u64());
        let (mut a, mut b) = (Branch::new(self, &key, 0, a), Branch::new(self, &key, 1, b));
        let won = poll_fn(|context| {
            if known != Some(1)
                && let Poll::Ready(value) = a.poll(context)
            {
                return Poll::Ready(Either::Left(value));
            }
            if known != Some(0)
                && let Poll::Ready(value) = b.poll(context)
            {
                return Poll::Ready(Either::Right(value));
            }
            Poll::Pending
        })
        .await;
        if known.is_none() {
            let value = u8::from(matches!(won, Either::Right(_))).into();
            self.give(Entry::Done { key, value, attempt: None, input: None });
        }
        won
    }

    /// The value, or `None` after the timeout.
    #[track_caller]
    pub fn timeout<T: Send>(
        &self,
        name: &str,
        after: Duration,
        body: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<Option<T>>> + Send {
        let line = Location::caller();
        async move {
            match self.first_of(body, self.sleep_for(name, after, line), line).await {
                Either::Left(value) => value.map(Some),
                Either::Right(slept) => slept.map(|()| None),
            }
        }
    }

    /// Runs `body` for each item, at most `limit` at once; returns the results in the order of the
    /// items. The first error in that order is returned when all have ended.
    #[track_caller]
    pub fn map<X, T, F, Fut>(
        &self,
        items: impl IntoIterator<Item = X>,
        limit: usize,
        body: F,
    ) -> impl Future<Output = Result<Vec<T>>> + Send
    where
        T: Send,
        F: Fn(X) -> Fut,
        Fut: Future<Output = Result<T>> + Send,
    {
        let line = Location::caller();
        let bodies: Vec<Fut> = items.into_iter().map(body).collect();
        async move {
            let key = self.key("map", "", line).await;
            let branches = bodies.into_iter().enumerate();
            let mut all: Vec<_> =
                branches.map(|(it, body)| (Branch::new(self, &key, it, body), None)).collect();
            poll_fn(|context| {
                let mut active = 0;
                // A branch that has ended frees its slot.
                for (branch, result) in all.iter_mut().filter(|it| it.1.is_none()) {
                    if active == limit.max(1) {
                        break;
                    }
                    branch.poll_into(context, result);
                    active += usize::from(result.is_none());
                }
                let is_over = all.iter().all(|it| it.1.is_some());
                if is_over { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            all.into_iter().filter_map(|it| it.1).collect()
        }
    }
}
