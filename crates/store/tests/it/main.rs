//! What a store promises, tried on every store there is.
//!
//! PostgreSQL is the one that `./test` starts and names in `STEADFAST_TEST_POSTGRES`.

mod differential;
mod faults;
mod holes;
mod lab;
mod laws;
mod limits;
mod owners;
mod retention;
mod view;
mod wire;
