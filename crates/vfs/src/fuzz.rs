//! Fuzz targets: stored deltas and pages.

use std::sync::Arc;

use crate::{
    apply, apply_to,
    delta::Writer,
    pack, pages_after, revert,
    source::{Bytes, PAGE_SIZE, Page, ZERO},
    touched, unpack,
};

/// Growing a database by empty pages takes no memory, but time.
const PAGES_MAX: u32 = 1_024;

/// A stored delta. The first byte is the number of pages of the database.
pub fn delta(data: &[u8]) {
    let Some((count, delta)) = data.split_first() else { return };
    let before: Vec<Page> = (0..count % 5).map(|it| Arc::new([it; PAGE_SIZE])).collect();
    if pages_after(delta).is_ok_and(|it| PAGES_MAX < it) {
        return;
    }
    let mut some = before.clone();
    if apply_to(&mut some, delta, |number| number % 2 == 0).is_err() {
        assert!(some == before, "a failed delta changed pages");
    }
    let mut reverted = before.clone();
    if revert(&mut reverted, delta).is_err() {
        assert!(reverted == before, "a failed delta changed pages");
    }
    let mut after = before.clone();
    if apply(&mut after, delta).is_err() {
        assert!(after == before, "a failed delta changed pages");
        return;
    }
    assert_eq!(pages_after(delta).map(|it| it as usize), Ok(after.len()));
    let named = touched(delta).expect("the delta was applied");
    let is_named = |at: usize| named.contains(&(at as u32 + 1));
    let is_same = |at: usize| is_named(at) || before.get(at) == after.get(at);
    assert!((0..before.len().min(after.len())).all(is_same), "a delta changed another page");
    // The writer of deltas names every page that it removes, unless the page is empty.
    if (after.len()..before.len()).all(|at| is_named(at) || *before[at] == ZERO) {
        assert_eq!(revert(&mut after, delta), Ok(()));
        assert!(after == before, "a delta was not undone");
    }
}

/// A stored page, and the difference of two pages.
pub fn page(data: &[u8]) {
    if let Ok(page) = unpack(data) {
        assert!(unpack(&pack(&page)) == Ok(page), "a page changed when it was packed");
    }
    let (old, new) = data.split_at(data.len() / 2);
    let (old, new) = (filled(old), filled(new));
    assert!(unpack(&pack(&new)) == Ok(Arc::new(new)), "a page changed when it was packed");
    let mut writer = Writer::new(1, 1);
    writer.page(1, &old, &new);
    let (delta, named) = writer.finish();
    assert_eq!(touched(&delta), Ok(named));
    let mut pages = vec![Arc::new(old)];
    assert_eq!(apply(&mut pages, &delta), Ok(()));
    assert!(*pages[0] == new, "a delta leads to another page");
    assert_eq!(revert(&mut pages, &delta), Ok(()));
    assert!(*pages[0] == old, "a delta was not undone");
}

/// A page with these bytes at its beginning and its end.
fn filled(bytes: &[u8]) -> Bytes {
    let (mut page, len) = (ZERO, bytes.len().min(PAGE_SIZE));
    page[..len].copy_from_slice(&bytes[..len]);
    page[PAGE_SIZE - len..].copy_from_slice(&bytes[..len]);
    page
}

#[cfg(test)]
mod tests {
    use steadfast_mutations::run;

    #[test]
    fn deltas_fail_without_effect_and_can_be_undone() {
        run("delta", super::delta, 2_000);
    }

    #[test]
    fn pages_are_packed_without_loss() {
        run("page", super::page, 1_000);
    }
}
