//! The application on a store in memory, with a provider that does what the prompt says.

#![expect(clippy::unwrap_used, reason = "a test that meets something else has failed")]

mod confirm;
mod crashes;
mod fetching;
mod full;
mod holes;
mod holes_runware;
mod interleavings;
mod late;
mod late_asked;
mod library;
mod line;
mod money;
mod orphans;
mod places;
mod reconcile;
mod stage;
mod upgrade;
mod waits;
