//! Sessions of browsers. A session stands for a token until it ends, is idle for too long, or the
//! token ends. The store has only hashes of the secrets.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::{
    Commit, EntryKey, Expect, InvalidInput, Json, Outcome, Put, Store, StoreError, Timestamp,
    Write, secret_text,
};

use super::{
    Principal,
    hash::hash,
    tokens::{Denied, TokenError, Tokens},
};

/// A session ends when it was not used for this time.
pub const SESSION_IDLE: Duration = Duration::from_hours(12);
/// A session ends after this time at the latest.
pub const SESSION_MAX: Duration = Duration::from_hours(7 * 24);
/// The use of a session is written at most once in this time.
const USE_WRITTEN: Duration = Duration::from_mins(5);
/// A login link is valid for this time.
const LINK_VALID: Duration = Duration::from_mins(10);
/// Sessions kept in memory. Others are read from the store.
const CACHED_MAX: usize = 10_000;

/// Length of a secret, with 5 random bits per letter.
const SECRET_LEN: usize = 52;
const SPACE: &str = "session";
const LINKS: &str = "login-link";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The sessions of a store. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    store: Arc<dyn Store>,
    tokens: Tokens,
    cache: Arc<Mutex<Cache>>,
}

#[derive(Default)]
struct Cache {
    sessions: HashMap<String, Stored>,
    /// The number of ended sessions: a read that began before an end is not kept.
    ends: u64,
}

/// A session that has begun.
pub struct NewSession {
    /// The secret for the cookie.
    pub secret: String,
    /// The principal.
    pub principal: Principal,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    /// The id of the token.
    token: String,
    /// When the secret of the token was created: a session ends when it gets another one.
    #[serde(default)]
    issued_at: i64,
    ends_at: i64,
    idle_until: i64,
}

impl Sessions {
    pub(crate) fn new(store: Arc<dyn Store>, tokens: Tokens) -> Self {
        Self { store, tokens, cache: Arc::default() }
    }

    /// Begins a session with a token.
    pub async fn begin(&self, token: &str) -> Result<NewSession, TokenError> {
        let principal = self.tokens.authenticate(token.trim()).await?;
        self.begin_as(principal).await
    }

    /// Begins a session with the code of a login link, which works once.
    pub async fn begin_with_link(&self, code: &str) -> Result<NewSession, TokenError> {
        let entry = EntryKey::new(LINKS, hash(code).as_bytes())?;
        let found = self.store.entry(&entry).await?.ok_or(Denied::Unknown)?;
        let now = self.store.clock().now();
        let value = found.value.filter(|_| found.expires_at.is_none_or(|it| now < it));
        let value = value.ok_or(Denied::Expired)?;
        let (token, issued_at): (String, i64) = parse(&value)?;
        let principal = self.principal(&token, issued_at).await?;
        let expires = Some(Duration::ZERO);
        let used = Put { entry: entry.clone(), value: None, reference: None, expires };
        let commit = Commit::of(Write::Put(used));
        let commit = commit.expect(Expect::Revision { entry, revision: found.revision });
        match self.store.commit(commit).await? {
            Outcome::Committed(_) => self.begin_as(principal).await,
            Outcome::Duplicate(_) | Outcome::Rejected(_) => Err(Denied::Expired.into()),
        }
    }

    /// The code of a login link for a token, which works once and for ten minutes.
    pub async fn link(&self, token: &str) -> Result<String, TokenError> {
        let issued_at = self.tokens.principal(token).await?.issued_at.0;
        let code = secret_text(SECRET_LEN, LETTERS)?;
        let entry = EntryKey::new(LINKS, hash(&code).as_bytes())?;
        let (value, expires) = (Some(Json::of(&(token, issued_at))?), Some(LINK_VALID));
        let put = Put { entry, value, reference: None, expires };
        self.store.commit(Commit::of(Write::Put(put))).await?;
        Ok(code)
    }

    async fn begin_as(&self, principal: Principal) -> Result<NewSession, TokenError> {
        let (secret, now) = (secret_text(SECRET_LEN, LETTERS)?, self.store.clock().now());
        let (ends_at, idle_until) = (now.after(SESSION_MAX).0, now.after(SESSION_IDLE).0);
        let (token, issued_at) = (principal.token.clone(), principal.issued_at.0);
        let stored = Stored { token, issued_at, ends_at, idle_until };
        self.store.commit(put(&hash(&secret), &stored, now)?).await?;
        Ok(NewSession { secret, principal })
    }

    /// The principal of a token that still has the same secret.
    async fn principal(&self, token: &str, issued_at: i64) -> Result<Principal, TokenError> {
        let principal = self.tokens.principal(token).await?;
        if principal.issued_at.0 != issued_at {
            return Err(Denied::Revoked.into());
        }
        Ok(principal)
    }

    /// Finds the principal of a session.
    pub async fn find(&self, secret: &str) -> Result<Principal, TokenError> {
        // Anybody may send a cookie: most of them need no read of the store.
        if secret.len() != SECRET_LEN || !secret.bytes().all(|it| LETTERS.contains(&it)) {
            return Err(Denied::Unknown.into());
        }
        let (hash, now) = (hash(secret), self.store.clock().now());
        let (cached, ends) = {
            let cache = self.cache.lock();
            (cache.sessions.get(&hash).cloned(), cache.ends)
        };
        let mut stored = match cached {
            Some(stored) => stored,
            None => self.read(&hash).await?.0,
        };
        if stored.ends_at <= now.0 || stored.idle_until <= now.0 {
            self.cache.lock().sessions.remove(&hash);
            return Err(Denied::Expired.into());
        }
        let principal = self.principal(&stored.token, stored.issued_at).await?;
        let idle_until = now.after(SESSION_IDLE).0.min(stored.ends_at);
        if stored.idle_until.saturating_add(millis(USE_WRITTEN)) <= idle_until {
            stored = self.extend(&hash, idle_until, now).await?;
        }
        let mut cache = self.cache.lock();
        if cache.ends == ends {
            if CACHED_MAX <= cache.sessions.len() {
                cache.sessions.clear();
            }
            cache.sessions.insert(hash, stored);
        }
        Ok(principal)
    }

    /// The stored session and its revision.
    async fn read(&self, hash: &str) -> Result<(Stored, i64), TokenError> {
        let found = self.store.entry(&EntryKey::new(SPACE, hash.as_bytes())?).await?;
        let found = found.ok_or(Denied::Unknown)?;
        let value = found.value.ok_or(Denied::Unknown)?;
        Ok((parse(&value)?, found.revision))
    }

    /// Writes that a session was used. A session that ended meanwhile stays ended.
    async fn extend(
        &self,
        hash: &str,
        idle_until: i64,
        now: Timestamp,
    ) -> Result<Stored, TokenError> {
        loop {
            let read = self.read(hash).await;
            let (mut stored, revision) = match read {
                Ok(read) => read,
                Err(error) => {
                    self.cache.lock().sessions.remove(hash);
                    return Err(error);
                }
            };
            stored.idle_until = stored.idle_until.max(idle_until);
            let entry = EntryKey::new(SPACE, hash.as_bytes())?;
            let commit = put(hash, &stored, now)?.expect(Expect::Revision { entry, revision });
            if let Outcome::Committed(_) = self.store.commit(commit).await? {
                return Ok(stored);
            }
        }
    }

    /// Ends a session.
    pub async fn end(&self, secret: &str) -> Result<(), TokenError> {
        let hash = hash(secret);
        let entry = EntryKey::new(SPACE, hash.as_bytes())?;
        let expires = Some(Duration::ZERO);
        let gone = Put { entry, value: None, reference: None, expires };
        self.store.commit(Commit::of(Write::Put(gone))).await?;
        let mut cache = self.cache.lock();
        cache.sessions.remove(&hash);
        cache.ends += 1;
        Ok(())
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The commit that writes a session. Its row goes when the session has ended.
fn put(hash: &str, stored: &Stored, now: Timestamp) -> Result<Commit, InvalidInput> {
    let left = stored.idle_until.min(stored.ends_at).saturating_sub(now.0).max(0);
    let expires = Some(Duration::from_millis(left.cast_unsigned()));
    let entry = EntryKey::new(SPACE, hash.as_bytes())?;
    let value = Some(Json::of(stored)?);
    Ok(Commit::of(Write::Put(Put { entry, value, reference: None, expires })))
}

fn parse<T: serde::de::DeserializeOwned>(value: &Json) -> Result<T, StoreError> {
    let parsed = serde_json::from_str(value.as_str());
    parsed.map_err(|error| StoreError::Corrupt { reason: error.to_string() })
}
