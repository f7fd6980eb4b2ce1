//! Records, their chain, and what is noticed.

use steadfast_store::{EntryKey, ManualClock, MemoryStore, SealFile, Timestamp};

use super::{record::FIRST, *};

fn event(outcome: &str) -> AuditEvent {
    AuditEvent {
        token: Some("ABC".into()),
        client: "127.0.0.1".into(),
        action: "POST /v1/queues/{queue}/purge".into(),
        target: "/v1/queues/mail/purge".into(),
        outcome: outcome.into(),
        request_id: "r1".into(),
        ..AuditEvent::default()
    }
}

fn store() -> (Arc<ManualClock>, Arc<dyn Store>) {
    let clock = Arc::new(ManualClock::at(Timestamp(5)));
    (clock.clone(), Arc::new(MemoryStore::new(clock)))
}

fn seal() -> Seal {
    Seal::of_key([1; 32])
}

async fn written(store: &Arc<dyn Store>, seal: Seal, outcomes: &[&str]) -> Audit {
    let audit = Audit::new(store.clone(), seal);
    for outcome in outcomes {
        audit.record(event(outcome)).await.unwrap();
    }
    audit
}

/// Writes an entry, or removes it.
async fn set(store: &Arc<dyn Store>, entry: EntryKey, value: Option<Json>) {
    let put = Put { entry, value, reference: None, expires: None };
    store.commit(Commit::of(Write::Put(put))).await.unwrap();
}

#[tokio::test]
async fn records_are_numbered_and_chained_across_processes() {
    let (_, store) = store();
    for outcome in ["200", "403"] {
        // A new process each time.
        written(&store, seal(), &[outcome]).await;
    }
    let (one, other) = (Audit::new(store.clone(), seal()), Audit::new(store.clone(), seal()));
    one.record(event("3")).await.unwrap();
    other.record(event("4")).await.unwrap();
    one.record(event("5")).await.unwrap();
    let all = one.list(None, 9).await.unwrap();
    let numbers: Vec<i64> = all.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [5, 4, 3, 2, 1]);
    assert_eq!(all[4].previous, FIRST);
    assert_eq!(one.broken(9).await.unwrap(), None);
    let older = one.list(Some(3), 9).await.unwrap();
    assert_eq!(older.iter().map(|it| it.number).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(older[0].event.outcome, "403");
}

#[tokio::test]
async fn records_that_wait_for_a_commit_share_the_next_one() {
    let (_, store) = store();
    let audit = Audit::new(store.clone(), seal());
    let record = |it: usize| {
        let audit = audit.clone();
        tokio::spawn(async move { audit.record(event(&it.to_string())).await })
    };
    let before = store.activity().commits;
    let (tasks, gone): (Vec<_>, _) = ((0..250).map(record).collect(), record(250));
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let _ = gone.await;
    let all = audit.list(None, 999).await.unwrap();
    assert_eq!((all.len(), all[0].number), (251, 251));
    assert_eq!(audit.broken(999).await.unwrap(), None);
    let commits = store.activity().commits - before;
    assert!(commits < 20, "{commits} commits");
}

#[tokio::test]
async fn a_changed_or_removed_record_breaks_the_chain() {
    // Also the newest one.
    for (number, is_removed) in [(2, true), (2, false), (3, true), (3, false)] {
        let changed = format!(
            r#"{{"number":{number},"at":5,"previous":"x","previousAt":5,"client":"",
                "action":"","target":"","outcome":"","requestId":""}}"#
        );
        let (_, store) = store();
        let audit = written(&store, seal(), &["1", "2", "3"]).await;
        assert_eq!(audit.broken(9).await.unwrap(), None);
        let value = (!is_removed).then(|| Json::parse(&changed).unwrap());
        set(&store, key(number).unwrap(), value).await;
        assert_eq!(audit.broken(9).await.unwrap(), Some(3), "{number} {is_removed}");
        // The next process continues, and nothing hides it.
        let audit = written(&store, seal(), &["4"]).await;
        assert_eq!(audit.list(None, 1).await.unwrap()[0].number, 4);
        assert!(audit.broken(9).await.unwrap().is_some(), "{number} {is_removed}");
    }
}

#[tokio::test]
async fn a_chain_that_was_written_anew_without_the_key_is_noticed() {
    for forger in [Seal::none(), Seal::of_key([2; 32])] {
        let (_, store) = store();
        let audit = written(&store, seal(), &["1", "2", "3"]).await;
        assert_eq!(audit.broken(9).await.unwrap(), None);
        let mut head = Head::default();
        for (number, outcome) in [(1, "1"), (2, "another"), (3, "3")] {
            let (previous, event) = (head.hash, event(outcome));
            let (previous_at, unsealed) = (head.at, forger.fingerprint().is_err());
            let stored = Stored { number, at: 5, previous, previous_at, unsealed, event };
            let value = Json::of(&stored).unwrap();
            let hash = hash(value.as_str());
            head = Head { number, at: 5, hash, ..Head::default() };
            set(&store, key(number).unwrap(), Some(value)).await;
        }
        head.mac = forger.mac(PURPOSE, &head.text()).ok();
        set(&store, head_key().unwrap(), Some(Json::of(&head).unwrap())).await;
        assert_eq!(audit.broken(9).await.unwrap(), Some(3));
        assert_eq!(audit.stored_head().await.unwrap(), None);
        // The next process authenticates its own records, and not those before.
        let audit = written(&store, seal(), &["4", "5"]).await;
        assert_eq!(audit.broken(9).await.unwrap(), Some(4));
        for number in 1..=3 {
            set(&store, key(number).unwrap(), None).await;
        }
        assert_eq!(audit.broken(9).await.unwrap(), Some(4), "nor without those before");
    }
}

#[tokio::test]
async fn records_without_the_seal_key_are_named_and_do_not_break_the_chain() {
    for restarts in [true, false] {
        let (_, store) = store();
        written(&store, seal(), &["1", "2"]).await;
        for outcome in ["3", "4"] {
            let audit = written(&store, Seal::none(), &[outcome]).await;
            assert_eq!(audit.broken(9).await.unwrap(), None);
        }
        let audit = Audit::new(store.clone(), seal());
        let found = async || (audit.broken(9).await.unwrap(), audit.unsealed(9).await.unwrap());
        assert_eq!(found().await, (None, Some((3, 4))), "the key is back");
        if restarts {
            audit.seal_head().await.unwrap();
        }
        written(&store, seal(), &["5", "6"]).await;
        assert_eq!(found().await, (None, Some((3, 4))));
        assert!(audit.stored_head().await.unwrap().is_some());
        assert_eq!(audit.unsealed(2).await.unwrap(), None);
    }
}

#[tokio::test]
async fn records_without_the_seal_key_that_do_not_continue_the_chain_are_noticed() {
    for change in ["record", "record before", "mark", "code"] {
        let (_, store) = store();
        written(&store, seal(), &["1", "2"]).await;
        written(&store, Seal::none(), &["3", "4"]).await;
        let mut head: Head = {
            let head = store.entry(&head_key().unwrap()).await.unwrap().unwrap();
            read_stored(head.value.unwrap().as_str()).unwrap()
        };
        let mut rewrite = async |from: i64, unsealed: bool| {
            for number in from..=4 {
                let before = store.entry(&key(number - 1).unwrap()).await.unwrap().unwrap();
                let previous = hash(before.value.unwrap().as_str());
                let event = event("another");
                let stored = Stored { number, at: 5, previous, previous_at: 5, unsealed, event };
                let value = Json::of(&stored).unwrap();
                head.hash = hash(value.as_str());
                set(&store, key(number).unwrap(), Some(value)).await;
            }
        };
        match change {
            "record" => set(&store, key(3).unwrap(), None).await,
            "record before" => rewrite(2, true).await,
            "mark" => rewrite(3, false).await,
            _ => {
                let (number, mac) = (2, Some("00".repeat(32)));
                head.sealed = Some(Box::new(Head { number, mac, ..Head::default() }));
            }
        }
        set(&store, head_key().unwrap(), Some(Json::of(&head).unwrap())).await;
        let audit = Audit::new(store.clone(), seal());
        assert!(audit.broken(9).await.unwrap().is_some(), "{change}");
        audit.seal_head().await.unwrap();
        let audit = written(&store, seal(), &["5"]).await;
        assert!(audit.broken(9).await.unwrap().is_some(), "{change}");
    }
}

#[tokio::test]
async fn a_missing_head_and_missing_first_records_are_noticed_until_they_expire() {
    let (clock, store) = store();
    let audit = written(&store, seal(), &["1", "2", "3"]).await;
    let head = store.entry(&head_key().unwrap()).await.unwrap().unwrap().value;
    set(&store, head_key().unwrap(), None).await;
    assert_eq!(audit.broken(9).await.unwrap(), Some(3));
    set(&store, head_key().unwrap(), head).await;
    assert_eq!(audit.broken(9).await.unwrap(), None);
    set(&store, key(1).unwrap(), None).await;
    assert_eq!(audit.broken(9).await.unwrap(), Some(2));
    clock.advance(KEPT);
    assert_eq!(audit.broken(9).await.unwrap(), None, "it has expired");
}

#[tokio::test]
async fn newest_records_that_were_removed_are_missing_for_the_copy_of_a_head() {
    let (clock, store) = store();
    let audit = written(&store, seal(), &["1"]).await;
    let old = store.entry(&head_key().unwrap()).await.unwrap().unwrap().value;
    let heads = audit.heads();
    for outcome in ["2", "3"] {
        audit.record(event(outcome)).await.unwrap();
    }
    let copy = heads.borrow().clone().unwrap();
    assert_eq!(audit.stored_head().await.unwrap().as_ref(), Some(&copy));
    assert!(audit.has(&copy).await.unwrap());
    for number in [2, 3] {
        set(&store, key(number).unwrap(), None).await;
    }
    set(&store, head_key().unwrap(), old).await;
    let audit = Audit::new(store, seal());
    assert_eq!(audit.broken(9).await.unwrap(), None, "the store alone is as it was once");
    assert!(!audit.has(&copy).await.unwrap());
    clock.advance(KEPT);
    assert!(audit.has(&copy).await.unwrap(), "it has expired");
}

#[tokio::test]
async fn a_check_of_all_records_finds_a_change_behind_the_newest_thousand() {
    let (_, store) = store();
    let audit = written(&store, seal(), &["1"; PAGE + 50]).await;
    set(&store, key(3).unwrap(), None).await;
    assert_eq!(audit.broken(PAGE).await.unwrap(), None);
    assert_eq!(audit.broken(usize::MAX).await.unwrap(), Some(4));
}

#[tokio::test]
async fn a_new_seal_key_authenticates_the_head_again() {
    let (folder, (_, store)) = (tempfile::tempdir().unwrap(), store());
    let file = folder.path().join("key");
    let load = async |keys: &[&str]| {
        std::fs::write(&file, keys.join("\n")).unwrap();
        Seal::load(&*store, SealFile::named(&file)).await.unwrap()
    };
    let (old, new) = ("0a".repeat(32), "0b".repeat(32));
    written(&store, load(&[old.as_str()]).await, &["1"]).await;
    let both = load(&[new.as_str(), old.as_str()]).await;
    let audit = Audit::new(store.clone(), both.clone());
    assert_eq!(audit.broken(9).await.unwrap(), None, "both keys are known");
    audit.seal_head().await.unwrap();
    both.record(&*store).await.unwrap();
    // The old key is not needed any more.
    let audit = Audit::new(store.clone(), load(&[new.as_str()]).await);
    assert_eq!(audit.broken(9).await.unwrap(), None);
}
