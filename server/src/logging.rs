//! Logs go to stderr: text for people, JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

/// Starts logging. Called once, before anything is logged.
pub(crate) fn start(level: LevelFilter) {
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.init();
    } else {
        builder.json().flatten_event(true).init();
    }
}
