//! Opens a database with fixed settings.

use std::sync::Arc;

use rusqlite::{Connection, config::DbConfig};

use crate::{ffi, image::Image};

impl Image {
    /// Opens the database for reading and writing. While this connection exists, another one is
    /// refused with `SQLITE_BUSY`.
    ///
    /// SQL cannot change the pragmas on which the image depends, and an authorizer refuses to
    /// attach any file or to vacuum into one. A caller that sets another authorizer has to refuse
    /// `SQLITE_ATTACH` of everything but the empty name as well: with `vfs=` in it, a name reaches
    /// real files.
    pub fn connect(self: &Arc<Self>) -> rusqlite::Result<Connection> {
        let (connection, lease) = ffi::open(self)?;
        ffi::shrink_lookaside(&connection);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
        connection.execute_batch(SETUP)?;
        // The image refuses a page beyond the limit when SQLite writes it, which ends the whole
        // transaction; SQLite's own limit would end only the statement. It is some pages higher, so
        // that the small cache cannot hold all pages in between.
        let limit = format!(
            "PRAGMA max_page_count = {}",
            self.limits.pages_max.saturating_add(SPARE_PAGES)
        );
        connection.execute_batch(&limit)?;
        ffi::guard_attach(&connection, &lease);
        lease.fix_settings();
        Ok(connection)
    }
}

/// More than the size of the cache.
const SPARE_PAGES: u32 = 512;

/// The journal is in memory, not off: a statement that fails half way must be undone. Nothing is
/// synced, since nothing is on a disk. The cache is small, because the pages are in memory already.
///
/// Each statement here adds to the time of loading an object, so defaults of SQLite are not set:
/// pages of 4,096 bytes, no auto-vacuum, and temporary files, which go through the VFS, where they
/// are counted.
const SETUP: &str = "
    PRAGMA journal_mode = MEMORY;
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA synchronous = OFF;
    PRAGMA cache_size = -256;
";
