//! The two processes in plain words: given, when, then.

mod group;
mod group_checkout;
mod json;
mod outside;
mod stream;
mod told;
mod traffic_fine;
mod whole;
