//! Uploads as the notes want them, and better where the notes have holes.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod counted;
mod crashes;
mod day;
mod deletions;
mod events;
mod holes_classify;
mod holes_delete;
mod interleavings;
mod notes;
mod outages;
mod real;
mod stage;
mod stuck;
