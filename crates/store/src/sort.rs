//! Sorting of short lists, compiled once. The standard library compiles 2,400 lines for each type.

use std::cmp::Ordering;

/// Sorts a list by a key, as [`slice::sort_by_key`] does: items with the same key keep their order.
pub fn sort_by_key<T, K: Ord>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Sorts a list, as [`slice::sort_by`] does.
pub(crate) fn sort_by<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    if items.is_sorted_by(|a, b| compare(a, b).is_le()) {
        return;
    }
    let order = order(items.len(), &|a, b| compare(&items[a], &items[b]));
    let mut found: Vec<Option<T>> = items.drain(..).map(Some).collect();
    items.extend(order.into_iter().filter_map(|it| found[it].take()));
}

/// The numbers up to `len`, sorted.
fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_sorted_and_equal_keys_keep_their_order() {
        for len in [0, 1, 2, 3, 20, 21, 500] {
            let list = (0..len).map(|it: u32| ((it * 7_919) % 13, it.to_string()));
            let (mut found, mut expected) = (list.clone().collect(), list.collect::<Vec<_>>());
            sort_by_key(&mut found, |it| it.0);
            expected.sort_by_key(|it| it.0);
            assert_eq!(found, expected);
        }
    }
}
