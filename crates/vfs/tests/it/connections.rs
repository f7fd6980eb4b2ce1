//! Opening an image, and the restrictions of SQL on it.

use rusqlite::{Connection, ErrorCode};
use steadfast_vfs::{Image, Limits};

use crate::oracle::{assert_sound, dump, rows, run};

fn open() -> (std::sync::Arc<Image>, Connection) {
    let image = Image::new(Vec::new(), Limits::default());
    let connection = image.connect().unwrap();
    (image, connection)
}

#[test]
fn a_second_connection_is_refused_until_the_first_one_is_gone() {
    let (image, connection) = open();
    run(&connection, "CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
    for _ in 0..3 {
        let error = image.connect().unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    }
    let before = dump(&connection);
    drop(connection);
    for _ in 0..3 {
        let connection = image.connect().unwrap();
        assert_eq!(dump(&connection), before);
    }
    let connection = image.connect().unwrap();
    run(&connection, "INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(rows(&connection, "SELECT v FROM t"), ["[Integer(1)]", "[Integer(2)]"]);
}

#[test]
fn a_connection_that_is_dropped_in_a_transaction_leaves_nothing_behind() {
    let (image, connection) = open();
    run(&connection, "CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
    image.accept();
    let before = image.pages().unwrap();
    // Enough to be written before the end.
    let many = "BEGIN; WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3000) \
                INSERT INTO t SELECT printf('%.900c', 'z') FROM n";
    run(&connection, many).unwrap();
    assert!(image.page_count() > 200);
    drop(connection);
    image.rollback();
    assert!(image.pages().unwrap() == before);
    let connection = image.connect().unwrap();
    assert_eq!(rows(&connection, "SELECT v FROM t"), ["[Integer(1)]"]);
}

#[test]
fn a_transaction_larger_than_the_cache_rolls_back_on_the_same_connection() {
    let (image, connection) = open();
    let rows_of = |count: usize| {
        format!(
            "WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {count}) \
             INSERT INTO t (v) SELECT printf('%.500c', char(65 + x % 26)) || x FROM n"
        )
    };
    run(&connection, "CREATE TABLE t (id INTEGER PRIMARY KEY, v)").unwrap();
    run(&connection, &rows_of(1_500)).unwrap();
    // Free pages, whose bytes SQLite does not restore.
    run(&connection, "DELETE FROM t WHERE id BETWEEN 200 AND 1200").unwrap();
    image.accept();
    let (before, dumped) = (image.pages().unwrap(), dump(&connection));
    for _ in 0..3 {
        run(&connection, "BEGIN; UPDATE t SET v = v || 'changed'").unwrap();
        run(&connection, &rows_of(1_500)).unwrap();
        assert!(image.changes().is_some(), "nothing was written before the end");
        run(&connection, "ROLLBACK").unwrap();
        image.rollback();
        assert!(image.pages().unwrap() == before);
        assert_eq!(dump(&connection), dumped);
        assert_sound(&connection, "after a large rollback");
    }
    // The free pages are reused, whatever the cache has for them.
    run(&connection, &rows_of(900)).unwrap();
    let live = dump(&connection);
    assert_sound(&connection, "after using the free pages");
    let reopened = Image::new(image.pages().unwrap(), Limits::default());
    assert_eq!(dump(&reopened.connect().unwrap()), live);
}

#[test]
fn sql_cannot_take_the_database_out_of_its_image() {
    let (image, connection) = open();
    run(&connection, "CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
    for pragma in [
        "PRAGMA journal_mode = WAL",
        "PRAGMA main.journal_mode = OFF",
        "PRAGMA Locking_Mode = NORMAL",
        "PRAGMA page_size = 512",
        "PRAGMA temp_store = MEMORY",
        "PRAGMA max_page_count = 1000000",
        "SELECT * FROM pragma_journal_mode('wal')",
        "ATTACH '/tmp/steadfast-vfs-test.db' AS other",
        "ATTACH 'file:/tmp/steadfast-vfs-test.db?vfs=unix' AS other",
        "ATTACH '/tmp/steadfast' || '-vfs-test.db' AS other",
        "VACUUM INTO 'file:/tmp/steadfast-vfs-test.db?vfs=unix'",
        "SELECT load_extension('anything')",
    ] {
        assert!(run(&connection, pragma).is_err(), "{pragma}");
    }
    assert!(!std::path::Path::new("/tmp/steadfast-vfs-test.db").exists());
    assert_eq!(rows(&connection, "PRAGMA journal_mode"), ["[Text(\"memory\")]"]);
    run(&connection, "INSERT INTO t VALUES (2)").unwrap();
    drop(connection);
    let connection = image.connect().unwrap();
    assert_eq!(rows(&connection, "SELECT sum(v) FROM t"), ["[Integer(3)]"]);
}

#[test]
fn pages_that_are_no_database_are_an_error_and_the_image_is_free_again() {
    let image = Image::new(vec![std::sync::Arc::new([7; 4096])], Limits::default());
    for _ in 0..2 {
        let opened = image.connect();
        let error = opened.and_then(|connection| connection.execute_batch("CREATE TABLE t (v)"));
        assert_eq!(error.unwrap_err().sqlite_error_code(), Some(ErrorCode::NotADatabase));
    }
    assert_eq!(image.changes(), None);
}

#[test]
fn many_images_are_used_by_many_threads_at_once() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..15 {
                    let (image, connection) = open();
                    let value = thread * 100 + round;
                    let sql = format!("CREATE TABLE t (v); INSERT INTO t VALUES ({value}); VACUUM");
                    run(&connection, &sql).unwrap();
                    drop(connection);
                    let connection = image.connect().unwrap();
                    let expected = format!("[Integer({value})]");
                    assert_eq!(rows(&connection, "SELECT v FROM t"), [expected]);
                }
            });
        }
    });
}

#[test]
fn a_sort_on_several_threads_shares_its_temporary_files() {
    let (_image, connection) = open();
    let sort = "WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000) \
                SELECT count(*) FROM (SELECT DISTINCT x * 7919 % 20011 AS y, printf('%.100c', 'z') \
                FROM n ORDER BY y LIMIT -1 OFFSET 1)";
    run(&connection, "PRAGMA threads = 4").unwrap();
    assert_eq!(rows(&connection, sort), ["[Integer(19999)]"]);
}

#[test]
fn a_database_has_the_settings_that_its_image_depends_on() {
    let image = Image::new(Vec::new(), Limits::default());
    let connection = image.connect().unwrap();
    run(&connection, "CREATE TABLE t (x)").unwrap();
    for (pragma, expected) in [
        ("page_size", "[Integer(4096)]"),
        ("auto_vacuum", "[Integer(0)]"),
        ("journal_mode", "[Text(\"memory\")]"),
        ("locking_mode", "[Text(\"exclusive\")]"),
        ("temp_store", "[Integer(0)]"),
        ("foreign_keys", "[Integer(1)]"),
        ("trusted_schema", "[Integer(0)]"),
    ] {
        assert_eq!(rows(&connection, &format!("PRAGMA {pragma}")), [expected], "{pragma}");
    }
    let temporary = "SELECT * FROM pragma_compile_options WHERE compile_options = 'TEMP_STORE=1'";
    assert_eq!(rows(&connection, temporary).len(), 1, "temporary tables are in files");
}
