//! Operations whose callers go away. Each public operation that commits is dropped after each of
//! its first polls; afterwards buckets answer as the store does, what is counted is what they hold,
//! and no file stays without a blob.

use std::{collections::BTreeSet, fs, time::Duration};

use steadfast_bucket::{
    Attributes, BucketError, BucketName, BucketSettings, Buckets, Condition, CopyOptions, CorsRule,
    EventType, ExpectedContent, GetOptions, KeyScope, LifecycleRule, ListOptions, PartTag,
    PutOptions, Quota, Rule, create_key, delete_key, delete_older_keys, find_key, list_keys,
    note_key_use, rotate_key, seal_keys,
};
use steadfast_store::{Commit, Remember, Seal, SealFile, Timestamp, queue_address};

use crate::{
    dropping::{ATTEMPTS, Area, check_areas, dropped, each},
    setup::{Setup, bucket, key, open},
};

laws!(on sqlite, postgres:
    blobs_of_callers_that_were_dropped_are_those_of_the_store,
    uploads_of_callers_that_were_dropped_are_those_of_the_store,
    buckets_and_settings_are_those_of_the_store,
    quotas_and_expenses_are_those_of_the_store,
    access_keys_are_those_of_the_store,
);

const AREAS: &[Area] = &[
    Area {
        file: "check.rs",
        tried: &[],
        others: &[
            "check",
            "check_in_background",
            "check_record",
            "count_blobs",
            "still_unreadable",
        ],
    },
    Area {
        file: "configure.rs",
        tried: &[
            "configure",
            "create",
            "delete_bucket",
            "delete_cors",
            "delete_lifecycle",
            "delete_rule",
            "ensure",
            "put_cors",
            "put_lifecycle",
            "put_rule",
            "set_cors",
        ],
        others: &["bucket", "buckets", "cors"],
    },
    Area { file: "change.rs", tried: &["copy", "delete"], others: &["events"] },
    Area {
        file: "keys.rs",
        tried: &[
            "create_key",
            "delete_key",
            "delete_older_keys",
            "note_key_use",
            "rotate_key",
            "seal_keys",
        ],
        others: &["find_key", "list_keys", "older_keys"],
    },
    Area {
        file: "part_writer.rs",
        tried: &["expect_size", "finish", "part_writer", "write"],
        others: &[],
    },
    Area {
        file: "quotas.rs",
        tried: &["count_usage", "remove_quota", "set_quota"],
        others: &["quota", "quotas"],
    },
    Area { file: "usage.rs", tried: &["spend"], others: &["check_spend", "spent"] },
    Area { file: "sweep.rs", tried: &["sweep"], others: &[] },
    Area {
        file: "upload.rs",
        tried: &[
            "abort_upload",
            "begin_upload",
            "begin_upload_as",
            "complete_upload",
            "complete_upload_as",
        ],
        others: &["parts", "upload", "uploads"],
    },
    Area {
        file: "writer.rs",
        tried: &["expect_size", "finish", "put", "write", "writer"],
        others: &[],
    },
];

/// Files whose operations only read, or are awaited by the program itself.
const OTHERS: &[&str] = &["blob_reader.rs", "list.rs", "open.rs"];

#[test]
fn every_public_operation_is_tried_or_commits_nothing() {
    check_areas(env!("CARGO_MANIFEST_DIR"), AREAS.iter(), OTHERS.iter());
}

/// All that buckets answer, and whether they count what they hold.
async fn answers(buckets: &Buckets) -> (Vec<String>, bool) {
    let quota = buckets.quota("acme").await.unwrap();
    let spent = buckets.spent("acme").await.unwrap();
    let mut answers = vec![format!("{quota:?}"), format!("{spent}")];
    let (mut bytes, mut objects) = (0, 0);
    for info in buckets.buckets(None, 100).await.unwrap() {
        answers.push(format!("{info:?}"));
        let name = &info.name;
        let list = match buckets.list(name, &ListOptions::default()).await {
            // A task that ends what the caller began deleted it after it was listed.
            Err(BucketError::UnknownBucket { .. }) => return (answers, false),
            list => list.unwrap(),
        };
        for blob in list.blobs {
            let read = match buckets.get(name, &blob.key, GetOptions::default()).await {
                Ok(reader) => reader.bytes().await,
                Err(error) => Err(error),
            };
            let read = read.map(|it| it.len()).map_err(|it| it.to_string());
            answers.push(format!("{name} {} {} {read:?}", blob.key, blob.version()));
            (bytes, objects) = (bytes + blob.size, objects + 1);
        }
        let uploads = match buckets.uploads(name, "", None, 1_000).await {
            Err(BucketError::UnknownBucket { .. }) => return (answers, false),
            uploads => uploads.unwrap(),
        };
        for upload in uploads {
            let parts = buckets.parts(name, &upload, 0, 1_000).await.unwrap();
            answers.push(format!("{name} {upload:?} {parts:?}"));
            (bytes, objects) = (bytes + parts.iter().map(|it| it.size).sum::<u64>(), objects + 1);
        }
    }
    let counted = quota.filter(|it| !it.is_counting);
    (answers, counted.is_none_or(|it| (it.bytes.used, it.objects.used) == (bytes, objects)))
}

/// Waits until buckets answer as those do that have nothing in memory.
async fn agree(setup: &Setup) {
    // Behind this, every commit of a dropped operation is decided.
    setup.store.commit(Commit::default()).await.unwrap();
    let mut differ = Default::default();
    for _ in 0..ATTEMPTS {
        let fresh = Buckets::builder(setup.store.clone());
        let fresh = fresh.open_read_only(setup.blobs.clone()).await.unwrap();
        differ = (answers(&setup.buckets).await, answers(&fresh).await);
        if differ.0 == differ.1 && differ.0.1 {
            return;
        }
        // A task that ends what the caller began may still run.
        tokio::task::yield_now().await;
    }
    assert_eq!(differ.0, differ.1, "the buckets and their store differ");
    panic!("what is counted is not what the buckets hold: {:#?}", differ.0.0);
}

/// Ends as a program does, and compares the files with those of the blobs.
async fn end(setup: Setup) {
    setup.buckets.close().await;
    let buckets = open(&setup.store, setup.blobs.clone(), 9).await;
    setup.pass(Duration::from_hours(24));
    buckets.sweep().await.unwrap();
    let mut used = BTreeSet::new();
    for info in buckets.buckets(None, 100).await.unwrap() {
        for blob in buckets.list(&info.name, &ListOptions::default()).await.unwrap().blobs {
            used.insert(blob.version());
        }
        for upload in buckets.uploads(&info.name, "", None, 1_000).await.unwrap() {
            buckets.abort_upload(&info.name, &upload.key, &upload.id).await.unwrap();
        }
    }
    buckets.sweep().await.unwrap();
    let files: BTreeSet<String> =
        setup.all_files().iter().map(|it| it.content.to_string()).collect();
    assert_eq!(files.len(), used.len(), "{files:?} {used:?}");
    buckets.close().await;
}

async fn with_quota(setup: &Setup) {
    let quota = Quota { bytes: Some(1 << 40), ..Quota::default() };
    setup.buckets.set_quota("acme", quota).await.unwrap();
    setup.buckets.count_usage().await.unwrap();
}

async fn blobs_of_callers_that_were_dropped_are_those_of_the_store(setup: Setup) {
    with_quota(&setup).await;
    setup.listen().await;
    let (buckets, bucket) = (&setup.buckets, &bucket());
    let at = &key("acme/a");
    each(async |polls| {
        let bytes = vec![1; 100 + polls];
        let put = dropped(polls, buckets.put(bucket, at, &bytes, PutOptions::default())).await;
        agree(&setup).await;
        put
    })
    .await;
    let scope = queue_address("keys").unwrap().id();
    each(async |polls| {
        let once = || Some(Remember::new(scope, &format!("put {polls}"), b"").unwrap());
        let put = || PutOptions { once: once(), ..PutOptions::default() };
        let first = dropped(polls, buckets.put(bucket, at, b"once", put())).await;
        let again = buckets.put(bucket, at, b"once", put()).await;
        assert!(matches!(again, Ok(_) | Err(BucketError::Repeated { .. })), "{again:?}");
        agree(&setup).await;
        first
    })
    .await;
    each(async |polls| {
        let write = async {
            let mut writer = buckets.writer(bucket, &key("acme/b")).await.unwrap();
            writer.expect_size(2_000).await.unwrap();
            for _ in 0..20 {
                writer.write(&[polls as u8; 100]).await.unwrap();
            }
            writer.finish(PutOptions::default()).await.unwrap()
        };
        let written = dropped(polls, write).await;
        agree(&setup).await;
        written
    })
    .await;
    setup.put("acme/b", &[1; 50]).await;
    each(async |polls| {
        let (from, to) = (key("acme/b"), key(&format!("acme/copy {}", polls % 2)));
        let copy = buckets.copy((bucket, &from), (bucket, &to), CopyOptions::default());
        let copied = dropped(polls, copy).await;
        agree(&setup).await;
        copied
    })
    .await;
    each(async |polls| {
        let at = key(&format!("acme/gone {polls}"));
        setup.put(at.as_str(), b"bytes").await;
        let deleted = dropped(polls, buckets.delete(bucket, &at, Condition::default())).await;
        agree(&setup).await;
        deleted
    })
    .await;
    each(async |polls| {
        let swept = dropped(polls, buckets.sweep()).await;
        agree(&setup).await;
        swept
    })
    .await;
    end(setup).await;
}

async fn uploads_of_callers_that_were_dropped_are_those_of_the_store(setup: Setup) {
    with_quota(&setup).await;
    let (buckets, bucket) = (&setup.buckets, &bucket());
    let at = &key("acme/big");
    each(async |polls| {
        let begin = buckets.begin_upload(bucket, at, Attributes::default());
        let begun = dropped(polls, begin).await;
        agree(&setup).await;
        begun
    })
    .await;
    let upload = setup.begin("acme/big").await;
    each(async |polls| {
        let part = async {
            let writer = buckets.part_writer(bucket, at, &upload.id, 1).await;
            let mut writer = writer.unwrap();
            writer.expect_size(1_000).await.unwrap();
            for _ in 0..10 {
                writer.write(&[polls as u8; 100]).await.unwrap();
            }
            writer.finish(ExpectedContent::default()).await.unwrap()
        };
        let part = dropped(polls, part).await;
        agree(&setup).await;
        part
    })
    .await;
    let tags = [PartTag { number: 1, ..PartTag::default() }];
    each(async |polls| {
        let upload = setup.begin("acme/big").await;
        setup.part(&upload, 1, &[polls as u8; 200]).await.unwrap();
        let complete =
            || buckets.complete_upload(bucket, at, &upload.id, &tags, Condition::default());
        let completed = dropped(polls, complete()).await;
        agree(&setup).await;
        complete().await.expect("a repetition is answered");
        agree(&setup).await;
        completed
    })
    .await;
    each(async |polls| {
        let upload = setup.begin("acme/big").await;
        setup.part(&upload, 1, &[3; 200]).await.unwrap();
        let aborted = dropped(polls, buckets.abort_upload(bucket, at, &upload.id)).await;
        agree(&setup).await;
        aborted
    })
    .await;
    end(setup).await;
}

async fn buckets_and_settings_are_those_of_the_store(setup: Setup) {
    let (buckets, bucket) = (&setup.buckets, &bucket());
    each(async |polls| {
        let name = BucketName::new(&format!("made-{polls}")).unwrap();
        let made = dropped(polls, buckets.create(&name)).await;
        agree(&setup).await;
        buckets.ensure(&name).await.unwrap();
        let ensured = dropped(polls, buckets.ensure(&name)).await;
        let deleted = dropped(polls, buckets.delete_bucket(&name)).await;
        agree(&setup).await;
        made.and(ensured).and(deleted)
    })
    .await;
    each(async |polls| {
        let change = |it: &mut BucketSettings| {
            it.max_blob_bytes = Some(1_000 + polls as u64);
            Ok(())
        };
        let configured = dropped(polls, buckets.configure(bucket, &change)).await;
        agree(&setup).await;
        let all = Rule::new("all", &[EventType::ObjectCreate], "events");
        let rule = Rule { prefix: format!("{polls}/"), ..all };
        let put = dropped(polls, buckets.put_rule(bucket, rule)).await;
        agree(&setup).await;
        let rule = LifecycleRule {
            id: "old".into(),
            prefix: format!("{polls}/"),
            delete_after_ms: Some(1_000),
            ..LifecycleRule::default()
        };
        let lifecycle = dropped(polls, buckets.put_lifecycle(bucket, rule)).await;
        agree(&setup).await;
        configured.and(put).and(lifecycle)
    })
    .await;
    each(async |polls| {
        let deleted = dropped(polls, buckets.delete_rule(bucket, "all")).await;
        agree(&setup).await;
        let lifecycle = dropped(polls, buckets.delete_lifecycle(bucket, "old")).await;
        agree(&setup).await;
        deleted.and(lifecycle)
    })
    .await;
    each(async |polls| {
        let rule = CorsRule {
            id: "app".into(),
            origins: vec![format!("https://{polls}.example")],
            methods: vec!["GET".into()],
            ..CorsRule::default()
        };
        let set = dropped(polls, buckets.set_cors(bucket, vec![rule.clone()])).await;
        agree(&setup).await;
        let rule = CorsRule { origins: vec!["*".into()], ..rule };
        let put = dropped(polls, buckets.put_cors(bucket, rule)).await;
        agree(&setup).await;
        let deleted = dropped(polls, buckets.delete_cors(bucket, "app")).await;
        agree(&setup).await;
        set.and(put).and(deleted)
    })
    .await;
    end(setup).await;
}

async fn quotas_and_expenses_are_those_of_the_store(setup: Setup) {
    let buckets = &setup.buckets;
    for name in ["acme/a", "acme/b", "acme/c"] {
        setup.put(name, &[1; 10]).await;
    }
    each(async |polls| {
        let quota = Quota { bytes: Some(1_000 + polls as u64), ..Quota::default() };
        let set = dropped(polls, buckets.set_quota("acme", quota)).await;
        agree(&setup).await;
        let counted = dropped(polls, buckets.count_usage()).await;
        agree(&setup).await;
        setup.put("acme/d", &vec![1; polls]).await;
        agree(&setup).await;
        set.and(counted)
    })
    .await;
    each(async |polls| {
        let id = format!("task {polls}");
        let spent = dropped(polls, buckets.spend("acme", &id, 5)).await;
        buckets.spend("acme", &id, 5).await.unwrap();
        assert_eq!(buckets.spent("acme").await.unwrap(), 5 * polls as u64);
        agree(&setup).await;
        spent
    })
    .await;
    each(async |polls| {
        let removed = dropped(polls, buckets.remove_quota("acme")).await;
        agree(&setup).await;
        setup.put("acme/e", &vec![1; polls]).await;
        agree(&setup).await;
        with_quota(&setup).await;
        agree(&setup).await;
        removed
    })
    .await;
    end(setup).await;
}

async fn access_keys_are_those_of_the_store(setup: Setup) {
    let store = &*setup.store;
    let (first, second) = ("01".repeat(32), "02".repeat(32));
    let path = setup.folder.path().join("keys");
    let load = async |lines: &[&str]| {
        fs::write(&path, lines.join("\n")).unwrap();
        Seal::load(store, SealFile::named(&path)).await.unwrap()
    };
    let seal = load(&[&first]).await;
    each(async |polls| {
        let made = dropped(polls, create_key(store, &seal, KeyScope::default(), None)).await;
        store.commit(Commit::default()).await.unwrap();
        are_found(&setup, &seal).await;
        made
    })
    .await;
    each(async |polls| {
        let made = create_key(store, &seal, KeyScope::default(), None).await.unwrap();
        let deleted = dropped(polls, delete_key(store, &made.id)).await;
        store.commit(Commit::default()).await.unwrap();
        are_found(&setup, &seal).await;
        deleted
    })
    .await;
    each(async |polls| {
        create_key(store, &seal, KeyScope::default(), None).await.unwrap();
        let deleted = dropped(polls, delete_older_keys(store, Timestamp::MAX)).await;
        store.commit(Commit::default()).await.unwrap();
        are_found(&setup, &seal).await;
        deleted
    })
    .await;
    each(async |polls| {
        let made = create_key(store, &seal, KeyScope::default(), None).await.unwrap();
        let used = dropped(polls, note_key_use(store, &made.id)).await;
        let hour = Duration::from_hours(1);
        let rotated = dropped(polls, rotate_key(store, &seal, &made.id, hour)).await;
        store.commit(Commit::default()).await.unwrap();
        are_found(&setup, &seal).await;
        used.and(rotated)
    })
    .await;
    let seal = load(&[&second, &first]).await;
    each(async |polls| {
        let sealed = dropped(polls, seal_keys(store, &seal)).await;
        store.commit(Commit::default()).await.unwrap();
        are_found(&setup, &seal).await;
        sealed
    })
    .await;
    seal_keys(store, &seal).await.unwrap();
    seal.record(store).await.unwrap();
    let seal = load(&[&second]).await;
    are_found(&setup, &seal).await;
    end(setup).await;
}

/// All keys that are listed have their secrets.
async fn are_found(setup: &Setup, seal: &Seal) {
    for it in list_keys(&*setup.store, None, 1_000).await.unwrap() {
        assert!(find_key(&*setup.store, seal, &it.id).await.unwrap().is_some(), "{}", it.id);
    }
}
