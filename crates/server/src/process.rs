//! The process: its limit of open files, the signals that stop it, and its log on stderr.

use std::io::IsTerminal;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Raises the soft limit of open files as far as permitted. Without permission, connections wait.
pub(crate) fn allow_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "limit of open files stays");
    }
}

/// The number of files that this process may open.
pub(crate) fn file_limit() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX)
}

/// SIGTERM and SIGINT, caught while this exists.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to catch them.
    pub(crate) fn catch() -> std::io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Starts logging. Called once, before anything is logged.
pub(crate) fn start_log(level: LevelFilter) {
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
