//! Saying why two environments may differ: one trait, a provider by rules and one by a model.
//!
//! What goes in is a [`DriftSummary`]: findings, not contents. It is bounded, and it is cleaned of
//! what looks like a secret before anybody else sees it, because a model is somebody else. What
//! comes out is an [`Explanation`], whoever made it.

mod chat;
mod embedded;
mod explainer;
mod explanation;
mod parse;
mod prompt;
mod summary;

pub use self::{
    chat::{Chat, ChatOptions},
    embedded::Embedded,
    explainer::{ExplainError, Explainer},
    explanation::{Action, Cause, Explanation},
    summary::{DriftSummary, FindingSummary, HistorySummary, Standing, Weight},
};
