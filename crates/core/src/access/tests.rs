use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use steadfast_store::{
    Activity, Answer, Commit, CommitCallback, EntryKey, Health, ManualClock, MemoryStore, Notices,
    Owner, Query, Setting, Store, StoreClock, StoreError, Timestamp,
};

use super::*;
use crate::RequestKey;

struct World {
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    tokens: Tokens,
    sessions: Sessions,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp(1_000_000)));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        let tokens = Tokens::new(store.clone());
        let sessions = Sessions::new(store.clone(), tokens.clone());
        Self { clock, store, tokens, sessions }
    }

    async fn denied(&self, secret: &str) -> Option<Denied> {
        match self.tokens.authenticate(secret).await {
            Ok(_) => None,
            Err(TokenError::Denied(denied)) => Some(denied),
            Err(error) => panic!("{error}"),
        }
    }

    async fn session_denied(&self, secret: &str) -> Option<Denied> {
        match self.sessions.find(secret).await {
            Ok(_) => None,
            Err(TokenError::Denied(denied)) => Some(denied),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn tokens_in_memory_have_all_changes_or_are_not_used() {
    let World { tokens, .. } = World::new();
    assert!(tokens.snapshot_in_memory().is_none(), "nothing was read yet");
    assert!(!tokens.snapshot().await.unwrap().is_closed());
    assert!(!tokens.snapshot_in_memory().unwrap().is_closed());
    let made = tokens.create(TokenSpec::member("acme"), None).await.unwrap();
    assert!(tokens.snapshot_in_memory().is_none(), "a token was created");
    assert!(tokens.snapshot().await.unwrap().is_closed());
    let found = tokens.snapshot_in_memory().unwrap().authenticate(&made.secret).unwrap();
    assert_eq!(found, tokens.authenticate(&made.secret).await.unwrap());
    tokens.revoke(&made.token.id).await.unwrap();
    assert!(tokens.snapshot_in_memory().is_none(), "it was revoked");
    assert!(tokens.authenticate(&made.secret).await.is_err());
    let denied = tokens.snapshot_in_memory().unwrap().authenticate(&made.secret).unwrap_err();
    assert!(matches!(denied, TokenError::Denied(Denied::Revoked)), "{denied}");
}

#[tokio::test]
async fn access_is_open_until_the_first_token_and_closed_for_ever_after() {
    let world = World::new();
    assert!(!world.tokens.is_closed().await.unwrap());
    let made = world.tokens.create(TokenSpec::member("acme"), None).await.unwrap();
    assert!(world.tokens.is_closed().await.unwrap());
    let principal = world.tokens.authenticate(&made.secret).await.unwrap();
    assert_eq!((principal.organization.as_deref(), principal.role), (Some("acme"), Role::Member));
    assert!(principal.is_of("acme") && !principal.is_of("other"));
    assert_eq!(world.denied("sf_x_y").await, Some(Denied::Unknown));
    assert!(world.tokens.revoke(&made.token.id).await.unwrap());
    assert!(!world.tokens.revoke(&made.token.id).await.unwrap());
    assert_eq!(world.denied(&made.secret).await, Some(Denied::Revoked));
    // The next process knows it, too, and the store does not have the secret.
    let next = Tokens::new(world.store.clone());
    assert!(next.is_closed().await.unwrap());
    assert!(next.authenticate(&made.secret).await.is_err());
    assert!(!world.store.dump().await.unwrap().rows.join("\n").contains(&made.secret));
}

#[tokio::test]
async fn a_token_expires_and_a_rotated_one_has_a_new_secret() {
    let world = World::new();
    let spec =
        TokenSpec { expires_in: Some(Duration::from_secs(60)), ..TokenSpec::role(Role::Admin) };
    let made = world.tokens.create(spec, None).await.unwrap();
    let rotated = world.tokens.rotate(&made.token.id).await.unwrap().unwrap();
    assert_eq!(rotated.token.id, made.token.id);
    assert_eq!(world.denied(&made.secret).await, Some(Denied::Unknown));
    assert_eq!(world.denied(&rotated.secret).await, None);
    world.clock.advance(Duration::from_secs(59));
    assert_eq!(world.denied(&rotated.secret).await, None);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.denied(&rotated.secret).await, Some(Denied::Expired));
    assert!(world.tokens.rotate(&made.token.id).await.unwrap().is_none(), "it has ended");
    assert!(world.tokens.rotate("NOSUCHTOKN").await.unwrap().is_none());
}

#[tokio::test]
async fn a_replaced_token_is_valid_during_the_overlap_and_not_after_it() {
    let world = World::new();
    let scopes = vec!["queue:mail:send".parse().unwrap()];
    let spec = TokenSpec { scopes: scopes.clone(), ..TokenSpec::role(Role::Member) };
    let old = world.tokens.create(spec, None).await.unwrap();
    let session = world.sessions.begin(&old.secret, None).await.unwrap().secret;
    let hour = Duration::from_hours(1);
    let by = Some("ADMINTOKEN".to_owned());
    let new = world.tokens.replace(&old.token.id, hour, by.clone()).await.unwrap().unwrap();
    assert_ne!(new.token.id, old.token.id);
    assert_eq!((new.token.role, new.token.scopes.clone()), (Role::Member, scopes));
    assert_eq!((new.token.created_by.clone(), new.token.expires_at), (by, None));
    // Another new secret of it would end with the overlap.
    let again = world.tokens.replace(&old.token.id, 2 * hour, None).await.err();
    for refused in [again, world.tokens.rotate(&old.token.id).await.err()] {
        let Some(TokenError::Replaced { by, .. }) = &refused else { panic!("{refused:?}") };
        assert_eq!(*by, new.token.id);
    }
    assert!(world.tokens.expiring(2 * hour).await.unwrap().is_empty(), "it has a successor");
    world.clock.advance(hour - Duration::from_secs(1));
    assert_eq!([world.denied(&old.secret).await, world.denied(&new.secret).await], [None, None]);
    assert_eq!(world.session_denied(&session).await, None);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.denied(&old.secret).await, Some(Denied::Expired));
    assert_eq!(world.session_denied(&session).await, Some(Denied::Expired));
    assert_eq!(world.denied(&new.secret).await, None);
    assert!(world.tokens.replace(&old.token.id, hour, None).await.unwrap().is_none());
}

#[tokio::test]
async fn valid_tokens_that_expire_soon_are_listed() {
    let world = World::new();
    let day = Duration::from_hours(24);
    let create = async |days: u32| {
        let expires_in = Some(day * days);
        let spec = TokenSpec { expires_in, ..TokenSpec::role(Role::Viewer) };
        world.tokens.create(spec, None).await.unwrap().token.id
    };
    let (later, soon, revoked) = (create(14).await, create(1).await, create(2).await);
    create(15).await;
    world.tokens.create(TokenSpec::role(Role::Admin), None).await.unwrap();
    world.tokens.revoke(&revoked).await.unwrap();
    let ids = async || {
        let expiring = world.tokens.expiring(14 * day).await.unwrap();
        expiring.into_iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(ids().await, [soon, later.clone()]);
    world.clock.advance(Duration::from_hours(23));
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(ids().await[0], later, "the other one has expired");
}

#[tokio::test]
async fn tokens_that_ended_are_kept_for_thirty_days_and_take_no_room_after_that() {
    let world = World::new();
    let day = Duration::from_hours(24);
    let create = async |spec: TokenSpec| world.tokens.create(spec, None).await.unwrap();
    let short = TokenSpec { expires_in: Some(day), ..TokenSpec::member("acme") };
    let (expired, old) = (create(short).await, create(TokenSpec::member("acme")).await);
    let new = world.tokens.replace(&old.token.id, day, None).await.unwrap().unwrap();
    assert_eq!(world.denied(&expired.secret).await, None);
    let count = async || world.tokens.count_of("acme").await.unwrap();
    let listed = async || world.tokens.list(None, 9).await.unwrap().len();
    world.clock.advance(30 * day);
    // To revoke a token that has expired does not keep it longer.
    assert!(world.tokens.revoke(&expired.token.id).await.unwrap());
    assert_eq!((count().await, listed().await), (3, 3));
    world.clock.advance(day);
    assert_eq!((count().await, listed().await), (1, 1));
    let now = world.store.clock().now();
    let goes = async |space: &str, key: &str| {
        let entry = EntryKey::new(space, key.as_bytes()).unwrap();
        let row = world.store.entry(&entry).await.unwrap()?;
        Some(row.expires_at.is_some_and(|it| it <= now.after(400 * day)))
    };
    for (token, is_over) in [(&expired, true), (&old, true), (&new, false)] {
        assert_eq!(goes("token", &scope::hash(&token.secret)).await, Some(is_over));
    }
    // A task of its own has written the use.
    while goes("token-used", &expired.token.id).await != Some(true) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn tokens_of_a_creator_need_not_expire_in_a_store_that_is_only_read() {
    let world = World::new();
    let (expires_in, created_by) = (Some(Duration::from_secs(60)), Some("this machine".into()));
    let spec = TokenSpec { expires_in, created_by, ..TokenSpec::role(Role::Admin) };
    let made = world.tokens.create(spec.clone(), None).await.unwrap();
    let other = TokenSpec { created_by: None, ..spec };
    let other = world.tokens.create(other, None).await.unwrap();
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.denied(&made.secret).await, Some(Denied::Expired));
    world.tokens.ignore_expiry_of("this machine");
    assert_eq!(world.denied(&made.secret).await, None);
    assert_eq!(world.denied(&other.secret).await, Some(Denied::Expired));
    let link = world.sessions.link(&made.token.id).await.unwrap();
    let session = world.sessions.begin_with_link(&link, None).await.unwrap().secret;
    assert_eq!(world.session_denied(&session).await, None);
}

#[tokio::test]
async fn callers_that_wait_for_the_tokens_share_one_read() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Admin), None).await.unwrap();
    let store = Arc::new(LateReads::of(world.store.clone()));
    let tokens = Tokens::new(store.clone());
    let reads = || store.reads.load(Ordering::Relaxed);
    assert!(tokens.is_closed().await.unwrap());
    let of_one = reads();
    tokens.create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    let ask = || tokens.principal(&made.token.id);
    let (one, two, three) = tokio::join!(ask(), ask(), ask());
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!(reads(), 2 * of_one);
    assert!(tokens.revoke(&made.token.id).await.unwrap());
    assert!(ask().await.is_err(), "the change is read");
}

#[tokio::test]
async fn secrets_are_found_by_their_hashes() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Admin), None).await.unwrap();
    let session = world.sessions.begin(&made.secret, None).await.unwrap().secret;
    let link = world.sessions.link(&made.token.id).await.unwrap();
    let rows = world.store.dump().await.unwrap().rows.join("\n");
    for (space, secret) in [("token", made.secret), ("session", session), ("login-link", link)] {
        // An index of hashes is searched, so no comparison can be timed: a caller cannot choose
        // the bytes of a hash one by one.
        let entry = EntryKey::new(space, scope::hash(&secret).as_bytes()).unwrap();
        let found = world.store.entry(&entry).await.unwrap();
        assert!(found.is_some_and(|it| it.value.is_some()), "{space}");
        assert!(!rows.contains(&secret), "{space}");
    }
}

#[tokio::test]
async fn the_last_use_of_a_token_is_listed() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    assert_eq!(world.tokens.list(None, 9).await.unwrap()[0].last_used_at, None);
    assert_eq!(world.denied(&made.secret).await, None);
    // The use is written by a task of its own.
    loop {
        let listed = world.tokens.list(None, 9).await.unwrap();
        if listed[0].last_used_at.is_some() {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_token_keeps_its_name() {
    let world = World::new();
    let spec = TokenSpec { name: Some("ann of sales".into()), ..TokenSpec::role(Role::Viewer) };
    let made = world.tokens.create(spec, None).await.unwrap();
    let rotated = world.tokens.rotate(&made.token.id).await.unwrap().unwrap();
    let principal = world.tokens.authenticate(&rotated.secret).await.unwrap();
    assert_eq!(principal.name.as_deref(), Some("ann of sales"));
    assert_eq!(world.tokens.list(None, 9).await.unwrap()[0].name, principal.name);
}

#[tokio::test]
async fn a_token_that_cannot_be_is_refused() {
    let world = World::new();
    for name in ["", " ann", "ann\n", "\u{202e}nna", &"x".repeat(101)] {
        let spec = TokenSpec { name: Some(name.into()), ..TokenSpec::role(Role::Viewer) };
        let error = world.tokens.create(spec, None).await.err().unwrap();
        assert!(matches!(error, TokenError::Name { .. }), "{name:?}");
    }
    for bad in ["", ".", "a/b", "a b", &"x".repeat(101)] {
        let error = world.tokens.create(TokenSpec::member(bad), None).await.err().unwrap();
        assert!(matches!(error, TokenError::Organization { .. }), "{bad}");
    }
    let spec = TokenSpec { role: Role::Operator, ..TokenSpec::member("acme") };
    let error = world.tokens.create(spec, None).await.err().unwrap().to_string();
    assert!(error.contains("role operator is for the whole platform"), "{error}");
    let scopes = vec!["queue:mail:send".parse().unwrap(); 101];
    let spec = TokenSpec { scopes, ..TokenSpec::role(Role::Member) };
    assert!(matches!(
        world.tokens.create(spec, None).await,
        Err(TokenError::Scopes { count: 101 })
    ));
    assert!(!world.tokens.is_closed().await.unwrap(), "nothing was created");
}

#[tokio::test]
async fn a_token_is_created_once_under_a_key() {
    let world = World::new();
    let key = RequestKey::new("createToken", None, "k-1", b"acme").unwrap();
    let made = world.tokens.create(TokenSpec::member("acme"), Some(&key)).await.unwrap();
    let again = world.tokens.create(TokenSpec::member("acme"), Some(&key)).await.err().unwrap();
    assert!(matches!(again, TokenError::Repeated { id } if id == made.token.id));
    assert_eq!(world.tokens.list(None, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_session_ends_when_it_is_idle_too_old_left_or_without_its_token() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Operator), None).await.unwrap();
    let begin = async || world.sessions.begin(&made.secret, None).await.unwrap().secret;
    assert!(world.sessions.begin("sf_x_y", None).await.is_err());
    let (idle, old, left, kept) = (begin().await, begin().await, begin().await, begin().await);
    world.sessions.end(&left).await.unwrap();
    assert_eq!(world.session_denied(&left).await, Some(Denied::Unknown));
    for _ in 0..16 {
        world.clock.advance(Duration::from_hours(10));
        assert_eq!(world.session_denied(&old).await, None);
    }
    assert!(world.session_denied(&idle).await.is_some(), "idle for 160 hours");
    world.clock.advance(Duration::from_hours(9));
    assert!(world.session_denied(&old).await.is_some(), "169 hours old");
    drop(kept);
    let last = begin().await;
    // The next process knows it, too.
    let next = Sessions::new(world.store.clone(), Tokens::new(world.store.clone()));
    assert_eq!(next.find(&last).await.unwrap().role, Role::Operator);
    world.tokens.revoke(&made.token.id).await.unwrap();
    assert_eq!(world.session_denied(&last).await, Some(Denied::Revoked));
    assert!(!world.store.dump().await.unwrap().rows.join("\n").contains(&last));
}

#[tokio::test]
async fn sessions_are_listed_by_token_and_ended_by_id() {
    let world = World::new();
    let mut tokens = Vec::new();
    for role in [Role::Viewer, Role::Admin] {
        tokens.push(world.tokens.create(TokenSpec::role(role), None).await.unwrap());
    }
    let [viewer, admin] = &tokens[..] else { panic!("two tokens") };
    let (one, other) = (
        world.sessions.begin(&viewer.secret, None).await.unwrap().secret,
        world.sessions.begin(&admin.secret, None).await.unwrap().secret,
    );
    let ids = async |token: Option<&str>| {
        let (listed, next) = world.sessions.list(token, None, 9).await.unwrap();
        assert_eq!(next, None);
        listed.into_iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None).await.len(), 2);
    let own = ids(Some(&viewer.token.id)).await;
    assert_eq!(own, [scope::hash(&one)]);
    let (first, next) = world.sessions.list(None, None, 1).await.unwrap();
    assert_eq!(next.as_deref(), Some(&*first[0].id));
    let (second, _) = world.sessions.list(None, next.as_deref(), 1).await.unwrap();
    assert!(first[0].id < second[0].id);
    assert_eq!(first[0].ends_at.0 - first[0].begun_at.0, 12 * 60 * 60 * 1_000);
    // Only its own, not that of the other token.
    let foreign = scope::hash(&other);
    assert!(!world.sessions.end_by_id(&foreign, Some(&viewer.token.id)).await.unwrap());
    assert!(!world.sessions.end_by_id("nothing", None).await.unwrap());
    assert_eq!(world.session_denied(&other).await, None);
    assert!(world.sessions.end_by_id(&own[0], Some(&viewer.token.id)).await.unwrap());
    assert!(!world.sessions.end_by_id(&own[0], None).await.unwrap());
    assert_eq!(world.session_denied(&one).await, Some(Denied::Unknown));
    world.tokens.revoke(&admin.token.id).await.unwrap();
    assert!(ids(None).await.is_empty(), "its token has ended");
}

#[tokio::test]
async fn a_cursor_is_no_id_of_a_session_of_another_token() {
    let world = World::new();
    let made = async || world.tokens.create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    let (own, other) = (made().await, made().await);
    for _ in 0..5 {
        world.sessions.begin(&own.secret, None).await.unwrap();
    }
    // More than one list reads.
    let mut foreign = Vec::new();
    for _ in 0..1_100 {
        foreign.push(scope::hash(&world.sessions.begin(&other.secret, None).await.unwrap().secret));
    }
    for limit in [1, 9] {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let list = world.sessions.list(Some(&own.token.id), cursor.as_deref(), limit).await;
            let (listed, next) = list.unwrap();
            seen.extend(listed.into_iter().map(|it| it.id));
            assert!(next.as_ref().is_none_or(|it| !foreign.contains(it)), "{next:?}");
            assert!(next.is_none() || cursor < next, "{cursor:?} {next:?}");
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert!(seen.len() == 5 && seen.is_sorted(), "{seen:?}");
    }
}

#[tokio::test]
async fn the_client_and_the_last_use_of_a_session_are_listed_until_its_end() {
    let world = World::new();
    let acme = TokenSpec { name: Some("ann".into()), ..TokenSpec::member("acme") };
    let made = world.tokens.create(acme, None).await.unwrap();
    let begun = world.sessions.begin(&made.secret, Some("203.0.113.9")).await.unwrap().secret;
    let listed = async || world.sessions.list(None, None, 9).await.unwrap().0.pop().unwrap();
    let it = listed().await;
    assert_eq!((it.name.as_deref(), it.organization.as_deref()), (Some("ann"), Some("acme")));
    assert_eq!((it.role, it.client.as_deref()), (Role::Member, Some("203.0.113.9")));
    assert_eq!(it.last_used_at, it.begun_at);
    for hours in 1..17 {
        world.clock.advance(Duration::from_hours(10));
        assert_eq!(world.session_denied(&begun).await, None);
        let used = listed().await;
        assert_eq!(used.last_used_at, it.begun_at.after(Duration::from_hours(10 * hours)));
        assert!(used.ends_at <= it.begun_at.after(SESSION_MAX), "{used:?}");
    }
}

#[tokio::test]
async fn a_use_does_not_revive_a_session_that_another_process_has_ended() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    let session = world.sessions.begin(&made.secret, None).await.unwrap().secret;
    assert_eq!(world.session_denied(&session).await, None, "it is in memory now");
    let other = Sessions::new(world.store.clone(), Tokens::new(world.store.clone()));
    other.end(&session).await.unwrap();
    // The next use would be written.
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(world.session_denied(&session).await, Some(Denied::Unknown));
    assert_eq!(world.session_denied(&session).await, Some(Denied::Unknown), "nor from memory");
    assert!(other.find(&session).await.is_err(), "it was not written again");
}

/// A store whose reads are answered a moment after the rows were read, and counted.
struct LateReads {
    store: Arc<dyn Store>,
    reads: AtomicUsize,
}

impl LateReads {
    fn of(store: Arc<dyn Store>) -> Self {
        Self { store, reads: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Store for LateReads {
    fn submit(&self, commit: Commit, callback: CommitCallback) {
        self.store.submit(commit, callback);
    }

    async fn read(&self, query: Query) -> Result<Answer, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let answer = self.store.read(query).await;
        tokio::task::yield_now().await;
        answer
    }

    async fn settings(&self) -> Result<Vec<Setting>, StoreError> {
        self.store.settings().await
    }

    fn notices(&self) -> &Notices {
        self.store.notices()
    }

    fn clock(&self) -> &Arc<StoreClock> {
        self.store.clock()
    }

    fn owner(&self) -> Owner {
        self.store.owner()
    }

    fn health(&self) -> Health {
        self.store.health()
    }

    fn activity(&self) -> Activity {
        self.store.activity()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[tokio::test]
async fn a_use_during_the_logout_does_not_keep_the_session_in_memory() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(LateReads::of(world.store.clone()));
    let sessions = Sessions::new(store, world.tokens.clone());
    let session = sessions.begin(&made.secret, None).await.unwrap().secret;
    // The use has read the row when the logout commits.
    let (used, ended) = tokio::join!(sessions.find(&session), sessions.end(&session));
    assert!(used.is_ok() && ended.is_ok());
    let late = sessions.find(&session).await;
    assert!(matches!(late, Err(TokenError::Denied(Denied::Unknown))));
}

#[tokio::test]
async fn a_login_link_works_once_and_for_ten_minutes() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Admin), None).await.unwrap();
    let code = world.sessions.link(&made.token.id).await.unwrap();
    let begun = world.sessions.begin_with_link(&code, None).await.unwrap();
    assert_eq!(begun.principal.role, Role::Admin);
    assert!(world.sessions.begin_with_link(&code, None).await.is_err(), "it was used");
    let late = world.sessions.link(&made.token.id).await.unwrap();
    world.clock.advance(Duration::from_mins(10));
    assert!(world.sessions.begin_with_link(&late, None).await.is_err(), "it has expired");
    let code = world.sessions.link(&made.token.id).await.unwrap();
    world.tokens.revoke(&made.token.id).await.unwrap();
    assert!(world.sessions.begin_with_link(&code, None).await.is_err(), "its token was revoked");
}

#[tokio::test]
async fn a_new_secret_ends_sessions_links_and_connections_of_the_old_one() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    let principal = world.tokens.authenticate(&made.secret).await.unwrap();
    let session = world.sessions.begin(&made.secret, None).await.unwrap();
    let link = world.sessions.link(&made.token.id).await.unwrap();
    assert_eq!(world.session_denied(&session.secret).await, None);
    // Within the same millisecond.
    let new = world.tokens.rotate(&made.token.id).await.unwrap().unwrap();
    assert_eq!(world.session_denied(&session.secret).await, Some(Denied::Revoked));
    let late = world.sessions.begin_with_link(&link, None).await;
    assert!(matches!(late, Err(TokenError::Denied(Denied::Revoked))));
    world.tokens.ended(&principal).await;
    let next = world.sessions.begin(&new.secret, None).await.unwrap();
    assert_eq!(world.session_denied(&next.secret).await, None);
}

#[tokio::test]
async fn a_principal_ends_when_its_token_is_revoked_or_expires() {
    let world = World::new();
    let spec =
        TokenSpec { expires_in: Some(Duration::from_secs(60)), ..TokenSpec::role(Role::Viewer) };
    for is_revoked in [true, false] {
        let made = world.tokens.create(spec.clone(), None).await.unwrap();
        let principal = world.tokens.authenticate(&made.secret).await.unwrap();
        let (tokens, id) = (world.tokens.clone(), made.token.id.clone());
        let waiting = tokio::spawn(async move { tokens.ended(&principal).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        match is_revoked {
            true => assert!(world.tokens.revoke(&id).await.unwrap()),
            false => world.clock.advance(Duration::from_secs(60)),
        }
        waiting.await.unwrap();
    }
}

#[tokio::test]
async fn connections_of_a_session_end_with_it() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    for is_left in [true, false] {
        let secret = world.sessions.begin(&made.secret, None).await.unwrap().secret;
        let other = world.sessions.begin(&made.secret, None).await.unwrap().secret;
        let (sessions, id) = (world.sessions.clone(), SessionId::of(&secret).unwrap());
        let waiting = tokio::spawn(async move { sessions.ended(&id).await });
        tokio::task::yield_now().await;
        // The end of another session, and a use in time, change nothing.
        world.sessions.end(&other).await.unwrap();
        world.clock.advance(SESSION_IDLE / 2);
        assert_eq!(world.session_denied(&secret).await, None);
        world.clock.advance(SESSION_IDLE / 2);
        for _ in 0..9 {
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        match is_left {
            true => world.sessions.end(&secret).await.unwrap(),
            false => world.clock.advance(SESSION_IDLE / 2),
        }
        waiting.await.unwrap();
    }
}

#[tokio::test]
async fn a_late_use_does_not_bring_an_ended_session_back() {
    let world = World::new();
    let made = world.tokens.create(TokenSpec::role(Role::Viewer), None).await.unwrap();
    let secret = world.sessions.begin(&made.secret, None).await.unwrap().secret;
    assert_eq!(world.session_denied(&secret).await, None);
    // A request that has read the session before it ended: its use is to be written.
    world.clock.advance(Duration::from_mins(6));
    let elsewhere = Sessions::new(world.store.clone(), world.tokens.clone());
    elsewhere.end(&secret).await.unwrap();
    assert_eq!(world.session_denied(&secret).await, Some(Denied::Unknown));
    assert!(elsewhere.find(&secret).await.is_err(), "it was not written again");
}
