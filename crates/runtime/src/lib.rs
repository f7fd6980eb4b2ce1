//! Steadfast: a durable platform in one library.
//!
//! Every step of progress is one [`store::Commit`]. What it leaves to be done is a row in the
//! store, and the [`Dispatcher`] sees to it that it is done.

mod dispatch;
pub mod process;

/// The example of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub use steadfast_store as store;

pub use self::dispatch::{
    CRASH_POINTS, Delivery, Dispatcher, DispatcherBuilder, DispatcherOptions, Failure, Handler,
    Router, Unknown,
};
