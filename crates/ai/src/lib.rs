//! What models do for programs. It knows neither the store nor the runtime: bytes go in, an answer
//! comes out, and whoever calls decides what is kept.

#![forbid(unsafe_code)]

mod agent;
pub mod classify;
pub mod explain;
#[cfg(feature = "fake")]
#[doc(hidden)]
pub mod fake;
pub mod generate;
