//! Every example is started and used over HTTP, as its first lines say.

mod auction;
mod harness;
mod primitives;
mod size;
