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

use std::sync::Arc;

use steadfast::{
    App,
    store::{SeededEntropy, SystemClock},
};
use steadfast_egress::Policy;
use steadfast_web::Serve;

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

/// The application. The policy says what may be asked.
pub fn app(pair: EnvPair, compare: CompareEnvironments, policy: Policy) -> App {
    let (vault, sealed) = (compare.vault.clone(), compare.vault.clone());
    App::new("drift")
        .object(pair)
        .object(Pairs)
        .workflow(compare)
        .on_open(move |program| vault.keep_in(program.store().clone()))
        .page("Drift", "/drift", "compare two environments, and see why they differ")
        .routes(http::paths(), move |served| {
            http::router(http::Site {
                vault: sealed.clone(),
                objects: served.runtime.objects().clone(),
                policy: policy.clone(),
                entropy: Arc::new(SeededEntropy::from_system()),
                clock: Arc::new(SystemClock),
                connect: served.connect.clone(),
            })
        })
}
