//! The two functions of futures-util that the engine needs: that crate takes longer to compile than
//! all of its dependencies.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

/// Erases the type of a future. Tokio compiles about 20 functions for each type of a task.
pub trait FutureExt: Future + Sized {
    /// This future in a box.
    fn boxed<'a>(self) -> Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>
    where
        Self: Send + 'a,
    {
        Box::pin(self)
    }
}

impl<F: Future> FutureExt for F {}

/// Awaits a few futures concurrently. The results are in the order of the futures; the first error
/// cancels the others.
pub async fn try_join_all<F, T, E>(futures: impl IntoIterator<Item = F>) -> Result<Vec<T>, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut futures: Vec<_> = futures.into_iter().map(|it| (Box::pin(it), None)).collect();
    let mut poll = |context: &mut std::task::Context<'_>| {
        let mut is_ready = true;
        for (future, result) in futures.iter_mut().filter(|(_, result)| result.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(it) => *result = Some(it?),
                Poll::Pending => is_ready = false,
            }
        }
        match is_ready {
            true => Poll::Ready(Ok(futures.iter_mut().filter_map(|(_, it)| it.take()).collect())),
            false => Poll::Pending,
        }
    };
    poll_fn(&mut poll).await
}

#[cfg(test)]
mod tests {
    use tokio::sync::Barrier;

    use super::*;

    #[tokio::test]
    async fn futures_run_concurrently_and_their_results_keep_the_order() {
        let all_run = &Barrier::new(3);
        let meet = |number: u32| async move {
            all_run.wait().await;
            Ok::<_, u32>(number)
        };
        assert_eq!(try_join_all([3, 1, 2].map(meet)).await, Ok(vec![3, 1, 2]));
        assert_eq!(try_join_all([0; 0].map(meet)).await, Ok(vec![]));
        let fail = |number: u32| async move {
            if number == 2 {
                return Err(number);
            }
            all_run.wait().await;
            Ok(number)
        };
        assert_eq!(try_join_all([1, 2, 3].map(fail)).await, Err(2));
    }
}
