//! Settings of SQLite apply to a whole process, and only before it has other threads: this test is
//! a process of its own, without the threads of a test harness.

#![allow(unsafe_code, reason = "SQLite's count of its memory is read from C")]
#![allow(clippy::print_stdout, reason = "a program that lists its test")]

use rusqlite::{Connection, ffi::sqlite3_memory_used};

fn main() {
    // As a test harness answers `--list`.
    if std::env::args().any(|it| it == "--list") {
        println!("sqlite_is_tuned_once_and_before_there_are_threads: test");
        return;
    }
    assert!(steadfast_vfs::tune_sqlite(), "it is not in use yet");
    let waits = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| waits.wait());
        assert!(!steadfast_vfs::tune_sqlite(), "there is another thread");
        waits.wait();
    });
    let connection = Connection::open_in_memory().expect("it opens");
    let made = "CREATE TABLE a (b); INSERT INTO a VALUES (zeroblob(100000))";
    connection.execute_batch(made).expect("it works");
    // SAFETY: it takes nothing and may be called at any time.
    let counted = unsafe { sqlite3_memory_used() };
    assert_eq!(counted, 0, "SQLite does not count");
    assert!(!steadfast_vfs::tune_sqlite(), "it is in use");
}
