//! Lists: every entry once, in order, across pages.

use std::collections::BTreeSet;

use steadfast_bucket::{ListOptions, PutOptions};
use steadfast_store::{Entropy, SeededEntropy};

use crate::setup::{Setup, bucket, key};

laws!(
    a_list_continues_after_a_prefix_with_more_keys_than_a_page,
    a_list_equals_a_plain_filter,
    keys_of_any_text_and_length_are_listed_and_read,
);
laws!(also on postgres:
    a_list_equals_a_plain_filter,
    keys_of_any_text_and_length_are_listed_and_read,
);

/// All entries of a list, page by page; common prefixes have a star.
async fn shown(setup: &Setup, list: &ListOptions) -> Vec<String> {
    let (mut all, mut after, mut pages) = (Vec::new(), list.after.clone(), 0);
    loop {
        let page = ListOptions { after, ..list.clone() };
        let found = setup.buckets.list(&bucket(), &page).await.unwrap();
        assert!(found.blobs.len() + found.prefixes.len() <= list.limit.unwrap());
        all.extend(found.blobs.iter().map(|it| it.key.to_string()));
        all.extend(found.prefixes.iter().map(|it| format!("{it}*")));
        pages += 1;
        assert!(pages < 1_000, "{list:?} has no end");
        after = found.next;
        if after.is_none() {
            all.sort();
            return all;
        }
    }
}

async fn a_list_continues_after_a_prefix_with_more_keys_than_a_page(setup: Setup) {
    for number in 0..120 {
        setup.put(&format!("many/{number}"), b"").await;
    }
    setup.put("next", b"").await;
    let (delimiter, limit) = ("/".to_owned(), Some(1));
    let list = ListOptions { delimiter, limit, ..ListOptions::default() };
    assert_eq!(shown(&setup, &list).await, ["many/*", "next"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_folders_does_not_read_the_blobs_in_them() {
    let setup = Setup::sqlite().await;
    let delimiter = "/".to_owned();
    let list = ListOptions { delimiter, limit: Some(50), ..ListOptions::default() };
    let steps = async || {
        let before = setup.store.activity().steps;
        assert_eq!(setup.buckets.list(&bucket(), &list).await.unwrap().prefixes.len(), 10);
        setup.store.activity().steps - before
    };
    let fill = async |numbers: std::ops::Range<u32>| {
        for number in numbers {
            for folder in 0..10 {
                setup.put(&format!("{folder}/{number:03}"), b"").await;
            }
        }
    };
    fill(0..5).await;
    steps().await;
    let few = steps().await;
    fill(5..50).await;
    let many = steps().await;
    assert!(0 < few && many <= few + few / 4, "{few} steps, then {many}");
}

/// A plain implementation of `ListOptions`.
fn plain(keys: &BTreeSet<String>, list: &ListOptions) -> Vec<String> {
    let mut all = BTreeSet::new();
    for key in keys {
        let Some(rest) = key.strip_prefix(&list.prefix) else { continue };
        let end = rest.find(&list.delimiter).filter(|_| !list.delimiter.is_empty());
        let end = end.map(|it| list.prefix.len() + it + list.delimiter.len());
        let (item, star) = end.map_or((key.as_str(), ""), |it| (&key[..it], "*"));
        if Some(item) > list.after.as_deref() {
            all.insert(format!("{item}{star}"));
        }
    }
    all.into_iter().collect()
}

async fn a_list_equals_a_plain_filter(setup: Setup) {
    let seed = 11;
    let chance = SeededEntropy::new(seed);
    let letters = ["a", "b", "/", "ü", "\0", "\u{10FFFF}", "//"];
    let text = |most: u64| -> String {
        let len = chance.next() % (most + 1);
        (0..len).map(|_| letters[(chance.next() % 7) as usize]).collect()
    };
    let mut keys = BTreeSet::new();
    for _ in 0..60 {
        let at = format!("{}k", text(4));
        setup.put(&at, b"").await;
        keys.insert(at);
    }
    for gone in keys.clone().into_iter().step_by(7) {
        setup.buckets.delete(&bucket(), &key(&gone), Default::default()).await.unwrap();
        keys.remove(&gone);
    }
    for _ in 0..150 {
        let after = text(3);
        let list = ListOptions {
            prefix: text(2),
            delimiter: text(2),
            after: (!after.is_empty()).then_some(after),
            limit: Some(1 + (chance.next() % 9) as usize),
        };
        assert_eq!(shown(&setup, &list).await, plain(&keys, &list), "seed {seed}, {list:?}");
    }
    let nothing = ListOptions { limit: Some(0), ..ListOptions::default() };
    assert_eq!(setup.buckets.list(&bucket(), &nothing).await.unwrap(), Default::default());
}

async fn keys_of_any_text_and_length_are_listed_and_read(setup: Setup) {
    setup.listen().await;
    let long = "\u{1F600}".repeat(256);
    let mut keys = vec!["\0", "../../etc/passwd", "a\0b", "a//b/", "\u{202E}rtl", &long];
    for at in &keys {
        let options = PutOptions::default();
        setup.buckets.put(&bucket(), &key(at), at.as_bytes(), options).await.unwrap();
    }
    keys.sort_unstable();
    for at in &keys {
        assert_eq!(setup.get(at).await, at.as_bytes());
    }
    let list = ListOptions { limit: Some(2), ..ListOptions::default() };
    assert_eq!(shown(&setup, &list).await, keys);
    let mut told: Vec<_> = setup.events().await.iter().map(|it| it.key().to_owned()).collect();
    told.sort_unstable();
    assert_eq!(told, keys);
}
