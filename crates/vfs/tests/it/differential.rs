//! The same random statements on an image and on ordinary SQLite.

use std::sync::Arc;

use rusqlite::Connection;
use steadfast_vfs::{Image, Limits, Page};

use crate::{
    chance::Chance,
    history::{History, copy},
    oracle::{assert_sound, dump, run},
    workload::{schema, statement},
};

const RUNS: u64 = 4;
const TURNS: usize = 60;

/// The outcome of a turn on both databases.
#[derive(PartialEq, Eq)]
enum End {
    Kept,
    Undone,
}

struct Lab {
    image: Arc<Image>,
    tried: Connection,
    oracle: Connection,
    chance: Chance,
    place: String,
}

impl Lab {
    fn new(seed: u64) -> Self {
        let image = Image::new(Vec::new(), Limits::default());
        let tried = image.connect().unwrap();
        let oracle = Connection::open_in_memory().unwrap();
        oracle.execute_batch("PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF").unwrap();
        let place = format!("seed {seed}");
        Self { image, tried, oracle, chance: Chance::new(seed), place }
    }

    /// The same answer from both.
    fn both(&self, sql: &str) -> Result<(), String> {
        let answer = run(&self.tried, sql);
        assert_eq!(answer, run(&self.oracle, sql), "{}: {sql}", self.place);
        assert_eq!(
            self.tried.is_autocommit(),
            self.oracle.is_autocommit(),
            "{}: {sql}",
            self.place
        );
        answer
    }

    fn turn(&mut self) -> End {
        match self.chance.below(12) {
            0 => {
                self.both("VACUUM").unwrap();
                End::Kept
            }
            // Each statement is a transaction of its own.
            1 | 2 => {
                for _ in 0..1 + self.chance.below(4) {
                    let sql = statement(&mut self.chance);
                    let _ = self.both(&sql);
                }
                End::Kept
            }
            3 => {
                self.refused();
                End::Undone
            }
            _ => self.transaction(),
        }
    }

    /// SQLite has committed, but the turn is refused. The oracle does not run it.
    fn refused(&mut self) {
        for _ in 0..1 + self.chance.below(5) {
            let sql = statement(&mut self.chance);
            let _ = run(&self.tried, &sql);
        }
        if self.chance.one_in(2) {
            run(&self.tried, "VACUUM").unwrap();
        }
        self.reconnect();
    }

    /// Drops the connection in any state, and starts again from the last `accept`.
    fn reconnect(&mut self) {
        let other = Connection::open_in_memory().unwrap();
        drop(std::mem::replace(&mut self.tried, other));
        self.image.rollback();
        self.tried = self.image.connect().unwrap();
    }

    fn transaction(&mut self) -> End {
        self.both("BEGIN").unwrap();
        let mut savepoints = 0;
        for _ in 0..1 + self.chance.below(8) {
            let sql = match self.chance.below(6) {
                0 => "SAVEPOINT s".into(),
                1 if savepoints > 0 => self.chance.pick(&["RELEASE s", "ROLLBACK TO s"]).into(),
                _ => statement(&mut self.chance),
            };
            let done = self.both(&sql).is_ok();
            match sql.as_str() {
                "SAVEPOINT s" if done => savepoints += 1,
                "RELEASE s" if done => savepoints -= 1,
                _ => {}
            }
            // A trigger or a conflict clause has ended the transaction.
            if self.tried.is_autocommit() {
                return End::Undone;
            }
        }
        if self.chance.one_in(4) {
            self.undo();
            End::Undone
        } else if self.both("COMMIT").is_err() {
            self.both("ROLLBACK").unwrap();
            End::Undone
        } else {
            End::Kept
        }
    }

    /// Rolls back, or drops the connection in the middle of the transaction.
    fn undo(&mut self) {
        if self.chance.one_in(3) {
            self.oracle.execute_batch("ROLLBACK").unwrap();
            self.reconnect();
        } else {
            self.both("ROLLBACK").unwrap();
        }
    }
}

#[test]
fn an_image_agrees_with_ordinary_sqlite_and_its_deltas_lead_both_ways() {
    let base = Chance::seed();
    for seed in base..base + RUNS {
        let mut lab = Lab::new(seed);
        // While there are other references the pages are copied on write, otherwise written in
        // place.
        let shared = seed % 2 == 0;
        let keep = |pages: Vec<Page>| if shared { pages } else { copy(&pages) };
        schema(&mut lab.chance).iter().for_each(|sql| lab.both(sql).unwrap());
        let mut history = History::new(&[]);
        history.push(lab.image.changes().unwrap());
        lab.image.accept();
        for turn in 0..TURNS {
            lab.place = format!("seed {seed}, turn {turn}");
            let before = keep(lab.image.pages().unwrap());
            let end = lab.turn();
            if end == End::Undone {
                lab.image.rollback();
                assert!(lab.image.pages().unwrap() == before, "{}: it has changed", lab.place);
                assert_eq!(lab.image.changes(), None, "{}", lab.place);
            } else if let Some(changes) = lab.image.changes() {
                history.push(changes);
                lab.image.accept();
                assert_eq!(lab.image.changes(), None, "{}", lab.place);
            } else {
                assert!(lab.image.pages().unwrap() == before, "{}: a change is missing", lab.place);
                lab.image.accept();
            }
            assert_eq!(dump(&lab.tried), dump(&lab.oracle), "{}", lab.place);
            if turn % 10 == 9 {
                assert_sound(&lab.tried, &lab.place);
                history.check(&lab.image.pages().unwrap(), &mut lab.chance, &lab.place);
            }
            if turn % 30 == 29 {
                history = History::new(&lab.image.pages().unwrap());
            }
        }
        reopened(&lab);
    }
}

/// The pages alone are the whole database.
fn reopened(lab: &Lab) {
    let image = Image::new(copy(&lab.image.pages().unwrap()), Limits::default());
    let connection = image.connect().unwrap();
    assert_sound(&connection, &lab.place);
    assert_eq!(dump(&connection), dump(&lab.oracle), "{}", lab.place);
    assert_eq!(image.changes(), None, "{}: reading has changed something", lab.place);
}
