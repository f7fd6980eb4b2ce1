//! Sessions of browsers. A session stands for a token until it ends, is idle for too long, or the
//! token ends. The store has only hashes of the secrets.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steadfast_store::{
    Commit, EntryRange, InvalidInput, Outcome, Put, Record, Records, Store, StoreError, Timestamp,
    Write, secret_text,
};
use tokio::sync::watch;

use super::{
    Principal, Role,
    scope::hash,
    tokens::{Denied, TokenError, Tokens, until_end},
};
use crate::commit::to_end;

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

/// Sessions that one list reads.
const LIST_READS: usize = 1_000;

/// Length of a secret, with 5 random bits per letter.
const SECRET_LEN: usize = 52;
const SPACE: &str = "session";
const SESSIONS: Records<Stored> = Records::new(SPACE);
/// The token of each link, and when its secret was created.
const LINKS: Records<(String, i64)> = Records::new("login-link");
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The sessions of a store. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    store: Arc<dyn Store>,
    tokens: Tokens,
    cache: Arc<Mutex<HashMap<SessionId, Stored>>>,
    /// Counts ended sessions, for connections that must end with their session. A request that
    /// began before an end does not fill the cache.
    ends: Arc<watch::Sender<u64>>,
}

/// The id of a session: the hash of its secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// The id of the session with this secret, if it can be one.
    pub fn of(secret: &str) -> Option<Self> {
        // Anybody may send a cookie: most of them need no read of the store.
        let fits = secret.len() == SECRET_LEN && secret.bytes().all(|it| LETTERS.contains(&it));
        fits.then(|| Self(hash(secret)))
    }

    async fn record(&self, store: &dyn Store) -> Result<Record<Stored>, StoreError> {
        SESSIONS.find(store, self.0.as_bytes()).await
    }
}

/// A session that has begun.
pub struct NewSession {
    /// The secret for the cookie.
    pub secret: String,
    /// The principal.
    pub principal: Principal,
}

/// A session of a browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Its id, which is no credential.
    pub id: String,
    /// The id of its token.
    pub token: String,
    /// The name of its token; null for none.
    pub name: Option<String>,
    /// The organization of its token; null for the whole platform.
    pub organization: Option<String>,
    /// The role of its token: `viewer`, `member`, `operator` or `admin`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub role: Role,
    /// The address from which it was begun; null if that is unknown.
    pub client: Option<String>,
    /// When it began.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub begun_at: Timestamp,
    /// When it was last used, to five minutes.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub last_used_at: Timestamp,
    /// When it ends if it is not used again.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub ends_at: Timestamp,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    /// The id of the token.
    token: String,
    /// When the secret of the token was created: a session ends when it gets another one.
    issued_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    ends_at: i64,
    idle_until: i64,
}

impl Sessions {
    pub(crate) fn new(store: Arc<dyn Store>, tokens: Tokens) -> Self {
        let (ends, _) = watch::channel(0);
        Self { store, tokens, cache: Arc::default(), ends: Arc::new(ends) }
    }

    /// Begins a session with a token, for a client with this address.
    #[steadfast_store::boxed]
    pub async fn begin(&self, token: &str, client: Option<&str>) -> Result<NewSession, TokenError> {
        let principal = self.tokens.authenticate(token.trim()).await?;
        self.begin_as(principal, client).await
    }

    /// Begins a session with the code of a login link, which works once.
    #[steadfast_store::boxed]
    pub async fn begin_with_link(
        &self,
        code: &str,
        client: Option<&str>,
    ) -> Result<NewSession, TokenError> {
        let entry = LINKS.entry(hash(code).as_bytes())?;
        let found = self.store.entry(&entry).await?.ok_or(Denied::Unknown)?;
        let (link, now) = (Record::<(String, i64)>::of(&found)?, self.store.clock().now());
        let is_valid = found.expires_at.is_none_or(|it| now < it);
        let (token, issued_at) = link.value.as_ref().filter(|_| is_valid).ok_or(Denied::Expired)?;
        let principal = self.principal(token, *issued_at).await?;
        match self.store.commit(link.remove(Duration::ZERO)).await? {
            Outcome::Committed(_) => self.begin_as(principal, client).await,
            Outcome::Duplicate(_) | Outcome::Rejected(_) => Err(Denied::Expired.into()),
        }
    }

    /// The code of a login link for a token, which works once and for ten minutes.
    #[steadfast_store::boxed]
    pub async fn link(&self, token: &str) -> Result<String, TokenError> {
        let issued_at = self.tokens.principal(token).await?.issued_at.0;
        let code = secret_text(SECRET_LEN, LETTERS)?;
        let entry = LINKS.entry(hash(&code).as_bytes())?;
        let put = Put::of(entry, &(token, issued_at))?.expires(LINK_VALID);
        self.store.commit(Commit::of(Write::Put(put))).await?;
        Ok(code)
    }

    async fn begin_as(
        &self,
        principal: Principal,
        client: Option<&str>,
    ) -> Result<NewSession, TokenError> {
        let (secret, now) = (secret_text(SECRET_LEN, LETTERS)?, self.store.clock().now());
        let (ends_at, idle_until) = (now.after(SESSION_MAX).0, now.after(SESSION_IDLE).0);
        let (token, issued_at) = (principal.token.clone(), principal.issued_at.0);
        let client = client.map(str::to_owned);
        let stored = Stored { token, issued_at, client, ends_at, idle_until };
        let id = SessionId(hash(&secret));
        self.store.commit(Commit::of(Write::Put(put(&id, &stored, now)?))).await?;
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
    #[steadfast_store::boxed]
    pub async fn find(&self, secret: &str) -> Result<Principal, TokenError> {
        let id = SessionId::of(secret).ok_or(Denied::Unknown)?;
        let (now, ends) = (self.store.clock().now(), *self.ends.borrow());
        let mut stored = self.stored(&id).await?.ok_or(Denied::Unknown)?;
        if stored.end() <= now.0 {
            self.cache.lock().remove(&id);
            return Err(Denied::Expired.into());
        }
        let principal = self.principal(&stored.token, stored.issued_at).await?;
        let idle_until = now.after(SESSION_IDLE).0;
        if stored.idle_until.saturating_add(millis(USE_WRITTEN)) <= idle_until {
            stored.idle_until = idle_until;
            self.write_use(&id, &stored, now).await?;
        }
        let mut cache = self.cache.lock();
        if CACHED_MAX <= cache.len() {
            cache.clear();
        }
        if ends == *self.ends.borrow() {
            cache.insert(id, stored);
        }
        Ok(principal)
    }

    async fn stored(&self, id: &SessionId) -> Result<Option<Stored>, TokenError> {
        let cached = self.cache.lock().get(id).cloned();
        if cached.is_some() {
            return Ok(cached);
        }
        Ok(id.record(&*self.store).await?.value)
    }

    /// Writes that a session was used. A session that has ended meanwhile stays ended.
    async fn write_use(
        &self,
        id: &SessionId,
        stored: &Stored,
        now: Timestamp,
    ) -> Result<(), TokenError> {
        let found = id.record(&*self.store).await?;
        if found.value.is_none() {
            return Err(Denied::Unknown.into());
        }
        let commit = found.put(put(id, stored, now)?);
        // If the caller goes away, the next request reads what was written.
        self.cache.lock().remove(id);
        // Another request of the session was faster: it has written the same, or ended the session.
        self.store.commit(commit).await?;
        Ok(())
    }

    /// Sessions behind a cursor, in the order of their ids: those of one token, or all. The second
    /// value is the cursor behind which others may follow; a list may be shorter than its limit
    /// then. It is no id of a session that is not listed.
    #[steadfast_store::boxed]
    pub async fn list(
        &self,
        token: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Session>, Option<String>), TokenError> {
        let range = EntryRange::prefix(b"").after(after.unwrap_or_default().as_bytes());
        let page = self.store.entries(SPACE, range, LIST_READS).await?;
        let ids = page.iter().map(|it| String::from_utf8_lossy(it.entry.key()).into_owned());
        let ids: Vec<String> = ids.collect();
        let (mut listed, now) = (Vec::<Session>::new(), self.store.clock().now().0);
        for (entry, id) in page.iter().zip(&ids) {
            if listed.len() == limit {
                let next = listed.last().map(|it| it.id.clone());
                return Ok((listed, next));
            }
            let Some(stored) = entry.parse::<Stored>()? else { continue };
            let is_listed = token.is_none_or(|it| it == stored.token) && now < stored.end();
            if !is_listed {
                continue;
            }
            // A session whose token has ended has ended, too.
            if let Ok(principal) = self.principal(&stored.token, stored.issued_at).await {
                listed.push(stored.shown(id.clone(), principal));
            }
        }
        let next = match &ids[..] {
            [.., before, last] if ids.len() == LIST_READS => {
                let shown = listed.last().map_or("", |it| &*it.id);
                Some(cursor_between(shown.max(before), last))
            }
            _ => None,
        };
        Ok((listed, next))
    }

    /// Ends the session with this id, if it is one of the token, or of any token. `false` if there
    /// is none.
    #[steadfast_store::boxed]
    pub async fn end_by_id(&self, id: &str, token: Option<&str>) -> Result<bool, TokenError> {
        let id = SessionId(id.to_owned());
        if SESSIONS.entry(id.0.as_bytes()).is_err() {
            return Ok(false);
        }
        let Some(stored) = id.record(&*self.store).await?.value else { return Ok(false) };
        let now = self.store.clock().now().0;
        if stored.end() <= now || token.is_some_and(|it| it != stored.token) {
            return Ok(false);
        }
        self.end_it(id).await.map(|()| true)
    }

    /// Ends a session.
    #[steadfast_store::boxed]
    pub async fn end(&self, secret: &str) -> Result<(), TokenError> {
        match SessionId::of(secret) {
            Some(id) => self.end_it(id).await,
            None => Ok(()),
        }
    }

    async fn end_it(&self, id: SessionId) -> Result<(), TokenError> {
        let gone = Put::removal(SESSIONS.entry(id.0.as_bytes())?, Duration::ZERO);
        let sessions = self.clone();
        to_end(async move {
            let outcome = sessions.store.commit(Commit::of(Write::Put(gone))).await;
            let mut cache = sessions.cache.lock();
            cache.remove(&id);
            // While the cache is locked: a request that began earlier must not fill it again.
            sessions.ends.send_modify(|it| *it += 1);
            outcome.map(drop).map_err(TokenError::from)
        })
        .await
    }

    /// Waits until a session has ended, for connections that stay open. They do not count as a use.
    #[steadfast_store::boxed]
    pub async fn ended(&self, id: &SessionId) {
        let end = move || async move {
            let (stored, now) = (self.stored(id).await?, self.store.clock().now());
            Ok::<_, TokenError>(stored.map(|it| Timestamp(it.end())).filter(|end| now < *end))
        };
        until_end(self.ends.subscribe(), self.store.clock(), end).await;
    }
}

impl Stored {
    /// The time at which the session ends if it is not used again.
    fn end(&self) -> i64 {
        self.ends_at.min(self.idle_until)
    }

    fn shown(self, id: String, principal: Principal) -> Session {
        let Principal { token, name, organization, role, .. } = principal;
        Session {
            id,
            token,
            name,
            organization,
            role,
            begun_at: Timestamp(self.ends_at).before(SESSION_MAX),
            last_used_at: Timestamp(self.idle_until).before(SESSION_IDLE),
            ends_at: Timestamp(self.end()),
            client: self.client,
        }
    }
}

/// The shortest cursor behind one id and not behind the last: its first letters, or all of it if
/// the two are the same.
fn cursor_between(id: &str, last: &str) -> String {
    let mut starts = (1..last.len()).filter_map(|it| last.get(..it));
    starts.find(|it| id < *it).unwrap_or(last).to_owned()
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Writes a session. Its row goes when the session has ended.
fn put(id: &SessionId, stored: &Stored, now: Timestamp) -> Result<Put, InvalidInput> {
    let left = stored.end().saturating_sub(now.0).max(0).cast_unsigned();
    let put = Put::of(SESSIONS.entry(id.0.as_bytes())?, stored)?;
    Ok(put.expires(Duration::from_millis(left)))
}
