//! The time that SQL returns as 'now'.

use rusqlite::Connection;
use steadfast_vfs::{Image, Limits, at_time};

use crate::oracle::rows;

fn now(connection: &Connection) -> Vec<String> {
    rows(connection, "SELECT unixepoch('subsec') * 1000, datetime('now'), CURRENT_TIMESTAMP")
}

#[test]
fn sql_sees_the_time_that_was_set_and_the_real_one_afterwards() {
    let image = Image::new(Vec::new(), Limits::default());
    let connection = image.connect().unwrap();
    let inside = at_time(1_700_000_000_123, || now(&connection));
    let text = "Text(\"2023-11-14 22:13:20\")";
    assert_eq!(inside, [format!("[Real(1700000000123.0), {text}, {text}]")]);
    let nested = at_time(0, || (at_time(86_400_000, || now(&connection)), now(&connection)));
    assert!(nested.0[0].contains("1970-01-02"), "{nested:?}");
    assert!(nested.1[0].contains("1970-01-01"), "{nested:?}");
    let outside = rows(&connection, "SELECT unixepoch() > 1700000000");
    assert_eq!(outside, ["[Integer(1)]"]);
}

#[test]
fn a_panic_gives_the_real_time_back() {
    let image = Image::new(Vec::new(), Limits::default());
    let connection = image.connect().unwrap();
    let caught = std::panic::catch_unwind(|| at_time(0, || panic!("on purpose")));
    assert!(caught.is_err());
    assert_eq!(rows(&connection, "SELECT unixepoch() > 1700000000"), ["[Integer(1)]"]);
}

#[test]
fn a_time_that_no_calendar_has_is_not_an_error() {
    let image = Image::new(Vec::new(), Limits::default());
    let connection = image.connect().unwrap();
    for time in [i64::MIN, -1, i64::MAX] {
        assert_eq!(at_time(time, || now(&connection)).len(), 1);
    }
}
