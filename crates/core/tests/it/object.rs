//! Objects: the guarantees of a turn.

mod alarm_faults;
mod alarms;
mod basics;
mod crashes;
mod damage;
mod deletion;
mod doors;
mod durable;
mod edges;
mod effects;
mod faults;
mod inspect;
mod inspect_sql;
mod inspect_turns;
mod keys;
mod lazy;
mod live;
mod live_again;
mod live_trouble;
mod migrations;
mod notes;
mod past;
mod rights;
mod sends;
mod serial;
mod sleep;
mod survives;

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use steadfast_core::{
    Address, App, Body, CallError, Dispatcher, DispatcherOptions, Handle, Object, ObjectOptions,
    Objects, Runtime, Unknown,
    object::{Lists, ObjectsBuilder},
    store::{Clock, DueCursor, EntityKind, ManualClock, Position, SeededEntropy, Store, Timestamp},
};

use crate::{
    lab::{Lab, address_of},
    ledger::{Downloader, Ledger},
};

/// A program with ledgers on the lab's store.
pub(crate) async fn runtime(lab: &Lab, ledger: Ledger) -> Runtime {
    let downloader = crate::ledger::Downloader::default();
    App::new("test")
        .object(ledger)
        .perform(downloader)
        .entropy(SeededEntropy::new(1))
        .start(lab.store.clone())
        .await
        .expect("runtime starts")
}

/// A program whose parts the test can access: ledgers, and additions of the test.
pub(crate) struct Program {
    pub(crate) objects: Objects,
    pub(crate) dispatcher: Dispatcher,
    store: Arc<dyn Store>,
    clock: ManualClock,
}

impl Program {
    /// Ledgers on the lab's store.
    pub(crate) async fn on(lab: &Lab) -> Self {
        Self::with(lab, Ledger::default(), ObjectOptions::default()).await
    }

    pub(crate) async fn with(lab: &Lab, ledger: Ledger, options: ObjectOptions) -> Self {
        let add =
            |it: ObjectsBuilder| it.class(ledger).perform(Downloader::default()).options(options);
        Self::of(lab.store.clone(), &lab.clock, add).await
    }

    pub(crate) async fn of(
        store: Arc<dyn Store>,
        clock: &ManualClock,
        add: impl FnOnce(ObjectsBuilder) -> ObjectsBuilder,
    ) -> Self {
        let clock = clock.clone();
        let builder = Objects::builder(store.clone()).entropy(SeededEntropy::new(1));
        let objects = add(builder).start().expect("objects start");
        let options = DispatcherOptions { unknown: Unknown::Waits, ..Default::default() };
        let dispatcher = Dispatcher::builder(store.clone())
            .entropy(SeededEntropy::new(2))
            .options(options)
            .route(objects.clone())
            .start()
            .await
            .expect("dispatcher starts");
        Self { objects, dispatcher, store, clock }
    }

    /// A call that the test polls itself.
    pub(crate) fn call<C: Handle<M>, M: Body, I>(
        &self,
        to: Address<C>,
        msg: M,
    ) -> Calling<'_, C::Reply>
    where
        C::Calls: Lists<M, I>,
    {
        self.objects.call(to, msg).into_future()
    }

    /// Lets time pass. Work that becomes due meanwhile runs at its time.
    pub(crate) async fn advance(&self, duration: Duration) {
        let until = self.clock.now().after(duration);
        self.dispatcher.settled().await;
        while self.clock.now() < until {
            let now = self.clock.now();
            let behind = DueCursor { due_at: now, position: Position::MAX };
            let next = self.store.due(behind, 1).await.unwrap();
            let next = next.first().map_or(until, |it| it.due_at.min(until));
            self.clock.advance(next.since(now));
            self.dispatcher.settled().await;
        }
    }

    /// Nothing is pending without a future wake-up, and no row breaks an invariant.
    pub(crate) async fn assert_sound(&self) {
        self.dispatcher.settled().await;
        assert_eq!(self.dispatcher.forgotten().await.unwrap(), Vec::<Position>::new());
        assert_eq!(self.store.violations().await.unwrap(), Vec::<String>::new());
    }

    pub(crate) async fn stop(self) {
        self.dispatcher.stop().await;
    }
}

type Calling<'a, R> = Pin<Box<dyn Future<Output = Result<R, CallError>> + Send + 'a>>;

/// The value of a future if it is ready.
pub(crate) fn by_now<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(it) => Some(it),
        Poll::Pending => None,
    }
}

/// Makes calls in this order, without waiting for one before the next, and waits for all of them.
pub(crate) async fn in_order<R>(calls: Vec<Calling<'_, R>>) -> Vec<Result<R, CallError>> {
    let mut calls: Vec<_> = calls.into_iter().map(|it| (it, None)).collect();
    std::future::poll_fn(|context| {
        for (call, reply) in calls.iter_mut().filter(|it| it.1.is_none()) {
            if let Poll::Ready(it) = call.as_mut().poll(context) {
                *reply = Some(it);
            }
        }
        if calls.iter().all(|it| it.1.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    calls.into_iter().filter_map(|it| it.1).collect()
}

/// The address of a ledger in the store.
pub(crate) fn ledger(name: &str) -> steadfast_core::store::Address {
    address_of(EntityKind::Object, Ledger::CLASS, name)
}

/// This many milliseconds after the start of every lab.
pub(crate) fn at(millis: i64) -> i64 {
    let Timestamp(start) = crate::lab::START;
    start + millis
}
