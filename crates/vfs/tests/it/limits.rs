//! Behaviour at a limit: one statement fails, and the database stays usable.

use std::sync::Arc;

use rusqlite::{Connection, ErrorCode};
use steadfast_vfs::{Image, Limits};

use crate::oracle::{assert_sound, rows, run};

const SMALL: Limits = Limits { pages_max: 60, dirty_pages_max: 1_000, temp_bytes_max: 1 << 20 };

fn open(limits: Limits) -> (Arc<Image>, Connection) {
    let image = Image::new(Vec::new(), limits);
    let connection = image.connect().unwrap();
    connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)").unwrap();
    image.accept();
    (image, connection)
}

fn fill(rows: usize, bytes: usize) -> String {
    format!(
        "INSERT INTO t (v) WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {rows}) \
         SELECT CAST(printf('%.{bytes}c', char(65 + x % 26)) AS BLOB) FROM n"
    )
}

fn assert_full(connection: &Connection, sql: &str) {
    let error = connection.execute_batch(sql).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
}

#[test]
fn a_full_database_refuses_the_statement_and_stays_usable() {
    let (image, connection) = open(SMALL);
    let before = image.pages().unwrap();
    for _ in 0..3 {
        assert_full(&connection, &fill(200, 3_000));
        image.rollback();
        assert!(image.pages().unwrap() == before);
    }
    run(&connection, &fill(20, 3_000)).unwrap();
    assert_eq!(rows(&connection, "SELECT count(*) FROM t"), ["[Integer(20)]"]);
    assert!(image.page_count() <= 60);
    assert_sound(&connection, "after being full");
}

#[test]
fn a_turn_with_too_many_dirty_pages_is_refused_and_the_next_one_works() {
    let (image, connection) = open(Limits { dirty_pages_max: 100, ..Limits::default() });
    for spilling in [false, true] {
        run(&connection, "BEGIN").unwrap();
        // With a large cache the pages are written at the commit, else before it.
        let cache = if spilling { -256 } else { -8_000 };
        run(&connection, &format!("PRAGMA cache_size = {cache}")).unwrap();
        let filled = connection.execute_batch(&fill(400, 3_000));
        let refused = filled.and_then(|()| connection.execute_batch("COMMIT")).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
        if !connection.is_autocommit() {
            run(&connection, "ROLLBACK").unwrap();
        }
        assert_eq!(rows(&connection, "SELECT count(*) FROM t"), ["[Integer(0)]"]);
        image.rollback();
        assert_eq!(image.changes(), None);
        assert_sound(&connection, "after too many dirty pages");
    }
    for _ in 0..4 {
        run(&connection, &fill(60, 3_000)).unwrap();
        image.accept();
    }
    assert_eq!(rows(&connection, "SELECT count(*) FROM t"), ["[Integer(240)]"]);
    run(&connection, "DELETE FROM t WHERE id < 10").unwrap();
    image.accept();
    // Everything moves up.
    assert_full(&connection, "VACUUM");
    image.rollback();
    assert_sound(&connection, "after a refused VACUUM");
}

/// SQLite also rolls it back itself: the limit does not prevent a rollback.
#[test]
fn a_statement_refused_for_its_dirty_pages_leaves_no_trace_without_our_rollback() {
    let (image, connection) = open(Limits { dirty_pages_max: 100, ..Limits::default() });
    for _ in 0..2 {
        run(&connection, &fill(80, 3_000)).unwrap();
        image.accept();
    }
    run(&connection, "DELETE FROM t WHERE id < 10").unwrap();
    image.accept();
    let before = rows(&connection, "SELECT * FROM t");
    assert_full(&connection, &fill(400, 3_000));
    assert_full(&connection, "UPDATE t SET v = v || 'x'");
    assert_full(&connection, "VACUUM");
    assert!(rows(&connection, "SELECT * FROM t") == before);
    run(&connection, "UPDATE t SET v = v || 'y' WHERE id = 20").unwrap();
    // The row, and the free pages, which SQLite does not restore.
    assert!(image.changes().unwrap().touched.len() < 20);
    assert_sound(&connection, "after refused statements");
}

const SORT: &str = "WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000) \
    SELECT count(*) FROM (SELECT printf('%.200c', 'y') || (x * 7919 % 20011) AS y FROM n \
    ORDER BY y LIMIT -1 OFFSET 1)";

#[test]
fn a_sort_beyond_the_temporary_budget_is_refused_and_gives_it_back() {
    let (_image, connection) = open(SMALL);
    for _ in 0..3 {
        assert_full(&connection, SORT);
        // A sort that takes nearly all of the budget still fits.
        run(&connection, &SORT.replace("20000", "3000")).unwrap();
    }
    let (_image, connection) = open(Limits::default());
    assert_eq!(rows(&connection, SORT), ["[Integer(19999)]"]);
}

#[test]
fn temporary_tables_and_the_copy_of_a_vacuum_count_against_the_budget() {
    let limits = Limits { temp_bytes_max: 1 << 20, ..Limits::default() };
    let (image, connection) = open(limits);
    run(&connection, &fill(800, 3_000)).unwrap();
    image.accept();
    let before = image.pages().unwrap();
    assert_full(&connection, "VACUUM");
    image.rollback();
    assert!(image.pages().unwrap() == before);
    assert_full(&connection, "CREATE TEMP TABLE copy AS SELECT * FROM t");
    run(&connection, "CREATE TEMP TABLE copy AS SELECT * FROM t WHERE id < 200").unwrap();
    assert_eq!(rows(&connection, "SELECT count(*) FROM copy"), ["[Integer(199)]"]);
    run(&connection, "DROP TABLE copy; DELETE FROM t WHERE id > 50; VACUUM").unwrap();
    assert!(image.page_count() < 70);
    assert_sound(&connection, "after a VACUUM");
}

#[test]
fn a_database_larger_than_a_lowered_limit_can_be_changed_but_not_grow() {
    let (image, connection) = open(Limits::default());
    run(&connection, &fill(100, 3_000)).unwrap();
    drop(connection);
    let image = Image::new(image.pages().unwrap(), SMALL);
    let connection = image.connect().unwrap();
    run(&connection, "UPDATE t SET v = v || 'x'").unwrap();
    assert_full(&connection, &fill(10, 3_000));
    run(&connection, "DELETE FROM t WHERE id > 20; VACUUM").unwrap();
    run(&connection, &fill(10, 3_000)).unwrap();
    assert_sound(&connection, "below the limit again");
}
