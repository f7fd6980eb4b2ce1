//! The baseline: the rows of commits, inserted directly.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, params};

use crate::measure::now;

/// The same table and index, in the same journal mode.
const SCHEMA: &str = "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; \
    PRAGMA synchronous = FULL; \
    CREATE TABLE message (position INTEGER PRIMARY KEY, origin INTEGER, version INTEGER, \
    stream BLOB, kind TEXT, direction TEXT, action TEXT, type TEXT, schema INTEGER, \
    data TEXT, metadata TEXT, target BLOB, ordered INTEGER, cause INTEGER, \
    created_at INTEGER) STRICT; \
    CREATE UNIQUE INDEX message_stream ON message (origin, version)";

const INSERT: &str = "INSERT INTO message VALUES (?1, ?1 % 64, ?2, ?3, 'E', 'O', 'send', ?4, 1, \
     ?5, '{}', NULL, 0, NULL, ?6)";

/// Inserts `count` rows over 64 streams, `size` to a transaction.
pub(crate) fn inserts(folder: &Path, data: &str, count: usize, size: usize) -> Duration {
    let connection = Connection::open(folder.join("raw.db")).expect("file opens");
    connection.execute_batch(SCHEMA).expect("schema is made");
    let mut insert = connection.prepare(INSERT).expect("statement");
    let began = now();
    for position in 0..count {
        if position % size == 0 {
            connection.execute_batch("BEGIN IMMEDIATE").expect("begins");
        }
        let stream = (position % 64) as u128 * 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
        let row = params![
            position as i64,
            (position / 64) as i64,
            stream.to_be_bytes(),
            "guest-checked-out",
            data,
            1_700_000_000_000_i64
        ];
        insert.execute(row).expect("row is inserted");
        if position % size == size - 1 || position == count - 1 {
            connection.execute_batch("COMMIT").expect("commits");
        }
    }
    began.elapsed()
}
