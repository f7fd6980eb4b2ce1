//! Operations of buckets, keys and tokens through the routes of a program in memory.

use steadfast_api::{
    Code, Operation, Role,
    buckets::{
        BlobPath, DeleteBlob, DeleteBucket, DeleteBucketRule, DeleteCorsRule, DeleteLifecycleRule,
        ListBlobs, ListBucketEvents, ListBucketRules, ListBuckets, ListCorsRules,
        ListLifecycleRules, PresignBlob, PresignMethod, PutBucket, PutBucketRule, PutCorsRule,
        PutLifecycleRule, ShowBucket, ShowBucketRule, ShowLifecycleRule,
    },
    keys::{CreateKey, ListKeys, RevokeKey},
    tokens::{CreateToken, ListTokens, RevokeToken},
};
use steadfast_bucket::EventType;
use steadfast_core::App;

use crate::{cli::client::Client, failure::Failure, nouns::verbs};

fn photos() -> String {
    "photos".into()
}

fn client() -> Client {
    Client::here(App::new("tests")).expect("a program in memory starts")
}

#[track_caller]
fn assert_fails<O: Operation>(client: &Client, operation: &O, code: Code) {
    match client.request(operation, false) {
        Err(Failure::Message(text)) => {
            assert!(text.ends_with(&format!("({})", code.tag())), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

fn put_blob(client: &Client, key: &str, bytes: &'static [u8]) {
    let blob = BlobPath { bucket: photos(), key: key.into() };
    let file = (bytes, bytes.len() as u64);
    client.upload(&blob.path(), Some("text/plain"), file, false).expect("the blob is written");
}

#[test]
fn nouns_are_consistent_and_every_verb_has_a_description_and_an_example() {
    fn check(command: &clap::Command) {
        for verb in command.get_subcommands() {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && !about.ends_with('.'), "{about}");
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(verb.has_subcommands() || help.contains("  steadfast "), "{help}");
            check(verb);
        }
    }
    for noun in verbs() {
        noun.command().debug_assert();
        check(&noun.command());
    }
}

#[test]
fn a_bucket_is_created_changed_listed_and_deleted() {
    let client = client();
    let create = PutBucket { bucket: photos(), ..PutBucket::default() };
    let saved = client.send(&create, false).unwrap();
    assert!(saved.created && saved.bucket.max_blob_bytes.is_none());
    let limit = PutBucket { bucket: photos(), max_blob_bytes: Some(Some(20)) };
    let saved = client.send(&limit, false).unwrap();
    assert_eq!((saved.created, saved.bucket.max_blob_bytes), (false, Some(20)));
    let saved = client.send(&create, false).unwrap();
    assert_eq!(saved.bucket.max_blob_bytes, Some(20), "left out, it stays");
    let reset = PutBucket { bucket: photos(), max_blob_bytes: Some(None) };
    assert_eq!(client.send(&reset, false).unwrap().bucket.max_blob_bytes, None);
    client.send(&PutBucket { bucket: "videos".into(), ..PutBucket::default() }, false).unwrap();
    let one = ListBuckets { limit: "1".parse().unwrap(), cursor: None };
    let first = client.send(&one, false).unwrap();
    let second = client.send(&ListBuckets { cursor: first.next, ..one }, false).unwrap();
    assert_eq!((first.items[0].name.as_str(), second.items[0].name.as_str()), ("photos", "videos"));
    assert_eq!(second.next, None);
    let wrong = ListBuckets { cursor: Some("x".into()), ..ListBuckets::default() };
    assert_fails(&client, &wrong, Code::BadRequest);
    let zero = PutBucket { bucket: "zero".into(), max_blob_bytes: Some(Some(0)) };
    assert_fails(&client, &zero, Code::InvalidInput);
    assert_fails(&client, &ShowBucket { bucket: "zero".into() }, Code::BucketNotFound);
    put_blob(&client, "a", b"1");
    let delete = DeleteBucket { bucket: photos() };
    assert_fails(&client, &delete, Code::Conflict);
    let blob = BlobPath { bucket: photos(), key: "a".into() };
    client.send(&DeleteBlob { blob }, false).unwrap();
    assert!(client.send(&delete, false).unwrap().deleted);
    assert_fails(&client, &delete, Code::BucketNotFound);
}

#[test]
fn event_and_lifecycle_rules_are_put_shown_listed_and_deleted() {
    let client = client();
    client.send(&PutBucket { bucket: photos(), ..PutBucket::default() }, false).unwrap();
    let rule = PutBucketRule {
        bucket: photos(),
        id: "all".into(),
        queue: "q".into(),
        events: vec![EventType::ObjectCreate],
        prefix: "in/".into(),
        ..PutBucketRule::default()
    };
    assert_eq!(client.send(&rule, false).unwrap().prefix, "in/");
    let other = PutBucketRule { id: "other".into(), ..rule };
    assert_fails(&client, &other, Code::Conflict);
    let show = ShowBucketRule { bucket: photos(), id: "all".into() };
    assert_eq!(client.send(&show, false).unwrap().queue, "q");
    let list = ListBucketRules { bucket: photos() };
    assert_eq!(client.send(&list, false).unwrap().items.len(), 1);
    client.send(&DeleteBucketRule { bucket: photos(), id: "all".into() }, false).unwrap();
    assert_fails(&client, &show, Code::RuleNotFound);
    let (bucket, id) = (photos(), "old".to_owned());
    let rule = PutLifecycleRule { bucket, id, ..PutLifecycleRule::default() };
    assert_fails(&client, &rule, Code::InvalidInput);
    let rule = PutLifecycleRule { delete_after_ms: Some(5_000), ..rule };
    assert_eq!(client.send(&rule, false).unwrap().delete_after_ms, Some(5_000));
    let list = ListLifecycleRules { bucket: photos() };
    assert_eq!(client.send(&list, false).unwrap().items.len(), 1);
    let show = ShowLifecycleRule { bucket: photos(), id: "old".into() };
    assert_eq!(client.send(&show, false).unwrap().abort_uploads_after_ms, None);
    client.send(&DeleteLifecycleRule { bucket: photos(), id: "old".into() }, false).unwrap();
    assert_fails(&client, &show, Code::RuleNotFound);
}

#[test]
fn cors_rules_are_put_replaced_listed_in_order_and_deleted() {
    let client = client();
    client.send(&PutBucket { bucket: photos(), ..PutBucket::default() }, false).unwrap();
    let rule = |id: &str, origin: &str| PutCorsRule {
        bucket: photos(),
        id: id.into(),
        origins: vec![origin.into()],
        methods: vec!["GET".into()],
        ..PutCorsRule::default()
    };
    for (id, origin) in [("b", "https://b.example"), ("a", "*"), ("b", "https://c.example")] {
        client.send(&rule(id, origin), false).unwrap();
    }
    let list = ListCorsRules { bucket: photos() };
    let found = client.send(&list, false).unwrap().items;
    let found: Vec<_> = found.iter().map(|it| (&*it.id, &*it.origins[0])).collect();
    assert_eq!(found, [("b", "https://c.example"), ("a", "*")]);
    assert_fails(&client, &rule("c", "https://c.example/path"), Code::InvalidInput);
    let none = ListCorsRules { bucket: "none".into() };
    assert_fails(&client, &none, Code::BucketNotFound);
    let delete = DeleteCorsRule { bucket: photos(), id: "b".into() };
    client.send(&delete, false).unwrap();
    assert_fails(&client, &delete, Code::RuleNotFound);
    assert_eq!(client.send(&list, false).unwrap().items.len(), 1);
}

#[test]
fn blobs_are_listed_by_level_and_their_events_are_listed_newest_first() {
    let client = client();
    client.send(&PutBucket { bucket: photos(), ..PutBucket::default() }, false).unwrap();
    let rule = PutBucketRule {
        bucket: photos(),
        id: "all".into(),
        queue: "q".into(),
        events: vec![EventType::ObjectCreate, EventType::ObjectDelete],
        ..PutBucketRule::default()
    };
    client.send(&rule, false).unwrap();
    put_blob(&client, "in/a?b", b"12345");
    put_blob(&client, "top", b"1");
    let place = |key: &str| BlobPath { bucket: photos(), key: key.into() };
    let level = |key: &str| {
        let list = ListBlobs { place: place(key), delimiter: "/".into(), ..ListBlobs::default() };
        client.send(&list, false).unwrap()
    };
    let top = level("");
    assert_eq!((&top.prefixes[..], top.items[0].key.as_str()), (&["in/".to_owned()][..], "top"));
    assert_eq!((level("in/").items[0].size, level("none").items.len()), (5, 0));
    let all = ListBlobs { place: place(""), ..ListBlobs::default() };
    assert_eq!(client.send(&all, false).unwrap().items.len(), 2);
    let gone = client.send(&DeleteBlob { blob: place("in/a?b") }, false).unwrap();
    assert_eq!((&*gone.key, gone.sequence), ("in/a?b", 2));
    assert_fails(&client, &DeleteBlob { blob: place("in/a?b") }, Code::BlobNotFound);
    let two = ListBucketEvents { bucket: photos(), limit: "2".parse().unwrap(), cursor: None };
    let newest = client.send(&two, false).unwrap();
    let keys: Vec<&str> = newest.items.iter().map(|it| it.event.key()).collect();
    assert_eq!((keys, &*newest.items[0].queue), (vec!["in/a?b", "top"], "q"));
    let rest = client.send(&ListBucketEvents { cursor: newest.next, ..two }, false).unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
    let method = PresignMethod::Get;
    let presign = |key| PresignBlob { blob: place(key), method, expires_seconds: 60 };
    assert_fails(&client, &presign("none"), Code::BlobNotFound);
    assert_fails(&client, &presign("top"), Code::Conflict);
}

#[test]
fn keys_and_tokens_are_listed_without_secrets_and_revoked_once() {
    let client = client();
    let create = CreateKey { bucket: Some(photos()), read_only: true, ..CreateKey::default() };
    let new = client.send(&create, false).unwrap();
    client.send(&CreateKey::default(), false).unwrap();
    assert!(new.key.read_only && new.secret_access_key.len() == 40);
    let one = ListKeys { limit: "1".parse().unwrap(), cursor: None };
    let first = client.send(&one, false).unwrap();
    let second = client.send(&ListKeys { cursor: first.next, ..one }, false).unwrap();
    assert_ne!(first.items[0].id, second.items[0].id);
    assert_eq!(second.next, None);
    let listed = client.request(&ListKeys::default(), false).unwrap();
    assert!(!listed.contains(&new.secret_access_key), "{listed}");
    let revoke = RevokeKey { id: new.key.id.clone() };
    assert_eq!(client.send(&revoke, false).unwrap().access_key_id, new.key.id);
    assert_fails(&client, &revoke, Code::KeyNotFound);
    let member = CreateToken {
        role: Role::Member,
        name: None,
        organization: Some("acme".into()),
        scopes: Vec::new(),
        expires_days: None,
        idempotency_key: None,
    };
    assert_fails(
        &client,
        &CreateToken { organization: Some("no name".into()), ..member.clone() },
        Code::InvalidName,
    );
    let new = client.send(&member, false).unwrap();
    let listed = client.request(&ListTokens::default(), false).unwrap();
    assert!(listed.contains(&new.entry.id) && !listed.contains(&new.token), "{listed}");
    let revoke = RevokeToken { id: new.entry.id.clone() };
    assert_eq!(client.send(&revoke, false).unwrap().id, new.entry.id);
    assert_fails(&client, &revoke, Code::TokenNotFound);
}

#[test]
fn every_referenced_schema_is_in_the_document() {
    let text = steadfast_web::Ask::get(&client(), "/openapi.json", false).unwrap();
    let described: serde_json::Value = serde_json::from_str(&text).unwrap();
    for part in text.split("\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap_or_default();
        assert!(described["components"]["schemas"][name].is_object(), "{name}");
    }
}
