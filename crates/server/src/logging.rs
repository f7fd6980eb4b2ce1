//! Logs to stderr: text on a terminal, JSON otherwise.

use std::io::IsTerminal;

use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Starts logging. Called once, before anything is logged.
pub(crate) fn start(level: LevelFilter) {
    // The S3 library logs refusals as errors, and requests with their signatures. This crate logs
    // the important ones.
    let targets = Targets::new().with_default(level).with_target("s3s", LevelFilter::OFF);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = if std::io::stderr().is_terminal() {
        layer.boxed()
    } else {
        layer.json().flatten_event(true).boxed()
    };
    tracing_subscriber::registry().with(layer.with_filter(targets)).init();
}
