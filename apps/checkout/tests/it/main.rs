//! The two processes in plain words: given, when, then.

mod group;
mod group_checkout;
mod json;
mod outside;
mod published;
mod stream;
mod traffic_fine;
mod whole;
