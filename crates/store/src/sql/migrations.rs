//! Numbered changes of the schema, the same numbers in both stores. They only expand.

/// One change.
pub(crate) struct Migration {
    /// From 1, without gaps.
    pub(crate) number: i64,
    /// The oldest schema number that a binary must know to open a store with this change.
    pub(crate) needs: i64,
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        needs: 1,
        sqlite: include_str!("../../migrations/0001.sqlite.sql"),
        postgres: include_str!("../../migrations/0001.postgres.sql"),
    },
    Migration {
        number: 2,
        needs: 1,
        sqlite: include_str!("../../migrations/0002.sqlite.sql"),
        postgres: include_str!("../../migrations/0002.postgres.sql"),
    },
    Migration {
        number: 3,
        // Older code would continue a run without recording it here: the run would be deleted when
        // its former retention ends.
        needs: 3,
        sqlite: include_str!("../../migrations/0003.sqlite.sql"),
        postgres: include_str!("../../migrations/0003.postgres.sql"),
    },
    Migration {
        number: 4,
        // Older code would deliver messages of queues by the dispatcher.
        needs: 4,
        sqlite: include_str!("../../migrations/0004.sqlite.sql"),
        postgres: include_str!("../../migrations/0004.postgres.sql"),
    },
    Migration {
        number: 5,
        // Older code has no origins, and would find no stream or run by its id.
        needs: 5,
        sqlite: include_str!("../../migrations/0005.sqlite.sql"),
        postgres: include_str!("../../migrations/0005.postgres.sql"),
    },
    Migration {
        number: 6,
        // Older code has no entries, and does not change them.
        needs: 5,
        sqlite: include_str!("../../migrations/0006.sqlite.sql"),
        postgres: include_str!("../../migrations/0006.postgres.sql"),
    },
    Migration {
        number: 7,
        // Older code does not change the column.
        needs: 5,
        sqlite: include_str!("../../migrations/0007.sqlite.sql"),
        postgres: include_str!("../../migrations/0007.postgres.sql"),
    },
    Migration {
        number: 8,
        // Older code may use a store without a loss: recording a loss raises this.
        needs: 5,
        sqlite: include_str!("../../migrations/0008.sqlite.sql"),
        postgres: include_str!("../../migrations/0008.postgres.sql"),
    },
    Migration {
        number: 9,
        // Older code would not maintain the counters of messages.
        needs: 9,
        sqlite: include_str!("../../migrations/0009.sqlite.sql"),
        postgres: include_str!("../../migrations/0009.postgres.sql"),
    },
    Migration {
        number: 10,
        needs: 9,
        sqlite: include_str!("../../migrations/0010.sqlite.sql"),
        postgres: include_str!("../../migrations/0010.postgres.sql"),
    },
];

/// The newest schema of this binary.
pub(crate) const KNOWN_SCHEMA: i64 = MIGRATIONS[MIGRATIONS.len() - 1].number;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_gaps_and_make_the_same_tables_in_both_stores() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.number, index as i64 + 1);
            assert!(migration.needs <= migration.number);
            let made = |sql: &'static str| -> Vec<&str> {
                sql.lines().filter(|it| it.starts_with("CREATE ")).collect()
            };
            assert_eq!(made(migration.sqlite), made(migration.postgres));
        }
    }
}
