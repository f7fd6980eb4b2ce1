//! Pages that are loaded lazily: only the reads differ.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::{Connection, ErrorCode};
use steadfast_vfs::{Image, Limits, NotLoaded, Page, Source};

use crate::{
    chance::Chance,
    history::copy,
    oracle::{assert_sound, dump, rows, run},
    workload::{schema, statement},
};

/// Pages outside of memory, and a record of their reads.
struct Elsewhere {
    pages: Vec<Page>,
    read: Mutex<Vec<RangeInclusive<u32>>>,
    away: AtomicBool,
}

impl Elsewhere {
    fn new(pages: Vec<Page>) -> Arc<Self> {
        Arc::new(Self { pages, read: Mutex::default(), away: AtomicBool::new(false) })
    }

    /// Nothing in memory but the pages for which `kept` returns `true`.
    fn image(self: &Arc<Self>, mut kept: impl FnMut() -> bool) -> Arc<Image> {
        let pages = copy(&self.pages).into_iter().map(|page| kept().then_some(page));
        Image::lazy(pages.collect(), self.clone(), Limits::default())
    }

    fn reads(&self) -> Vec<RangeInclusive<u32>> {
        std::mem::take(&mut self.read.lock().unwrap())
    }
}

impl Source for Elsewhere {
    fn load(&self, pages: RangeInclusive<u32>) -> Result<Vec<Page>, String> {
        if self.away.load(Ordering::Relaxed) {
            return Err("away".into());
        }
        self.read.lock().unwrap().push(pages.clone());
        Ok(copy(&self.pages[*pages.start() as usize - 1..*pages.end() as usize]))
    }
}

/// A table of 300 rows, one on each page.
fn large() -> Arc<Elsewhere> {
    let image = Image::new(Vec::new(), Limits::default());
    let connection = image.connect().unwrap();
    let fill = "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB); \
         WITH n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300) \
         INSERT INTO t SELECT x, CAST(printf('%.3000c', char(65 + x % 26)) AS BLOB) FROM n";
    run(&connection, fill).unwrap();
    drop(connection);
    Elsewhere::new(image.pages().unwrap())
}

fn io_error(connection: &Connection, sql: &str) {
    let error = connection.execute_batch(sql).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure), "{sql}: {error}");
}

/// The same turns on an image with all pages and on images with missing ones.
#[test]
fn turns_on_pages_that_are_read_when_needed_make_the_same_deltas() {
    let base = Chance::seed();
    for seed in base..base + 3 {
        let mut chance = Chance::new(seed);
        let whole = Image::new(Vec::new(), Limits::default());
        let mut all = whole.connect().unwrap();
        schema(&mut chance).iter().for_each(|sql| run(&all, sql).unwrap());
        (0..60).for_each(|_| _ = run(&all, &statement(&mut chance)));
        whole.accept();
        for turn in 0..60 {
            let place = format!("seed {seed}, turn {turn}");
            let source = Elsewhere::new(copy(&whole.pages().unwrap()));
            let few = source.image(|| chance.one_in(4));
            let some = few.connect().unwrap();
            // The cache of a connection decides which page it takes next.
            drop(all);
            all = whole.connect().unwrap();
            let ends = [["BEGIN", "COMMIT"], ["BEGIN", "ROLLBACK"], ["", "VACUUM"]];
            let [begin, end] = ends[chance.below(3)];
            let statements: Vec<String> = (0..5).map(|_| statement(&mut chance)).collect();
            let script = [begin].into_iter().chain(statements.iter().map(String::as_str));
            for sql in script.chain([end]) {
                assert_eq!(run(&some, sql), run(&all, sql), "{place}: {sql}");
            }
            assert!(few.changes() == whole.changes(), "{place}: other deltas");
            if chance.one_in(2) && all.is_autocommit() {
                whole.accept();
                few.accept();
            } else {
                drop((some, all));
                whole.rollback();
                few.rollback();
                all = whole.connect().unwrap();
            }
            assert_eq!(few.page_count(), whole.page_count(), "{place}");
            assert!(few.pages().unwrap() == whole.pages().unwrap(), "{place}: other pages");
        }
        assert_sound(&all, "at the end");
        assert!(!dump(&all).is_empty());
    }
}

#[test]
fn only_needed_pages_are_read_and_only_once() {
    let source = large();
    let image = source.image(|| false);
    assert_eq!((image.loaded(), source.reads().len()), (0, 0));
    let connection = image.connect().unwrap();
    assert_eq!(rows(&connection, "SELECT count(*) FROM sqlite_schema"), ["[Integer(1)]"]);
    assert_eq!(source.reads(), [1..=16]);
    let one = "SELECT length(v) FROM t WHERE id = 150";
    assert_eq!(rows(&connection, one), ["[Integer(3000)]"]);
    assert!(image.loaded() <= 48, "{} pages", image.loaded());
    assert!(!source.reads().is_empty());
    assert_eq!(rows(&connection, one), ["[Integer(3000)]"]);
    run(&connection, "UPDATE t SET v = 'x' WHERE id = 150").unwrap();
    assert_eq!(source.reads(), []);
    assert!(image.changes().unwrap().touched.len() <= 2);
}

#[test]
fn sequential_reads_read_more_and_more_pages_at_once() {
    let source = large();
    let image = source.image(|| false);
    let connection = image.connect().unwrap();
    assert_eq!(rows(&connection, "SELECT count(v) FROM t"), ["[Integer(300)]"]);
    assert_eq!(rows(&connection, "SELECT sum(length(v)) FROM t"), ["[Integer(900000)]"]);
    assert_eq!(image.loaded(), image.page_count() as usize);
    let reads = source.reads();
    assert!(reads.len() < 8, "{reads:?}");
    let read: u32 = reads.iter().map(|it| it.clone().count() as u32).sum();
    assert_eq!(read, image.page_count(), "{reads:?}");
}

#[test]
fn pages_that_a_rolled_back_turn_has_read_or_removed_are_as_they_were() {
    let source = large();
    let image = source.image(|| false);
    let connection = image.connect().unwrap();
    run(&connection, "BEGIN; UPDATE t SET v = 'x' WHERE id = 150; ROLLBACK").unwrap();
    image.rollback();
    assert_eq!(image.changes(), None);
    run(&connection, "DELETE FROM t WHERE id > 5; VACUUM").unwrap();
    assert!(image.page_count() < 20);
    drop(connection);
    image.rollback();
    assert_eq!(image.changes(), None);
    assert!(image.pages().unwrap() == source.pages);
    assert_sound(&image.connect().unwrap(), "after a rollback");
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_of_the_statement_and_of_the_image() {
    let source = large();
    let image = source.image(|| false);
    let connection = image.connect().unwrap();
    run(&connection, "BEGIN; UPDATE t SET v = 'x' WHERE id = 1").unwrap();
    source.away.store(true, Ordering::Relaxed);
    assert_eq!(image.fault(), None);
    io_error(&connection, "UPDATE t SET v = 'y' WHERE id = 200");
    let fault = image.fault().unwrap();
    assert_eq!(fault.detail, "away");
    // It is not read again.
    source.away.store(false, Ordering::Relaxed);
    assert_eq!(image.pages(), Err::<Vec<Page>, NotLoaded>(fault));
    drop(connection);
    image.rollback();
    assert_eq!(image.changes(), None);
    assert!(source.reads().len() < 3);
}

#[test]
fn a_source_that_panics_or_gives_too_little_is_one_that_cannot_be_read() {
    struct Bad(bool);
    impl Source for Bad {
        fn load(&self, _: RangeInclusive<u32>) -> Result<Vec<Page>, String> {
            assert!(self.0, "as the test wanted");
            Ok(Vec::new())
        }
    }
    for panics in [true, false] {
        let pages = large().pages.iter().map(|_| None).collect();
        let image = Image::lazy(pages, Arc::new(Bad(!panics)), Limits::default());
        image.connect().unwrap_err();
        assert!(image.fault().is_some());
    }
}
