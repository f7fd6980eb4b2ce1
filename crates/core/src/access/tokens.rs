//! Tokens: the credentials of principals. The store has only a hash of each.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use steadfast_bucket::is_label;
use steadfast_store::{
    Commit, EntryKey, EntryRange, Expect, InvalidInput, Json, Outcome, Put, Rejection, Store,
    StoreError, Timestamp, Write, futures::FutureExt, secret_text, sort::sort_by_key,
};
use tokio::sync::watch;

use super::{Principal, Role, Scope, hash::hash};
use crate::{RequestKey, idempotency::read, to_end::to_end};

const SPACE: &str = "token";
/// Last uses, by the id of the token. Apart from the tokens, so that a use changes no token.
const USED: &str = "token-used";
/// Exists since the first token was created, and stays: revoking the last token opens nothing.
const CLOSED: &[u8] = b"closed";
/// Characters of the name of an organization.
const ORGANIZATION_MAX: usize = 100;
/// Names that the shipped applications use for things of the whole platform.
const RESERVED: [&str; 3] = ["default", "artifacts", "organization"];
/// Scopes of one token.
const SCOPES_MAX: usize = 100;
/// The last use of a token is written at most once in this time.
const USE_WRITTEN: Duration = Duration::from_secs(60);
/// Milliseconds until a store that cannot be read is asked again.
pub(super) const RETRY_MS: i64 = 1_000;
/// The longest wait for the end of a token, in milliseconds.
pub(super) const LONGEST_WAIT_MS: i64 = 24 * 60 * 60 * 1_000;
/// Revoked and expired tokens are listed for this time, and then deleted.
const ENDED_KEPT: Duration = Duration::from_hours(30 * 24);
/// A use is forgotten after this time.
const USE_KEPT: Duration = Duration::from_hours(400 * 24);

/// The tokens of a store. Cheap to clone; all clones see a change at once.
#[derive(Clone)]
pub struct Tokens {
    store: Arc<dyn Store>,
    cache: Arc<RwLock<Cache>>,
    /// One read of all tokens at a time.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// When the last use of a token was last written.
    used: Arc<Mutex<HashMap<String, Timestamp>>>,
    /// Counts changes, for connections that must end with their token.
    changes: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct Cache {
    /// The tokens, and the generation in which the read of them began.
    tokens: Option<(u64, Arc<TokenMap>)>,
    /// The number of changes: a read that began before one does not have it.
    generation: u64,
    /// The creator whose tokens do not expire here.
    unexpiring: Option<String>,
}

impl Cache {
    /// The tokens with all changes up to a generation.
    fn since(&self, generation: u64) -> Option<Arc<TokenMap>> {
        let (read_in, tokens) = self.tokens.as_ref()?;
        (generation <= *read_in).then(|| tokens.clone())
    }
}

/// All tokens of the store.
#[derive(Default)]
struct TokenMap {
    is_closed: bool,
    by_hash: HashMap<String, Token>,
}

/// The stored part of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The id. It is part of the token and is no secret.
    pub id: String,
    /// The name, for people.
    pub name: Option<String>,
    /// The organization, if the token is for one.
    pub organization: Option<String>,
    /// The role.
    pub role: Role,
    /// The limits of the token.
    pub scopes: Vec<Scope>,
    /// When it was created, or rotated.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The id of the token that created it, or `this machine` for that of `admin.token`.
    pub created_by: Option<String>,
    /// The id of the token that a rotation with an overlap created.
    pub replaced_by: Option<String>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<Timestamp>,
}

impl Token {
    /// Whether it is valid, or ended lately: only such tokens are listed and counted.
    fn is_kept(&self, now: Timestamp) -> bool {
        self.kept_until().is_none_or(|it| now < it)
    }

    /// When it is deleted, if it ends.
    fn kept_until(&self) -> Option<Timestamp> {
        let ended_at = self.revoked_at.into_iter().chain(self.expires_at).min();
        ended_at.map(|it| it.after(ENDED_KEPT))
    }

    /// The principal that a token stands for at a time, unless it has ended.
    fn principal(&self, now: Timestamp) -> Result<Principal, Denied> {
        if self.revoked_at.is_some() {
            return Err(Denied::Revoked);
        }
        if self.expires_at.is_some_and(|it| it <= now) {
            return Err(Denied::Expired);
        }
        Ok(Principal {
            token: self.id.clone(),
            name: self.name.clone(),
            organization: self.organization.clone(),
            role: self.role,
            scopes: self.scopes.clone(),
            issued_at: self.created_at,
        })
    }
}

/// A token to be created.
#[derive(Clone, Debug)]
pub struct TokenSpec {
    /// The name, for people.
    pub name: Option<String>,
    /// The organization; tokens without one are for the whole platform.
    pub organization: Option<String>,
    /// The role.
    pub role: Role,
    /// The limits of the token.
    pub scopes: Vec<Scope>,
    /// How long it is valid; without an end otherwise.
    pub expires_in: Option<Duration>,
    /// The id of the token that creates it.
    pub created_by: Option<String>,
}

impl TokenSpec {
    /// A token of a role for the whole platform.
    pub fn role(role: Role) -> Self {
        let (name, organization, expires_in, created_by) = (None, None, None, None);
        Self { name, organization, role, scopes: Vec::new(), expires_in, created_by }
    }

    /// A token for a member of an organization.
    pub fn member(organization: &str) -> Self {
        Self { organization: Some(organization.into()), ..Self::role(Role::Member) }
    }
}

/// A new token. Its secret is shown once.
#[derive(Clone)]
pub struct NewToken {
    /// The stored part.
    pub token: Token,
    /// The secret text that callers send.
    pub secret: String,
}

/// The value of an entry.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    organization: Option<String>,
    role: Role,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<Scope>,
    created_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced_by: Option<String>,
}

/// Why a credential is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// There is no credential.
    #[error("a token is needed; send it as `Authorization: Bearer TOKEN`")]
    Missing,
    /// No token has this text.
    #[error("this token does not exist")]
    Unknown,
    /// The token has expired.
    #[error("this token has expired; ask for a new one")]
    Expired,
    /// The token was revoked.
    #[error("this token was revoked; ask for a new one")]
    Revoked,
}

/// Why a token was not created, or a credential was refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    /// Not the name of an organization.
    #[error(
        "`{organization}` cannot be an organization: 1 to {max} letters, digits, `.`, `_` and `-`, \
         not a `.` first, and not `default`, `artifacts` or `organization`",
        max = ORGANIZATION_MAX
    )]
    Organization {
        /// The text that was given.
        organization: String,
    },
    /// Not the name of a token.
    #[error(
        "`{name}` cannot be the name of a token: 1 to 100 letters, digits, spaces and ASCII \
         punctuation"
    )]
    Name {
        /// The text that was given.
        name: String,
    },
    /// An operator would be limited to an organization.
    #[error(
        "role {} is for the whole platform; leave the organization out, or use role admin",
        role.name()
    )]
    RoleOfOrganization {
        /// The role.
        role: Role,
    },
    /// Too many scopes.
    #[error("{count} scopes are too many for a token; at most {max}", max = SCOPES_MAX)]
    Scopes {
        /// Their number.
        count: usize,
    },
    /// The key was used before, and its token cannot be shown again: only its hash is stored.
    #[error(
        "token `{id}` was created with this idempotency key, and its secret is not kept; revoke \
         it, and create another one with a new key"
    )]
    Repeated {
        /// The id of the token.
        id: String,
    },
    /// The key stands for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// Which key.
        key: String,
    },
    /// The token ends with the overlap of its rotation, and so would another secret of it.
    #[error("token `{id}` was replaced by token `{by}`; rotate that one, or create a new token")]
    Replaced {
        /// The id of the token.
        id: String,
        /// The id of the token that replaced it.
        by: String,
    },
    /// The credential is refused.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<InvalidInput> for TokenError {
    fn from(error: InvalidInput) -> Self {
        TokenError::Store(error.into())
    }
}

/// Whether access to a store is closed, for a program that has not started yet.
#[steadfast_store::boxed]
pub async fn is_closed(store: Arc<dyn Store>) -> Result<bool, TokenError> {
    Tokens::new(store).is_closed().await
}

impl Tokens {
    /// The tokens of a store, which only these clones change: a program has one, see
    /// [`Runtime::tokens`](crate::Runtime::tokens).
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let (changes, _) = watch::channel(0);
        let (cache, reading, used) = (Arc::default(), Arc::default(), Arc::default());
        Self { store, cache, reading, used, changes: Arc::new(changes) }
    }

    /// Creates a token, at most once under a key. A repetition fails with
    /// [`TokenError::Repeated`], which names the token: its secret is not kept.
    #[steadfast_store::boxed]
    pub async fn create(
        &self,
        spec: TokenSpec,
        key: Option<&RequestKey>,
    ) -> Result<NewToken, TokenError> {
        check(&spec)?;
        let (id, now) = (secret_text(10, LETTERS)?, self.store.clock().now());
        let TokenSpec { name, organization, role, scopes, expires_in, created_by } = spec;
        let expires_at = expires_in.map(|it| now.after(it).0);
        let created_at = now.0;
        let stored = Stored {
            id,
            name,
            organization,
            role,
            scopes,
            created_at,
            expires_at,
            revoked_at: None,
            created_by,
            replaced_by: None,
        };
        let (new, commit) = new_secret(&stored, now)?;
        let (entry, value) = (EntryKey::new(SPACE, CLOSED)?, Some(Json::of(&true)?));
        let closed = Put { entry, value, reference: None, expires: None };
        let mut commit = commit.write(Write::Put(closed));
        if let Some(key) = key {
            commit = commit.write(key.write_answer(&new.token.id)?);
        }
        match self.change(commit).await? {
            Outcome::Committed(_) => Ok(new),
            Outcome::Duplicate(before) => Err(TokenError::Repeated { id: read(&before)? }),
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(TokenError::KeyReused { key }),
            Outcome::Rejected(rejection) => {
                Err(StoreError::Corrupt { reason: rejection.to_string() }.into())
            }
        }
    }

    /// Gives a token a new secret. The old one is refused from now on. `None` if there is no such
    /// token, or it has ended.
    #[steadfast_store::boxed]
    pub async fn rotate(&self, id: &str) -> Result<Option<NewToken>, TokenError> {
        loop {
            let Some((entry, mut stored, revision)) = self.find(id).await? else { return Ok(None) };
            let now = self.store.clock().now();
            if !stored.can_rotate(now)? {
                return Ok(None);
            }
            // Later than before, so that sessions of the old secret end.
            stored.created_at = now.0.max(stored.created_at.saturating_add(1));
            let (new, commit) = new_secret(&stored, now)?;
            let expires = Some(Duration::ZERO);
            let old = Put { entry: entry.clone(), value: None, reference: None, expires };
            let commit = commit.expect(Expect::Revision { entry, revision }).write(Write::Put(old));
            if let Outcome::Committed(_) = self.change(commit).await? {
                return Ok(Some(new));
            }
        }
    }

    /// Creates a token with the limits and the expiry of another one, which ends after an overlap
    /// at the latest. `None` if there is no such token, or it has ended.
    #[steadfast_store::boxed]
    pub async fn replace(
        &self,
        id: &str,
        overlap: Duration,
        created_by: Option<String>,
    ) -> Result<Option<NewToken>, TokenError> {
        loop {
            let Some((entry, mut old, revision)) = self.find(id).await? else { return Ok(None) };
            let now = self.store.clock().now();
            if !old.can_rotate(now)? {
                return Ok(None);
            }
            let (id, created_by) = (secret_text(10, LETTERS)?, created_by.clone());
            let stored = Stored { id, created_at: now.0, created_by, ..old.clone() };
            let (new, commit) = new_secret(&stored, now)?;
            let ends = now.after(overlap).0;
            old.expires_at = Some(old.expires_at.map_or(ends, |it| it.min(ends)));
            old.replaced_by = Some(new.token.id.clone());
            let put = old.put(entry.clone(), now)?;
            let commit = commit.expect(Expect::Revision { entry, revision }).write(Write::Put(put));
            if let Outcome::Committed(_) = self.change(commit).await? {
                return Ok(Some(new));
            }
        }
    }

    /// Revokes a token. `false` if there is none of this id, or it is revoked already.
    #[steadfast_store::boxed]
    pub async fn revoke(&self, id: &str) -> Result<bool, TokenError> {
        loop {
            let Some((entry, mut stored, revision)) = self.find(id).await? else {
                return Ok(false);
            };
            if stored.revoked_at.is_some() {
                return Ok(false);
            }
            let now = self.store.clock().now();
            stored.revoked_at = Some(now.0);
            let put = stored.put(entry.clone(), now)?;
            let commit = Commit::of(Write::Put(put)).expect(Expect::Revision { entry, revision });
            if let Outcome::Committed(_) = self.change(commit).await? {
                return Ok(true);
            }
        }
    }

    /// Tokens behind an id, in the order of their ids.
    #[steadfast_store::boxed]
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Token>, TokenError> {
        self.list_of(None, after, limit).await
    }

    /// The same for the tokens of an organization, if it is given.
    #[steadfast_store::boxed]
    pub async fn list_of(
        &self,
        organization: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Token>, TokenError> {
        let (tokens, now) = (self.tokens().await?, self.store.clock().now());
        let is_listed = |it: &&Token| {
            it.is_kept(now)
                && after.is_none_or(|after| after < it.id.as_str())
                && (organization.is_none() || it.organization.as_deref() == organization)
        };
        let mut all: Vec<&Token> = tokens.by_hash.values().filter(is_listed).collect();
        sort_by_key(&mut all, |it| &it.id);
        let mut listed = Vec::new();
        for token in all.into_iter().take(limit) {
            let mut token = token.clone();
            if let Some(entry) =
                self.store.entry(&EntryKey::new(USED, token.id.as_bytes())?).await?
            {
                token.last_used_at = Some(entry.changed_at);
            }
            listed.push(token);
        }
        Ok(listed)
    }

    /// The number of tokens of an organization, with those that have ended and are still listed.
    #[steadfast_store::boxed]
    pub async fn count_of(&self, organization: &str) -> Result<usize, TokenError> {
        let (tokens, now) = (self.tokens().await?, self.store.clock().now());
        let is_own =
            |it: &&Token| it.is_kept(now) && it.organization.as_deref() == Some(organization);
        Ok(tokens.by_hash.values().filter(is_own).count())
    }

    /// The token with this id, also one that ended lately. It has no time of use.
    #[steadfast_store::boxed]
    pub async fn get(&self, id: &str) -> Result<Option<Token>, TokenError> {
        let (tokens, now) = (self.tokens().await?, self.store.clock().now());
        Ok(tokens.by_hash.values().find(|it| it.id == id && it.is_kept(now)).cloned())
    }

    /// Valid tokens, in no order. They have no time of use.
    #[steadfast_store::boxed]
    pub async fn valid(&self) -> Result<Vec<Token>, TokenError> {
        let (tokens, now) = (self.tokens().await?, self.store.clock().now());
        let valid = tokens.by_hash.values().filter(|it| it.principal(now).is_ok());
        Ok(valid.cloned().collect())
    }

    /// Valid tokens that expire within this time, the first one first. Tokens that a rotation
    /// replaced are left out.
    #[steadfast_store::boxed]
    pub async fn expiring(&self, within: Duration) -> Result<Vec<Token>, TokenError> {
        let (mut soon, until) = (self.valid().await?, self.store.clock().now().after(within));
        soon.retain(|it| it.replaced_by.is_none() && it.expires_at.is_some_and(|at| at <= until));
        sort_by_key(&mut soon, |it| it.expires_at);
        Ok(soon)
    }

    /// The valid token with this secret. It does not count as a use.
    #[steadfast_store::boxed]
    pub async fn by_secret(&self, secret: &str) -> Result<Token, TokenError> {
        let (tokens, now) = (self.tokens().await?, self.store.clock().now());
        let token = tokens.by_hash.get(&hash(secret)).ok_or(Denied::Unknown)?;
        token.principal(now)?;
        Ok(token.clone())
    }

    /// Finds the principal of a credential.
    #[steadfast_store::boxed]
    pub async fn authenticate(&self, secret: &str) -> Result<Principal, TokenError> {
        let tokens = self.tokens().await?;
        self.authenticate_by(&tokens, secret)
    }

    /// The same without waiting: `None` if the tokens are not in memory with all changes so far.
    pub fn authenticate_in_memory(&self, secret: &str) -> Option<Result<Principal, TokenError>> {
        self.in_memory().map(|tokens| self.authenticate_by(&tokens, secret))
    }

    fn authenticate_by(&self, tokens: &TokenMap, secret: &str) -> Result<Principal, TokenError> {
        let now = self.store.clock().now();
        // The token is found by its hash, so that the time it takes says nothing about it.
        let token = tokens.by_hash.get(&hash(secret)).ok_or(Denied::Unknown)?;
        let principal = token.principal(now)?;
        self.note_use(&token.id, now);
        Ok(principal)
    }

    /// Finds the principal of a token that is still valid, by the id of the token.
    #[steadfast_store::boxed]
    pub async fn principal(&self, id: &str) -> Result<Principal, TokenError> {
        let tokens = self.tokens().await?;
        let token = tokens.by_hash.values().find(|it| it.id == id).ok_or(Denied::Revoked)?;
        Ok(token.principal(self.store.clock().now())?)
    }

    /// Waits until the token of a principal has ended or has another secret. A store that cannot be
    /// read ends nothing.
    #[steadfast_store::boxed]
    pub async fn ended(&self, principal: &Principal) {
        let (mut changes, clock) = (self.changes(), self.store.clock());
        loop {
            changes.borrow_and_update();
            let found = self
                .tokens()
                .await
                .map(|it| it.by_hash.values().find(|it| it.id == principal.token).cloned());
            let now = clock.now();
            let rest = match found {
                Ok(None) => return,
                Ok(Some(token)) if token.principal(now).is_err() => return,
                Ok(Some(token)) if token.created_at != principal.issued_at => return,
                Ok(Some(Token { expires_at: Some(end), .. })) => end.0.saturating_sub(now.0),
                Ok(Some(_)) => i64::MAX,
                Err(_) => RETRY_MS,
            };
            let rest = Duration::from_millis(rest.clamp(1, LONGEST_WAIT_MS).cast_unsigned());
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = clock.sleep(rest) => {}
            }
        }
    }

    /// Whether requests need a credential: from the first token on, or since [`Tokens::close`].
    #[steadfast_store::boxed]
    pub async fn is_closed(&self) -> Result<bool, TokenError> {
        Ok(self.tokens().await?.is_closed)
    }

    /// The same without waiting: `None` if the tokens are not in memory with all changes so far.
    pub fn is_closed_in_memory(&self) -> Option<bool> {
        self.in_memory().map(|it| it.is_closed)
    }

    /// Has every request need a credential from now on.
    #[steadfast_store::boxed]
    pub async fn close(&self) -> Result<(), TokenError> {
        // A start on a full disk writes nothing.
        if self.is_closed().await? {
            return Ok(());
        }
        let (entry, value) = (EntryKey::new(SPACE, CLOSED)?, Some(Json::of(&true)?));
        let put = Put { entry, value, reference: None, expires: None };
        self.change(Commit::of(Write::Put(put))).await?;
        Ok(())
    }

    /// From now on, tokens of a creator do not expire in this process: nobody renews those of a
    /// store that is only read.
    pub fn ignore_expiry_of(&self, creator: &str) {
        self.cache.write().unexpiring = Some(creator.to_owned());
        self.changed();
    }

    /// Counts changes of tokens. Connections that stay open look again at each of them.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Writes that a token was used, now and then. A use that is not written is of no matter.
    fn note_use(&self, id: &str, now: Timestamp) {
        {
            let mut used = self.used.lock();
            if used.get(id).is_some_and(|it| now < it.after(USE_WRITTEN)) {
                return;
            }
            used.insert(id.into(), now);
        }
        let put = || -> Result<Commit, InvalidInput> {
            let (entry, value) = (EntryKey::new(USED, id.as_bytes())?, Some(Json::of(&true)?));
            let expires = Some(USE_KEPT);
            Ok(Commit::of(Write::Put(Put { entry, value, reference: None, expires })))
        };
        if let Ok(commit) = put() {
            let store = self.store.clone();
            tokio::spawn(async move { store.commit(commit).await }.boxed());
        }
    }

    /// The entry of a token, its value and its revision.
    async fn find(&self, id: &str) -> Result<Option<(EntryKey, Stored, i64)>, TokenError> {
        let tokens = self.tokens().await?;
        let Some((hash, _)) = tokens.by_hash.iter().find(|(_, it)| it.id == id) else {
            return Ok(None);
        };
        let entry = EntryKey::new(SPACE, hash.as_bytes())?;
        let Some(found) = self.store.entry(&entry).await? else { return Ok(None) };
        let Some(value) = &found.value else { return Ok(None) };
        Ok(Some((entry, parse(value)?, found.revision)))
    }

    /// The tokens with all changes so far, if they are in memory.
    fn in_memory(&self) -> Option<Arc<TokenMap>> {
        let cache = self.cache.read();
        cache.since(cache.generation)
    }

    async fn tokens(&self) -> Result<Arc<TokenMap>, TokenError> {
        let generation = || self.cache.read().generation;
        let asked_in = generation();
        let cached = || self.cache.read().since(asked_in);
        if let Some(tokens) = cached() {
            return Ok(tokens);
        }
        let _one_at_a_time = self.reading.lock().await;
        // Another caller may have read them meanwhile.
        if let Some(tokens) = cached() {
            return Ok(tokens);
        }
        let (read_in, tokens) = (generation(), Arc::new(self.read().await?));
        self.cache.write().tokens = Some((read_in, tokens.clone()));
        Ok(tokens)
    }

    async fn read(&self) -> Result<TokenMap, TokenError> {
        let mut tokens = TokenMap::default();
        let unexpiring = self.cache.read().unexpiring.clone();
        let mut last: Option<Vec<u8>> = None;
        loop {
            let range = EntryRange::prefix(b"");
            let range = match &last {
                Some(last) => range.after(last),
                None => range,
            };
            let page = self.store.entries(SPACE, range, 1_000).await?;
            let Some(end) = page.last() else { return Ok(tokens) };
            last = Some(end.entry.key().to_vec());
            for entry in &page {
                let Some(value) = &entry.value else { continue };
                if entry.entry.key() == CLOSED {
                    tokens.is_closed = true;
                    continue;
                }
                let mut token = parse(value)?.token();
                if unexpiring.is_some() && token.created_by == unexpiring {
                    token.expires_at = None;
                }
                let hash = String::from_utf8_lossy(entry.entry.key()).into_owned();
                tokens.by_hash.insert(hash, token);
            }
        }
    }

    /// Commits a change, after which all tokens are read again.
    async fn change(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let tokens = self.clone();
        to_end(async move {
            let outcome = tokens.store.commit(commit).await;
            tokens.changed();
            outcome
        })
        .await
    }

    fn changed(&self) {
        self.cache.write().generation += 1;
        let now = self.store.clock().now();
        self.used.lock().retain(|_, at| now < at.after(USE_WRITTEN));
        self.changes.send_modify(|it| *it += 1);
    }
}

impl Stored {
    fn token(&self) -> Token {
        let Self { id, name, organization, role, scopes, .. } = self.clone();
        Token {
            id,
            name,
            organization,
            role,
            scopes,
            created_at: Timestamp(self.created_at),
            expires_at: self.expires_at.map(Timestamp),
            revoked_at: self.revoked_at.map(Timestamp),
            created_by: self.created_by.clone(),
            replaced_by: self.replaced_by.clone(),
            last_used_at: None,
        }
    }

    /// Whether it can be rotated: `false` if it has ended. A secret of a token that was replaced
    /// would end with the overlap.
    fn can_rotate(&self, now: Timestamp) -> Result<bool, TokenError> {
        let is_valid = self.token().principal(now).is_ok();
        match &self.replaced_by {
            Some(by) if is_valid => {
                Err(TokenError::Replaced { id: self.id.clone(), by: by.clone() })
            }
            Some(_) | None => Ok(is_valid),
        }
    }

    /// Writes the row, which goes some time after the token has ended.
    fn put(&self, entry: EntryKey, now: Timestamp) -> Result<Put, InvalidInput> {
        let expires = self.token().kept_until().map(|it| it.since(now));
        Ok(Put { entry, value: Some(Json::of(self)?), reference: None, expires })
    }
}

/// The letters of tokens.
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// A new secret for a token, and the commit that stores its hash.
fn new_secret(stored: &Stored, now: Timestamp) -> Result<(NewToken, Commit), TokenError> {
    let secret = format!("sf_{}_{}", stored.id, secret_text(52, LETTERS)?);
    let entry = EntryKey::new(SPACE, hash(&secret).as_bytes())?;
    let put = stored.put(entry, now)?;
    Ok((NewToken { token: stored.token(), secret }, Commit::of(Write::Put(put))))
}

fn check(spec: &TokenSpec) -> Result<(), TokenError> {
    if let Some(name) = spec.name.as_ref().filter(|it| !is_label(it)) {
        return Err(TokenError::Name { name: name.clone() });
    }
    if let Some(organization) = &spec.organization {
        if !is_organization(organization) {
            return Err(TokenError::Organization { organization: organization.clone() });
        }
        if spec.role == Role::Operator {
            return Err(TokenError::RoleOfOrganization { role: spec.role });
        }
    }
    if SCOPES_MAX < spec.scopes.len() {
        return Err(TokenError::Scopes { count: spec.scopes.len() });
    }
    Ok(())
}

fn parse(value: &Json) -> Result<Stored, StoreError> {
    let parsed = serde_json::from_str(value.as_str());
    parsed.map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}

/// Whether a text can be the name of an organization.
pub fn is_organization(text: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    (1..=ORGANIZATION_MAX).contains(&text.len())
        && !text.starts_with('.')
        && text.chars().all(fits)
        && !RESERVED.contains(&text)
}
