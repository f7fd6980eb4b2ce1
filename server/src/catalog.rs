//! The applications of the shipped server.

use std::time::Duration;

use steadfast::App;
use steadfast_ai::generate::Providers;
use steadfast_generations::StudioOptions;
use steadfast_uploads::Parts;

use crate::{classifier::Sight, drift::Drift};

/// Who says nothing in a chat room for so long leaves it.
const CHAT_IDLE: Duration = Duration::from_mins(10);

/// How long an upload waits at first for a classifier that is not there yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// The program of the shipped server.
pub(crate) fn app(
    sight: Sight,
    (providers, options): (Providers, StudioOptions),
    drift: Drift,
) -> App {
    let Sight { classifier, notice, limits, pool } = sight;
    let pictures = (limits.clone(), pool.clone());
    let uploads = Parts { classifier, patience: PATIENCE, limits, pool, notice };
    App::new("steadfast")
        .merge(steadfast_counter::app())
        .merge(steadfast_chat::app(CHAT_IDLE))
        .merge(steadfast_order::app())
        .merge(steadfast_mail::app())
        .merge(steadfast_checkout::app())
        .merge(steadfast_drift::app(drift.pair, drift.compare, drift.policy))
        .merge(steadfast_generations::app(providers, options, pictures))
        .merge(steadfast_uploads::app(uploads))
}
