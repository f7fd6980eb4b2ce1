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
mod settings;
mod vault;
mod verb;
mod wire;
mod workflow;

use std::sync::Arc;

use steadfast_core::{
    App, Result,
    store::{SeededEntropy, SystemClock},
};
use steadfast_web::Serve;

use self::settings::Parts;
pub use self::{
    pairs::{ListPairs, PairEntry, PairSeen, Pairs},
    settings::Settings,
    vault::{Vault, VaultError},
    wire::{
        AttachExplanation, Brief, CompareError, CompareResult, Comparison, CreateComparison,
        Earlier, EnvPair, FailComparison, GetComparison, GetComparisonsForHistory, GetSealed,
        ListComparisons, Overdue, PairMessage, ReportStep, SaveProbe, SaveResult, Shown, Status,
    },
    workflow::{CompareEnvironments, CompareInput},
};

/// The application.
pub fn app(settings: Settings) -> Result<App> {
    let (Parts { policy, pair, compare, address }, error) = settings.parts();
    let (vault, sealed) = (compare.vault.clone(), compare.vault.clone());
    let app = App::new("drift")
        .object(pair)
        .object(Pairs)
        .workflow(compare)
        .on_open(move |program| vault.keep_in(program))
        .page("Drift", "/drift", "compare two environments, and see why they differ")
        .verb("drift", verb::compare)
        .routes_with("", http::routes, move |served| {
            if let Some(listens) = served.address {
                // A program that is served twice keeps its first address.
                let _ = address.set(listens);
            }
            http::Site {
                vault: sealed.clone(),
                objects: served.runtime.objects().clone(),
                policy: policy.clone(),
                entropy: Arc::new(SeededEntropy::from_system()),
                clock: Arc::new(SystemClock),
                connect: served.connect.clone(),
                organization: None,
            }
        });
    Ok(app.before_work(move || error.clone().map_or(Ok(()), Err)))
}
