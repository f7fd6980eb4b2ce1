//! Several things at once, and the first of several: plain futures, told apart by their branch.

use std::{future::poll_fn, task::Poll, time::Duration};

use super::{branch::Branch, ctx::Ctx, record::Entry};
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
    /// Both, side by side, to their ends; the first error in the order of writing.
    pub async fn join<A, B>(
        &self,
        a: impl Future<Output = Result<A>> + Send,
        b: impl Future<Output = Result<B>> + Send,
    ) -> Result<(A, B)> {
        let key = self.key("join", "");
        let (mut a, mut b) = (Branch::new(self, &key, 0, a), Branch::new(self, &key, 1, b));
        let (mut x, mut y) = (None, None);
        poll_fn(|context| {
            if x.is_none()
                && let Poll::Ready(value) = a.poll(context)
            {
                x = Some(value);
            }
            if y.is_none()
                && let Poll::Ready(value) = b.poll(context)
            {
                y = Some(value);
            }
            if x.is_some() && y.is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        match (x, y) {
            (Some(x), Some(y)) => Ok((x?, y?)),
            _ => unreachable!("both were polled to their ends"),
        }
    }

    /// The first of two that is ready; the other is dropped. Which one it was is recorded before it
    /// is told.
    pub async fn select<A, B>(
        &self,
        a: impl Future<Output = A> + Send,
        b: impl Future<Output = B> + Send,
    ) -> Either<A, B> {
        let key = self.key("select", "");
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
            self.record(Entry::Done { key: key.clone(), value, attempt: None }).await;
        }
        won
    }

    /// The value, or `None` if the time is over first.
    pub async fn timeout<T>(
        &self,
        name: &str,
        after: Duration,
        body: impl Future<Output = Result<T>> + Send,
    ) -> Result<Option<T>> {
        match self.select(body, self.sleep(name, after)).await {
            Either::Left(value) => value.map(Some),
            Either::Right(slept) => slept.map(|()| None),
        }
    }

    /// `body` for each item, at most `limit` at once; the results in the order of the items. The
    /// first error in that order, when all have ended.
    pub async fn map<X, T, F, Fut>(
        &self,
        items: impl IntoIterator<Item = X>,
        limit: usize,
        body: F,
    ) -> Result<Vec<T>>
    where
        F: Fn(X) -> Fut,
        Fut: Future<Output = Result<T>> + Send,
    {
        let key = self.key("map", "");
        let branches = items.into_iter().enumerate();
        let mut all: Vec<_> = branches
            .map(|(number, item)| (Branch::new(self, &key, number, body(item)), None))
            .collect();
        poll_fn(|context| {
            loop {
                let (mut active, mut ended) = (0, false);
                for (branch, result) in all.iter_mut().filter(|it| it.1.is_none()) {
                    if active == limit.max(1) {
                        break;
                    }
                    match branch.poll(context) {
                        Poll::Ready(value) => (*result, ended) = (Some(value), true),
                        Poll::Pending => active += 1,
                    }
                }
                if all.iter().all(|it| it.1.is_some()) {
                    return Poll::Ready(());
                }
                // Whoever has ended has made room for another.
                if !ended {
                    return Poll::Pending;
                }
            }
        })
        .await;
        all.into_iter().filter_map(|it| it.1).collect()
    }
}
