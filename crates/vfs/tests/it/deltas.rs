//! Deltas of small changes: their size, and the rejection of mismatches.

use std::sync::Arc;

use rusqlite::Connection;
use steadfast_vfs::{
    DeltaError, Image, ImageChanges, Limits, PAGE_SIZE, Page, apply, apply_to, checksum, pack,
    pages_after, revert, unpack,
};

use crate::chance::Chance;

fn counter() -> (Arc<Image>, Connection) {
    let image = Image::new(Vec::new(), Limits::default());
    let connection = image.connect().unwrap();
    let setup = "CREATE TABLE counter (id INTEGER PRIMARY KEY, value INT, note TEXT);
                 INSERT INTO counter VALUES (1, 41, 'first'), (2, 7, 'second')";
    connection.execute_batch(setup).unwrap();
    image.accept();
    (image, connection)
}

fn change(image: &Image, connection: &Connection, sql: &str) -> ImageChanges {
    connection.execute_batch(sql).unwrap();
    let changes = image.changes().unwrap();
    image.accept();
    changes
}

#[test]
fn a_counter_update_takes_less_than_100_bytes_and_a_small_row_less_than_130() {
    let (image, connection) = counter();
    let update = "UPDATE counter SET value = value + 1 WHERE id = 1";
    let changes = change(&image, &connection, update);
    assert!(changes.delta.len() < 100, "{} bytes", changes.delta.len());
    let row = "INSERT INTO counter (value, note) VALUES (17, 'a small row of ordinary size')";
    for _ in 0..20 {
        let changes = change(&image, &connection, row);
        assert!(changes.delta.len() < 130, "{} bytes", changes.delta.len());
    }
}

#[test]
fn a_page_written_and_written_back_is_no_change() {
    let (image, connection) = counter();
    // The first write of a connection also increments a counter in the header.
    change(&image, &connection, "UPDATE counter SET value = 50");
    let writes = image.writes();
    connection.execute_batch("SELECT * FROM counter").unwrap();
    assert_eq!(image.writes(), writes);
    connection.execute_batch("UPDATE counter SET value = 60").unwrap();
    assert!(image.writes() > writes);
    connection.execute_batch("UPDATE counter SET value = 50").unwrap();
    assert_eq!(image.changes(), None);
}

#[test]
fn pages_come_and_go_in_a_delta() {
    let (image, connection) = counter();
    let before = image.pages().unwrap();
    let grow = "INSERT INTO counter (value, note) VALUES (1, printf('%.50000c', 'x'))";
    let grown = change(&image, &connection, grow);
    let large = image.pages().unwrap();
    assert!(grown.pages > before.len() as u32 + 10);
    connection.execute_batch("DELETE FROM counter WHERE id = 3").unwrap();
    let shrunk = change(&image, &connection, "VACUUM");
    let small = image.pages().unwrap();
    assert_eq!(small.len(), before.len());
    assert_eq!(shrunk.touched.last(), Some(&(large.len() as u32)));

    let mut pages = small.clone();
    revert(&mut pages, &shrunk.delta).unwrap();
    assert!(pages == large);
    revert(&mut pages, &grown.delta).unwrap();
    assert!(pages == before);
    apply(&mut pages, &grown.delta).unwrap();
    assert!(pages == large);
    apply(&mut pages, &shrunk.delta).unwrap();
    assert!(pages == small);
}

#[test]
fn a_delta_refuses_a_database_that_it_was_not_made_from() {
    let (image, connection) = counter();
    let before = image.pages().unwrap();
    let changes = change(&image, &connection, "UPDATE counter SET value = value + 1");
    let after = image.pages().unwrap();

    let mut twice = after.clone();
    let page = changes.touched[0];
    assert_eq!(apply(&mut twice, &changes.delta), Err(DeltaError::Checksum { page }));
    assert!(twice == after);
    let mut early = before.clone();
    assert_eq!(revert(&mut early, &changes.delta), Err(DeltaError::Checksum { page }));
    assert!(early == before);
    let mut short = before[..1].to_vec();
    let error = DeltaError::Length { expected: before.len() as u32, actual: 1 };
    assert_eq!(apply(&mut short, &changes.delta), Err(error));
}

#[test]
fn pages_that_are_not_wanted_stay_and_the_length_only_grows() {
    let (image, connection) = counter();
    let start = image.pages().unwrap();
    let grow = "INSERT INTO counter (value, note) VALUES (1, printf('%.50000c', 'x'))";
    let grown = change(&image, &connection, grow);
    let large = image.pages().unwrap();
    connection.execute_batch("DELETE FROM counter WHERE id = 3").unwrap();
    let shrunk = change(&image, &connection, "VACUUM");

    let mut pages = start.clone();
    apply_to(&mut pages, &grown.delta, |_| false).unwrap();
    assert!(pages[..start.len()] == start[..]);
    assert!(pages[start.len()..].iter().all(|page| **page == [0; PAGE_SIZE]));
    let mut pages = large.clone();
    apply_to(&mut pages, &shrunk.delta, |number| number < large.len() as u32).unwrap();
    assert_eq!(pages.len(), large.len());
    assert!(pages[large.len() - 1] == large[large.len() - 1]);
    assert!(*pages[large.len() - 2] == [0; PAGE_SIZE]);
    pages.truncate(pages_after(&shrunk.delta).unwrap() as usize);
    assert!(pages == image.pages().unwrap());
}

/// Pages of all kinds: empty, full, sparse, with runs at both ends.
pub(crate) fn random_page(chance: &mut Chance) -> Page {
    let mut page = [0; PAGE_SIZE];
    let density = [0, 1, 3, 40, 700, 4096][chance.below(6)];
    for _ in 0..density {
        page[chance.below(PAGE_SIZE)] = chance.next() as u8;
    }
    for end in [0, PAGE_SIZE - 1] {
        if chance.one_in(3) {
            page[end] = chance.next() as u8;
        }
    }
    if chance.one_in(8) {
        page.iter_mut().for_each(|byte| *byte = chance.next() as u8 | 1);
    }
    Arc::new(page)
}

#[test]
fn a_packed_page_unpacks_to_itself_and_is_never_much_larger() {
    let mut chance = Chance::new(Chance::seed());
    for _ in 0..300 {
        let page = random_page(&mut chance);
        let packed = pack(&page);
        assert!(packed.len() <= PAGE_SIZE + 8, "{} bytes", packed.len());
        assert_eq!(unpack(&packed).unwrap(), page);
    }
    assert_eq!(pack(&[0; PAGE_SIZE]).len(), 1);
    assert_eq!(checksum(&[0; PAGE_SIZE]), 0xC71C_0011);
}
