//! Limits of a store. The error that reports a limit names it.

/// Bytes of one message's data. Peers allow 1 to 2 MB; larger things belong into a bucket.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// Bytes of one message's metadata (trace context, correlation, reply address).
pub const METADATA_BYTES_MAX: usize = 16 << 10;

/// Maximum nesting of JSON. Databases and readers in other languages have limits of their own.
pub const JSON_DEPTH_MAX: usize = 127;

/// Bytes of a message type's tag.
pub const TYPE_BYTES_MAX: usize = 128;

/// Bytes of an entity's class.
pub const CLASS_BYTES_MAX: usize = 64;

/// Bytes of an entity's name.
pub const NAME_BYTES_MAX: usize = 512;

/// Bytes of an idempotency key.
pub const KEY_BYTES_MAX: usize = 255;

/// Bytes of the name of a list of entries.
pub const SPACE_BYTES_MAX: usize = 128;

/// Bytes of an entry's key: the longest key of a blob, and an id behind it.
pub const ENTRY_KEY_BYTES_MAX: usize = 1_088;

/// Bytes of an entry's value: a blob of 10,000 parts has one of about half of it.
pub const ENTRY_BYTES_MAX: usize = 2 << 20;

/// Maximum bytes of a stored error text; the rest is cut off.
pub const ERROR_BYTES_MAX: usize = 2_000;

/// Messages and other writes in one commit.
pub const WRITES_MAX: usize = 10_000;

/// Bytes of one commit, so that one caller cannot fill the write queue.
pub const COMMIT_BYTES_MAX: usize = 32 << 20;

/// Maximum commits that wait for the writer; further ones get `Busy`.
pub const WAITING_COMMITS_MAX: usize = 8_192;

/// Bytes of commits that may wait for the writer.
pub const WAITING_BYTES_MAX: usize = 256 << 20;

/// Commits in one transaction: enough to share an fsync, few enough to answer soon.
pub const BATCH_COMMITS_MAX: usize = 512;

/// Maximum bytes in one transaction; a single larger commit is written alone.
pub const BATCH_BYTES_MAX: usize = 8 << 20;

/// Cuts an error text to the stored maximum, at a character boundary.
pub fn cut_error(text: &str) -> String {
    let end = text.floor_char_boundary(ERROR_BYTES_MAX);
    // PostgreSQL stores no NUL in a text.
    text[..end].replace('\0', "\u{fffd}")
}
