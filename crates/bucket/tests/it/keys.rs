//! Access keys: their scopes, and their secrets at rest.

use std::{fs, path::Path, time::Duration};

use steadfast_bucket::{
    BucketError, KeyScope, create_key, delete_key, delete_older_keys, find_key, list_keys,
    note_key_use, older_keys, rotate_key, seal_keys,
};
use steadfast_store::{
    Commit, EntryKey, Json, Put, Seal, SealError, SealFile, Store, Timestamp, Write,
};

use crate::setup::{START, Setup};

laws!(
    access_keys_are_found_until_they_are_revoked,
    a_rotated_key_is_found_during_the_overlap_and_uses_are_listed,
    the_stored_secret_is_sealed,
    a_new_seal_key_seals_all_secrets_once,
    a_sealed_secret_is_refused_in_the_row_of_another_key,
    with_another_seal_key_only_secrets_are_refused,
    a_key_of_an_organization_is_for_its_blobs_and_expires,
);
laws!(also on postgres: access_keys_are_found_until_they_are_revoked);

async fn a_key_of_an_organization_is_for_its_blobs_and_expires(setup: Setup) {
    let seal = Seal::of_key([1; 32]);
    let acme = |prefix: Option<&str>, expires_at| KeyScope {
        organization: Some("acme".into()),
        bucket: Some("uploads".into()),
        prefix: prefix.map(str::to_owned),
        expires_at,
        ..KeyScope::default()
    };
    for wrong in [None, Some("acme"), Some("other/"), Some("acme2/")] {
        let refused = create_key(&*setup.store, &seal, acme(wrong, None), None).await;
        assert!(refused.is_err(), "{wrong:?}");
    }
    let everywhere = KeyScope { bucket: None, ..acme(Some("acme/"), None) };
    assert!(create_key(&*setup.store, &seal, everywhere, None).await.is_err());
    let now = setup.store.clock().now().0;
    let key = create_key(&*setup.store, &seal, acme(Some("acme/in/"), Some(now + 60_000)), None);
    let key = key.await.unwrap();
    assert!(!key.scope.is_all() && !key.scope.covers_blob("uploads", "other/in/a"));
    assert_eq!(find_key(&*setup.store, &seal, &key.id).await.unwrap().as_ref(), Some(&key));
    let old = create_key(&*setup.store, &seal, acme(Some("acme/"), Some(now)), None).await.unwrap();
    assert_eq!(find_key(&*setup.store, &seal, &old.id).await.unwrap(), None, "it has expired");
}

async fn access_keys_are_found_until_they_are_revoked(setup: Setup) {
    let seal = Seal::of_key([1; 32]);
    let scope = KeyScope {
        name: Some("uploads of the shop".into()),
        bucket: Some("photos".into()),
        prefix: Some("in/".into()),
        read_only: true,
        ..KeyScope::default()
    };
    let one = create_key(&*setup.store, &seal, scope.clone(), None).await.unwrap();
    let all = create_key(&*setup.store, &seal, KeyScope::default(), None).await.unwrap();
    assert_ne!((&one.id, &one.secret), (&all.id, &all.secret));
    assert_eq!((one.id.len(), one.secret.expose().len()), (20, 40));
    assert!(!format!("{one:?}").contains(one.secret.expose()));
    assert_eq!(find_key(&*setup.store, &seal, &one.id).await.unwrap().as_ref(), Some(&one));
    for unknown in ["", "SF", "\0", &"x".repeat(2_000), &one.id.to_lowercase()] {
        assert_eq!(find_key(&*setup.store, &seal, unknown).await.unwrap(), None, "{unknown}");
    }
    assert!(all.scope.is_all() && !scope.is_all());
    let named = |it: &str| KeyScope { name: Some(it.into()), ..KeyScope::default() };
    assert!(named("backup").is_all(), "a name is no limit");
    for name in ["", " a", "a\nb", "a\u{202e}b", &"x".repeat(101)] {
        assert!(create_key(&*setup.store, &seal, named(name), None).await.is_err(), "{name:?}");
    }
    assert!(scope.covers_blob("photos", "in/a") && scope.covers_list("photos", "in/a/"));
    for (bucket, at) in [("photos", "out"), ("photos", "in"), ("other", "in/a"), ("photos", "")] {
        assert!(!scope.covers_blob(bucket, at) && !scope.covers_list(bucket, at), "{bucket} {at}");
        assert!(all.scope.covers_blob(bucket, at));
    }
    let wrong = KeyScope { bucket: Some("No".into()), ..KeyScope::default() };
    assert!(create_key(&*setup.store, &seal, wrong, None).await.is_err());
    let mut ids = [one.id.clone(), all.id.clone()];
    ids.sort();
    let list = async |after: Option<&str>, limit| {
        let found = list_keys(&*setup.store, after, limit).await.unwrap();
        found.into_iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 10).await, ids);
    assert_eq!(list(Some(&ids[0]), 1).await, ids[1..]);
    assert!(delete_key(&*setup.store, &one.id).await.unwrap());
    assert!(!delete_key(&*setup.store, &one.id).await.unwrap());
    assert_eq!(find_key(&*setup.store, &seal, &one.id).await.unwrap(), None);
    assert_eq!(list(None, 10).await, [all.id]);
}

async fn a_rotated_key_is_found_during_the_overlap_and_uses_are_listed(setup: Setup) {
    let (store, seal) = (&*setup.store, Seal::of_key([1; 32]));
    let scope = KeyScope { bucket: Some("photos".into()), read_only: true, ..KeyScope::default() };
    let old = create_key(store, &seal, scope.clone(), None).await.unwrap();
    let hour = Duration::from_hours(1);
    let new = rotate_key(store, &seal, &old.id, hour).await.unwrap().unwrap();
    assert_ne!((&new.id, &new.secret), (&old.id, &old.secret));
    assert_eq!(find_key(store, &seal, &new.id).await.unwrap().as_ref(), Some(&new));
    assert_eq!(new.scope, scope);
    let ending = find_key(store, &seal, &old.id).await.unwrap().unwrap();
    let ends = ending.scope.expires_at.unwrap() - store.clock().now().0;
    assert!((1..=3_600_000).contains(&ends), "{ends}");
    assert_eq!((ending.secret, ending.created_at), (old.secret, old.created_at));
    // Another key in its place would end with the overlap.
    let again = rotate_key(store, &seal, &old.id, hour).await.unwrap_err();
    assert_eq!(again.code(), "conflict");
    assert!(again.to_string().contains(&format!("was replaced by `{}`", new.id)), "{again}");
    // Without an overlap it ends at once, and cannot be rotated again.
    let next = rotate_key(store, &seal, &new.id, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(find_key(store, &seal, &new.id).await.unwrap(), None);
    for gone in [&*new.id, "SFNOTHING", "", &"x".repeat(2_000)] {
        assert!(rotate_key(store, &seal, gone, hour).await.unwrap().is_none(), "{gone}");
    }
    // The rows of ended keys go later.
    for (id, goes) in [(&old.id, true), (&new.id, true), (&next.id, false)] {
        let row = store.entry(&entry(id)).await.unwrap().unwrap();
        assert_eq!(row.expires_at.is_some(), goes);
    }
    note_key_use(store, &new.id).await.unwrap();
    let listed = list_keys(store, None, 10).await.unwrap();
    assert_eq!(listed.len(), 3);
    assert!(listed.iter().all(|it| it.last_used_at.is_some() == (it.id == new.id)), "{listed:?}");
    // The time of creation counts, also of a key whose row was changed since.
    assert_eq!(delete_older_keys(store, old.created_at).await.unwrap(), 0);
    // A damaged row does not protect the other ones.
    write(store, "SF0DAMAGED", &serde_json::json!({})).await;
    assert_eq!(older_keys(store, Timestamp::MAX).await.unwrap().len(), 3);
    assert_eq!(delete_older_keys(store, Timestamp::MAX).await.unwrap(), 3);
    assert!(older_keys(store, Timestamp::MAX).await.unwrap().is_empty());
}

fn entry(id: &str) -> EntryKey {
    EntryKey::new("access-key", id.as_bytes()).unwrap()
}

async fn value_of(store: &dyn Store, id: &str) -> serde_json::Value {
    let value = store.entry(&entry(id)).await.unwrap().unwrap().value.unwrap();
    serde_json::from_str(value.as_str()).unwrap()
}

async fn write(store: &dyn Store, id: &str, value: &serde_json::Value) {
    let value = Some(Json::of(value).unwrap());
    let put = Put { entry: entry(id), value, reference: None, expires: None };
    store.commit(Commit::of(Write::Put(put))).await.unwrap();
}

/// Whether a file below this folder contains a text.
fn contains(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|it| {
        let path = it.unwrap().path();
        if path.is_dir() {
            return contains(&path, text);
        }
        let bytes = fs::read(path).unwrap();
        bytes.windows(text.len()).any(|it| it == text.as_bytes())
    })
}

async fn the_stored_secret_is_sealed(setup: Setup) {
    let seal = Seal::of_key([1; 32]);
    let key = create_key(&*setup.store, &seal, KeyScope::default(), None).await.unwrap();
    let rows = setup.store.dump().await.unwrap().rows.concat();
    assert!(rows.contains(&key.id) && rows.contains("sealed:"), "{rows}");
    assert!(!rows.contains(key.secret.expose()), "{rows}");
    // The files of SQLite, with its log.
    assert!(!contains(setup.folder.path(), key.secret.expose()));
}

async fn a_new_seal_key_seals_all_secrets_once(setup: Setup) {
    let store = &*setup.store;
    let (first, second) = ("01".repeat(32), "02".repeat(32));
    let path = setup.folder.path().join("keys");
    let load = async |lines: &[&str]| {
        fs::write(&path, lines.join("\n")).unwrap();
        Seal::load(store, SealFile::named(&path)).await.unwrap()
    };
    let before = load(&[&first]).await;
    let scope = KeyScope { bucket: Some("photos".into()), read_only: true, ..KeyScope::default() };
    let one = create_key(store, &before, scope, None).await.unwrap();
    let other = create_key(store, &before, KeyScope::default(), None).await.unwrap();
    setup.pass(Duration::from_secs(5));
    let seal = load(&[&second, &first]).await;
    let new = create_key(store, &seal, KeyScope::default(), None).await.unwrap();
    assert_eq!(find_key(store, &seal, &one.id).await.unwrap().as_ref(), Some(&one));
    assert_eq!(seal_keys(store, &seal).await.unwrap(), 2);
    assert_eq!(seal_keys(store, &seal).await.unwrap(), 0);
    seal.record(store).await.unwrap();
    // The first key is not needed any more. A key of S3 was not created again.
    let seal = load(&[&second]).await;
    assert_eq!(one.created_at, START);
    for key in [one, other, new] {
        assert_eq!(find_key(store, &seal, &key.id).await.unwrap(), Some(key));
    }
}

async fn a_sealed_secret_is_refused_in_the_row_of_another_key(setup: Setup) {
    let (store, seal) = (&*setup.store, Seal::of_key([1; 32]));
    let one = create_key(store, &seal, KeyScope::default(), None).await.unwrap();
    let other = create_key(store, &seal, KeyScope::default(), None).await.unwrap();
    let (first, second) = (value_of(store, &one.id).await, value_of(store, &other.id).await);
    write(store, &one.id, &second).await;
    write(store, &other.id, &first).await;
    for id in [&one.id, &other.id] {
        let error = find_key(store, &seal, id).await.unwrap_err();
        assert!(matches!(error, BucketError::Seal(SealError::Changed { .. })), "{error}");
        assert_eq!(error.code(), "corrupt");
    }
}

async fn with_another_seal_key_only_secrets_are_refused(setup: Setup) {
    let (store, seal, wrong) = (&*setup.store, Seal::of_key([1; 32]), Seal::of_key([2; 32]));
    let key = create_key(store, &seal, KeyScope::default(), None).await.unwrap();
    let error = find_key(store, &wrong, &key.id).await.unwrap_err();
    assert_eq!(error.code(), "seal_key_missing");
    assert!(error.to_string().contains(&seal.fingerprint().unwrap()), "{error}");
    assert_eq!(seal_keys(store, &wrong).await.unwrap(), 0, "it stays as it is");
    assert_eq!(
        create_key(store, &Seal::none(), KeyScope::default(), None).await.unwrap_err().code(),
        "seal_key_missing"
    );
    assert_eq!(list_keys(store, None, 10).await.unwrap().len(), 1);
    setup.put("k", b"bytes").await;
    assert_eq!(setup.get("k").await, b"bytes");
    assert!(delete_key(store, &key.id).await.unwrap());
}
