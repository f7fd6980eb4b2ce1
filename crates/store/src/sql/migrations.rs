//! The format of a store: a baseline, and the migrations that follow it.
//!
//! Until the first release there are no migrations. A change of the tables, or of the records in
//! them, edits the baseline in place and raises [`BASELINE_FORMAT`]. A store with another number is
//! refused. After the first release the baseline stays, and each change is a migration.

use crate::OpenError;

/// SQL that changes the schema, the same change in both stores.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// For SQLite.
    pub sqlite: &'static str,
    /// For PostgreSQL.
    pub postgres: &'static str,
}

/// The number of the baseline. The migrations that follow it have the next numbers.
pub const BASELINE_FORMAT: i64 = 13;

/// Creates the tables of a new store.
pub(crate) const BASELINE: Migration = Migration {
    sqlite: include_str!("../../schema/sqlite.sql"),
    postgres: include_str!("../../schema/postgres.sql"),
};

/// The migrations that follow the baseline, in order.
pub(crate) const MIGRATIONS: &[Migration] = &[];

/// The number that the table `meta` of a store has. Formats before 11 name it `schema`.
pub(crate) const FORMAT: &str = "SELECT max(value) FROM meta WHERE key IN ('format', 'schema')";

/// Records the number of the format.
pub(crate) const SET_FORMAT: &str = "INSERT INTO meta VALUES ('format', $1) \
     ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// The number of the format with these migrations.
pub(crate) fn newest(migrations: &[Migration]) -> i64 {
    BASELINE_FORMAT + migrations.len() as i64
}

/// The changes that a store lacks, in order, each with its number. `found` is the number of the
/// store, `None` if it has no tables yet.
pub(crate) fn missing(
    what: &str,
    found: Option<i64>,
    migrations: &'static [Migration],
) -> Result<Vec<(i64, Migration)>, OpenError> {
    let known = newest(migrations);
    if let Some(found) = found.filter(|it| !(BASELINE_FORMAT..=known).contains(it)) {
        return Err(OpenError::Format { what: what.to_owned(), found, known });
    }
    let all = std::iter::once(BASELINE).chain(migrations.iter().copied());
    let numbered = (BASELINE_FORMAT..).zip(all);
    Ok(numbered.filter(|(number, _)| found.is_none_or(|found| found < *number)).collect())
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// The statements of a file, without comments.
    fn statements(sql: &str) -> String {
        let lines = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
        lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_changed_baseline_has_a_new_number() {
        let both = statements(BASELINE.sqlite) + &statements(BASELINE.postgres);
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(both)[..8]);
        let known = (13, "a2fea6eea6766bc3");
        let advice = "raise the number, write the fixture again, and record both here";
        assert_eq!((BASELINE_FORMAT, digest.as_str()), known, "{advice}");
    }

    #[test]
    fn both_stores_have_the_same_tables_indexes_and_views() {
        let made = |sql: &'static str| -> Vec<&str> {
            let names = sql.lines().filter(|it| it.starts_with("CREATE "));
            // Only PostgreSQL can lose acknowledged commits.
            let names = names.map(|it| it.split("--").next().unwrap_or_default().trim());
            names.filter(|it| *it != "CREATE TABLE loss (").collect()
        };
        assert_eq!(made(BASELINE.sqlite), made(BASELINE.postgres));
    }
}
