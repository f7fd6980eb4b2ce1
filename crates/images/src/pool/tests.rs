use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Waits until a condition holds.
async fn until(holds: impl Fn() -> bool) {
    let mut pause = tokio::time::interval(std::time::Duration::from_millis(1));
    while !holds() {
        pause.tick().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_run_than_there_are_threads_and_never_more_wait_than_there_are_places() {
    let pool = Pool::new("test", 2).unwrap();
    let (running, most, made) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let counts = Arc::new((running, most, made));
    let (open, gate) = channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let mut tasks = Vec::new();
    for _ in 0..50 {
        let (pool, counts, gate) = (pool.clone(), Arc::clone(&counts), Arc::clone(&gate));
        tasks.push(tokio::spawn(async move {
            pool.run(|| {
                counts.2.fetch_add(1, Ordering::SeqCst);
                let counts = Arc::clone(&counts);
                move || {
                    let now = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
                    counts.1.fetch_max(now, Ordering::SeqCst);
                    let _ = gate.lock().recv();
                    counts.0.fetch_sub(1, Ordering::SeqCst);
                }
            })
            .await
        }));
    }
    let count = |it: &AtomicUsize| it.load(Ordering::SeqCst);
    until(|| 2 <= count(&counts.0) && 4 <= count(&counts.2)).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(counts.2.load(Ordering::SeqCst), 4, "the others have handed nothing over");
    drop(open);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(counts.1.load(Ordering::SeqCst), 2);
    assert_eq!(counts.2.load(Ordering::SeqCst), 50);
}

#[tokio::test]
async fn work_that_panics_ends_alone() {
    let pool = Pool::new("test", 1).unwrap();
    let failed = pool.run(|| || -> u8 { panic!("meant to be") }).await;
    assert_eq!(failed, Err(PoolError::Panicked));
    assert_eq!(pool.run(|| || 7).await, Ok(7));
}

#[tokio::test]
async fn work_nobody_waits_for_any_more_is_not_begun() {
    let pool = Pool::new("test", 1).unwrap();
    let (open, gate) = channel::<()>();
    let began = Arc::new(AtomicUsize::new(0));
    let first = tokio::spawn({
        let (pool, began) = (pool.clone(), Arc::clone(&began));
        async move {
            let work = move || {
                began.fetch_add(1, Ordering::SeqCst);
                let _ = gate.recv();
            };
            pool.run(|| work).await
        }
    });
    until(|| began.load(Ordering::SeqCst) == 1).await;
    let second = tokio::spawn({
        let (pool, began) = (pool.clone(), Arc::clone(&began));
        async move { pool.run(|| move || began.fetch_add(1, Ordering::SeqCst)).await }
    });
    until(|| pool.places.available_permits() == 0).await;
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    drop(open);
    first.await.unwrap().unwrap();
    // The thread takes jobs in order: when this one is done, the one before it was passed over.
    pool.run(|| || ()).await.unwrap();
    assert_eq!(began.load(Ordering::SeqCst), 1);
}
