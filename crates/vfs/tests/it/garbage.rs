//! Bytes that are not a delta, or no longer the one that was made.

use std::sync::Arc;

use steadfast_vfs::{
    DeltaError, Image, Limits, PAGE_SIZE, Page, apply, apply_to, revert, touched, unpack,
};

use crate::chance::Chance;

/// None of these may panic, and a failure changes nothing.
fn feed(delta: &[u8], pages: &[Page]) {
    let _ = touched(delta);
    let _ = unpack(delta);
    for way in [apply, revert] {
        let mut changed = pages.to_vec();
        if way(&mut changed, delta).is_err() {
            assert!(changed == pages);
        }
    }
    let _ = apply_to(&mut pages.to_vec(), delta, |number| number % 2 == 0);
}

fn sample() -> (Vec<Page>, Vec<u8>, Vec<Page>) {
    let image = Image::new(Vec::new(), Limits::default());
    let connection = image.connect().unwrap();
    let setup = "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1, 'one')";
    connection.execute_batch(setup).unwrap();
    image.accept();
    let before = image.pages().unwrap();
    let rows = "INSERT INTO t VALUES (2, 'two'), (3, zeroblob(9000)); PRAGMA user_version = 9";
    connection.execute_batch(rows).unwrap();
    let changes = image.changes().unwrap();
    (before, changes.delta, image.pages().unwrap())
}

#[test]
fn random_bytes_are_refused_without_a_panic() {
    let mut chance = Chance::new(Chance::seed());
    let pages: Vec<Page> = (0..3).map(|at| Arc::new([at; PAGE_SIZE])).collect();
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..chance.below(60)).map(|_| chance.next() as u8).collect();
        // Most of them begin like a delta, so that the rest is read.
        if chance.below(4) > 0 && bytes.len() > 4 {
            bytes[..4].copy_from_slice(&[1, 3, 3 + chance.below(2) as u8, 1]);
        }
        if chance.one_in(2) {
            bytes.iter_mut().skip(8).for_each(|byte| *byte %= 16);
        }
        feed(&bytes, &pages);
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_leads_elsewhere() {
    let (before, delta, after) = sample();
    let mut silent = 0;
    for bit in 0..delta.len() * 8 {
        let mut flipped = delta.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        feed(&flipped, &after);
        let mut pages = before.clone();
        match apply(&mut pages, &flipped) {
            Ok(()) => {
                assert!(pages != after, "bit {bit} means nothing");
                silent += 1;
            }
            Err(_) => assert!(pages == before),
        }
    }
    // Only the length after carries no checksum, and only where it grows by empty pages.
    assert!(silent <= 24, "{silent} flips went by");
}

#[test]
fn a_flipped_xor_byte_is_a_checksum_error() {
    let (before, delta, after) = sample();
    let at = delta.len() - 1;
    let page = *touched(&delta).unwrap().last().unwrap();
    for bit in 0..8 {
        let mut flipped = delta.clone();
        flipped[at] ^= 1 << bit;
        assert_eq!(apply(&mut before.clone(), &flipped), Err(DeltaError::Checksum { page }));
        // Backwards the page matches the checksum, so the result is checked only where it must be
        // empty, as here: the last page did not exist before.
        assert_eq!(revert(&mut after.clone(), &flipped), Err(DeltaError::Checksum { page }));
    }
}

#[test]
fn a_delta_cut_short_is_refused_or_leads_elsewhere() {
    let (before, delta, after) = sample();
    for length in 0..delta.len() {
        feed(&delta[..length], &before);
        let mut pages = before.clone();
        let applied = apply(&mut pages, &delta[..length]);
        assert!(applied.is_err() || pages != after, "{length} bytes are enough");
    }
    let mut longer = delta;
    longer.push(0);
    assert!(apply(&mut before.clone(), &longer).is_err());
}
