//! Two environments compared: what differs, how bad it is, and what may be the cause.
//!
//! An engineer gives two URLs, staging and production or old and new. Each is probed
//! ([`probe`]) into a [`SignalEnvelope`](envelope::SignalEnvelope), the two are compared
//! ([`diff`]) into findings ranked by severity, and those are held against earlier comparisons of
//! the same pair ([`trend`]).

#![forbid(unsafe_code)]

pub mod diff;
pub mod envelope;
pub mod explain;
pub mod pair;
pub mod probe;
pub mod trend;

mod env_pair;
pub mod http;
mod pairs;
mod sampling;
mod vault;
mod wire;
mod workflow;

pub use self::{
    env_pair::EnvPair,
    pairs::{ClaimKey, ListPairs, PairEntry, PairSeen, Pairs},
    vault::{Vault, VaultError},
    wire::{
        AttachExplanation, Brief, CompareError, CompareResult, Comparison, CreateComparison,
        Earlier, FailComparison, GetComparison, GetComparisonsForHistory, GetSealed,
        ListComparisons, Overdue, PairMessage, ReportStep, SaveProbe, SaveResult, Shown, Status,
    },
    workflow::{CompareEnvironments, CompareInput},
};
