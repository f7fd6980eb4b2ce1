//! Tokens: the credentials of principals. The store has only a hash of each.

mod change;
mod token;

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use steadfast_store::{
    Commit, EntryKey, EntryRange, InvalidInput, Put, RowCache, Store, StoreClock, Timestamp, Write,
    futures::FutureExt, sort::sort_by_key,
};
use tokio::sync::watch;

pub use self::token::{Denied, NewToken, Token, TokenError, TokenSpec, is_organization};
use self::token::{SPACE, Stored};
use super::{Principal, scope::hash};

/// Last uses, by the id of the token. Apart from the tokens, so that a use changes no token.
const USED: &str = "token-used";
/// Exists since the first token was created, and stays: revoking the last token opens nothing.
const CLOSED: &[u8] = b"closed";
/// The last use of a token is written at most once in this time.
const USE_WRITTEN: Duration = Duration::from_secs(60);
/// The time until a store that cannot be read is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// The longest wait for an end before it is determined again.
const WAIT_MAX: Duration = Duration::from_hours(24);
/// A use is forgotten after this time.
const USE_KEPT: Duration = Duration::from_hours(400 * 24);

/// The tokens of a store. Cheap to clone; all clones see a change at once.
#[derive(Clone)]
pub struct Tokens {
    store: Arc<dyn Store>,
    cache: Arc<RowCache<(), Arc<TokenMap>>>,
    /// The creator whose tokens do not expire here.
    unexpiring: Arc<RwLock<Option<String>>>,
    /// One read of all tokens at a time.
    reading: Arc<tokio::sync::Mutex<()>>,
    /// When the last use of a token was last written.
    used: Arc<Mutex<HashMap<String, Timestamp>>>,
    /// Counts changes, for connections that must end with their token.
    changes: Arc<watch::Sender<u64>>,
}

/// The tokens of a store with all changes until it was taken.
pub struct TokenSnapshot<'a> {
    tokens: &'a Tokens,
    map: Arc<TokenMap>,
}

/// All tokens of the store.
#[derive(Default)]
struct TokenMap {
    is_closed: bool,
    by_hash: HashMap<String, Token>,
}

/// Waits for an end that `end` returns: `None` once it has come. It is determined again at each
/// change, and a store that cannot be read is asked again.
pub(super) async fn until_end<E: Future<Output = Result<Option<Timestamp>, TokenError>>>(
    mut changes: watch::Receiver<u64>,
    clock: &StoreClock,
    end: impl Fn() -> E,
) {
    loop {
        changes.borrow_and_update();
        let rest = match end().await {
            Ok(None) => return,
            Ok(Some(end)) => end.since(clock.now()),
            Err(_) => RETRY,
        };
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return },
            () = clock.sleep(rest.clamp(Duration::from_millis(1), WAIT_MAX)) => {}
        }
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
        let (cache, unexpiring) = (Arc::default(), Arc::default());
        let (reading, used) = (Arc::default(), Arc::default());
        Self { store, cache, unexpiring, reading, used, changes: Arc::new(changes) }
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
        let map = self.tokens().await?;
        TokenSnapshot { tokens: self, map }.authenticate(secret)
    }

    /// The tokens with all changes so far.
    #[steadfast_store::boxed]
    pub async fn snapshot<'a>(&'a self) -> Result<TokenSnapshot<'a>, TokenError> {
        Ok(TokenSnapshot { tokens: self, map: self.tokens().await? })
    }

    /// The same without waiting: `None` if the tokens are not in memory with all changes so far.
    pub fn snapshot_in_memory(&self) -> Option<TokenSnapshot<'_>> {
        let map = self.cache.find(&()).ok()?;
        Some(TokenSnapshot { tokens: self, map })
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
        let end = move || async move {
            let (tokens, now) = (self.tokens().await?, self.store.clock().now());
            let token = tokens.by_hash.values().find(|it| it.id == principal.token);
            let is_same = |it: &&Token| it.created_at == principal.issued_at;
            let valid = token.filter(is_same).filter(|it| it.principal(now).is_ok());
            Ok::<_, TokenError>(valid.map(|it| it.expires_at.unwrap_or(Timestamp::MAX)))
        };
        until_end(self.changes(), self.store.clock(), end).await;
    }

    /// Whether requests need a credential: from the first token on, or since [`Tokens::close`].
    #[steadfast_store::boxed]
    pub async fn is_closed(&self) -> Result<bool, TokenError> {
        Ok(self.tokens().await?.is_closed)
    }

    /// From now on, tokens of a creator do not expire in this process: nobody renews those of a
    /// store that is only read.
    pub fn ignore_expiry_of(&self, creator: &str) {
        *self.unexpiring.write() = Some(creator.to_owned());
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
            let put = Put::of(EntryKey::new(USED, id.as_bytes())?, &true)?;
            Ok(Commit::of(Write::Put(put.expires(USE_KEPT))))
        };
        if let Ok(commit) = put() {
            let store = self.store.clone();
            tokio::spawn(async move { store.commit(commit).await }.boxed());
        }
    }

    async fn tokens(&self) -> Result<Arc<TokenMap>, TokenError> {
        if let Ok(tokens) = self.cache.find(&()) {
            return Ok(tokens);
        }
        let _one_at_a_time = self.reading.lock().await;
        // Another caller may have read them meanwhile.
        let forgotten = match self.cache.find(&()) {
            Ok(tokens) => return Ok(tokens),
            Err(forgotten) => forgotten,
        };
        let tokens = Arc::new(self.read().await?);
        self.cache.learn((), tokens.clone(), forgotten);
        Ok(tokens)
    }

    async fn read(&self) -> Result<TokenMap, TokenError> {
        let mut tokens = TokenMap::default();
        let unexpiring = self.unexpiring.read().clone();
        let mut last = Vec::new();
        loop {
            let range = EntryRange::prefix(b"").after(&last);
            let page = self.store.entries(SPACE, range, 1_000).await?;
            let Some(end) = page.last() else { return Ok(tokens) };
            last = end.entry.key().to_vec();
            for entry in &page {
                if entry.entry.key() == CLOSED {
                    tokens.is_closed = true;
                    continue;
                }
                let Some(stored) = entry.parse::<Stored>()? else { continue };
                let mut token = stored.token();
                if unexpiring.is_some() && token.created_by == unexpiring {
                    token.expires_at = None;
                }
                let hash = String::from_utf8_lossy(entry.entry.key()).into_owned();
                tokens.by_hash.insert(hash, token);
            }
        }
    }

    fn changed(&self) {
        self.cache.forget(&());
        let now = self.store.clock().now();
        self.used.lock().retain(|_, at| now < at.after(USE_WRITTEN));
        self.changes.send_modify(|it| *it += 1);
    }
}

impl TokenSnapshot<'_> {
    /// Whether requests need a credential: from the first token on, or since [`Tokens::close`].
    pub fn is_closed(&self) -> bool {
        self.map.is_closed
    }

    /// Finds the principal of a credential.
    pub fn authenticate(&self, secret: &str) -> Result<Principal, TokenError> {
        let now = self.tokens.store.clock().now();
        // The token is found by its hash, so that the time it takes says nothing about it.
        let token = self.map.by_hash.get(&hash(secret)).ok_or(Denied::Unknown)?;
        let principal = token.principal(now)?;
        self.tokens.note_use(&token.id, now);
        Ok(principal)
    }
}
