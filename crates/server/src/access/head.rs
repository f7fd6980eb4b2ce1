//! The head of the audit log in a second place: `audit-head` in the data folder. A log whose newest
//! records were removed, or an older store, does not have the record of this head.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use steadfast_core::Audit;
use steadfast_store::Clock;
use tokio::sync::watch;

use super::admin;

/// The name of the file.
pub(crate) const FILE: &str = "audit-head";

/// Minimum interval between two writes of the file.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Reads the file of a data folder; `None` if there is none.
pub(crate) fn read(data: &Path) -> io::Result<Option<String>> {
    let file = match File::open(data.join(FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = String::new();
    file.take(1_024).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Writes the file, behind the commits.
pub(crate) struct HeadFile {
    data: PathBuf,
    heads: watch::Receiver<Option<String>>,
    /// A file that the log contradicts stays: it shows that records are missing.
    may_write: bool,
}

impl HeadFile {
    /// Compares the file of a data folder with the log, and writes the present head.
    pub(crate) async fn open(audit: &Audit, data: &Path) -> Self {
        let (data, heads) = (data.to_owned(), audit.heads());
        let mut file = Self { data, heads, may_write: false };
        match file.is_of(audit).await {
            Ok(true) => file.may_write = true,
            Ok(false) => tracing::error!("{MISSING}"),
            Err(error) => tracing::error!(error, "{FILE} in the data folder cannot be compared"),
        }
        match audit.stored_head().await {
            Ok(Some(head)) => file.write(head).await,
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the audit log cannot be read"),
        }
        file
    }

    /// Whether the log has the record that the file names.
    async fn is_of(&self, audit: &Audit) -> Result<bool, String> {
        let Some(head) = read(&self.data).map_err(|error| error.to_string())? else {
            return Ok(true);
        };
        audit.has(&head).await.map_err(|error| error.to_string())
    }

    /// Writes each new head, at most one per second.
    pub(crate) async fn keep(&mut self, clock: &dyn Clock) {
        while self.heads.changed().await.is_ok() {
            self.write_newest().await;
            clock.sleep(WRITE_EVERY).await;
        }
        // The program has ended.
        std::future::pending().await
    }

    /// Writes the last head.
    pub(crate) async fn end(mut self) {
        self.write_newest().await;
    }

    async fn write_newest(&mut self) {
        let newest = self.heads.borrow_and_update().clone();
        if let Some(head) = newest {
            self.write(head).await;
        }
    }

    async fn write(&self, head: String) {
        if !self.may_write {
            return;
        }
        let data = self.data.clone();
        let written = tokio::task::spawn_blocking(move || admin::write(&data, FILE, &head)).await;
        if let Err(error) = written.map_err(io::Error::from).flatten() {
            tracing::warn!(%error, "{FILE} in the data folder cannot be written");
        }
    }
}

/// The finding if the log does not have the record of the file.
pub(crate) const MISSING: &str = "the audit log does not have the record that `audit-head` in the \
     data folder names: its newest records were removed, or an older store was put back; compare \
     with a backup, and remove the file if you restored the store yourself";
