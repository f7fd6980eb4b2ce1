//! Tokens of organizations for HTTP access. The store holds only a hash of each.

use std::{collections::HashMap, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use steadfast_store::{
    Commit, EntryKey, EntryRange, InvalidInput, Json, Outcome, Put, Rejection, Store, StoreError,
    Timestamp, Write, secret_text,
};

use crate::{RequestKey, idempotency::read};

const SPACE: &str = "token";
/// Written with the first token and never removed: revoking the last token must not allow access
/// without a token.
const CLOSED: &[u8] = b"closed";
/// Characters of the name of an organization.
const ORGANIZATION_MAX: usize = 100;

/// The tokens of a store. Cheap to clone; all clones see a change immediately.
#[derive(Clone)]
pub struct Tokens {
    store: Arc<dyn Store>,
    cache: Arc<RwLock<Cache>>,
}

#[derive(Default)]
struct Cache {
    rules: Option<Arc<AccessRules>>,
    /// Counts invalidations: a read that began before one is not cached.
    forgotten: u64,
}

/// The cached access rules.
#[derive(Default)]
struct AccessRules {
    is_closed: bool,
    /// By their hashes.
    tokens: HashMap<String, Token>,
}

/// The stored part of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Identifies the token; it grants no access.
    pub id: String,
    /// The organization that it is for.
    pub organization: String,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A new token. It is shown once.
#[derive(Clone)]
pub struct NewToken {
    /// Its stored part.
    pub token: Token,
    /// The secret text that callers send.
    pub secret: String,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    id: String,
    organization: String,
}

/// Why access was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// There is no token, or it is unknown.
    #[error("a token is needed; send it as `Authorization: Bearer TOKEN`")]
    Unknown,
    /// The token is for another organization.
    #[error("this token is for another organization")]
    Foreign,
}

/// Why a token was not created, or access could not be checked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TokenError {
    /// Not the name of an organization.
    #[error(
        "`{organization}` cannot be an organization: 1 to {max} letters, digits, `.`, `_` and `-`, \
         not a `.` first",
        max = ORGANIZATION_MAX
    )]
    Organization {
        /// The text that was given.
        organization: String,
    },
    /// The key was used before, and its token cannot be shown again: only its hash is kept.
    #[error(
        "token `{id}` was created with this idempotency key, and its secret is not kept; revoke \
         it, and create another one with a new key"
    )]
    Repeated {
        /// The id of the token.
        id: String,
    },
    /// The key was used for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// Access was denied.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<InvalidInput> for TokenError {
    fn from(error: InvalidInput) -> Self {
        TokenError::Store(error.into())
    }
}

impl Tokens {
    /// The tokens of a store. Only this value and its clones may change them: a program has one,
    /// see [`Runtime::tokens`](crate::Runtime::tokens).
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, cache: Arc::default() }
    }

    /// Creates a token for an organization.
    pub async fn create(&self, organization: &str) -> Result<NewToken, TokenError> {
        self.create_keyed(organization, None).await
    }

    /// Creates a token for an organization, at most once for a key. A repetition fails with
    /// [`TokenError::Repeated`], which names the token: its secret is not stored.
    pub async fn create_keyed(
        &self,
        organization: &str,
        key: Option<&RequestKey>,
    ) -> Result<NewToken, TokenError> {
        if !is_organization(organization) {
            let organization = organization.into();
            return Err(TokenError::Organization { organization });
        }
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let (id, rest) = (secret_text(10, LETTERS)?, secret_text(52, LETTERS)?);
        let secret = format!("sf_{id}_{rest}");
        let entry = EntryKey::new(SPACE, hash(&secret).as_bytes())?;
        let stored = Stored { id: id.clone(), organization: organization.into() };
        let value = Some(Json::of(&stored)?);
        let put = Put { entry, value, reference: None, expires: None };
        let (entry, value) = (EntryKey::new(SPACE, CLOSED)?, Some(Json::of(&true)?));
        let closed = Put { entry, value, reference: None, expires: None };
        let mut commit = Commit::of(Write::Put(put)).write(Write::Put(closed));
        if let Some(key) = key {
            commit = commit.write(key.write_answer(&id)?);
        }
        let outcome = self.store.commit(commit).await?;
        self.forget();
        let created_at = match outcome {
            Outcome::Committed(receipt) => receipt.at,
            Outcome::Duplicate(before) => {
                return Err(TokenError::Repeated { id: read(&before)? });
            }
            Outcome::Rejected(Rejection::KeyReused { key }) => {
                return Err(TokenError::KeyReused { key });
            }
            Outcome::Rejected(rejection) => {
                return Err(StoreError::Corrupt { reason: rejection.to_string() }.into());
            }
        };
        let token = Token { id, organization: organization.into(), created_at };
        Ok(NewToken { token, secret })
    }

    /// Tokens after an id, in the order of their ids.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Token>, TokenError> {
        let rules = self.rules().await?;
        let behind = |it: &&Token| after.is_none_or(|after| after < it.id.as_str());
        let mut all: Vec<&Token> = rules.tokens.values().filter(behind).collect();
        all.sort_by_key(|it| &it.id);
        Ok(all.into_iter().take(limit).cloned().collect())
    }

    /// Revokes a token. `false` if there is none of this id.
    pub async fn revoke(&self, id: &str) -> Result<bool, TokenError> {
        let rules = self.rules().await?;
        let Some((hash, _)) = rules.tokens.iter().find(|(_, it)| it.id == id) else {
            return Ok(false);
        };
        let entry = EntryKey::new(SPACE, hash.as_bytes())?;
        let expires = Some(Duration::ZERO);
        let put = Put { entry, value: None, reference: None, expires };
        self.store.commit(Commit::of(Write::Put(put))).await?;
        self.forget();
        Ok(true)
    }

    /// Allows access with a token for the organization; without a token only until the first token
    /// is created.
    pub async fn check(&self, bearer: Option<&str>, organization: &str) -> Result<(), TokenError> {
        let rules = self.rules().await?;
        if !rules.is_closed {
            return Ok(());
        }
        // The lookup is by hash, so its duration reveals nothing about the secret.
        let found = bearer.and_then(|it| rules.tokens.get(&hash(it)));
        let found = found.ok_or(Denied::Unknown)?;
        if found.organization != organization {
            return Err(Denied::Foreign.into());
        }
        Ok(())
    }

    async fn rules(&self) -> Result<Arc<AccessRules>, TokenError> {
        let forgotten = {
            let cache = self.cache.read();
            if let Some(rules) = &cache.rules {
                return Ok(rules.clone());
            }
            cache.forgotten
        };
        let rules = Arc::new(self.read().await?);
        let mut cache = self.cache.write();
        if cache.forgotten == forgotten {
            cache.rules = Some(rules.clone());
        }
        Ok(rules)
    }

    async fn read(&self) -> Result<AccessRules, TokenError> {
        let mut rules = AccessRules::default();
        let mut last: Option<Vec<u8>> = None;
        loop {
            let range = EntryRange::prefix(b"");
            let range = match &last {
                Some(last) => range.after(last),
                None => range,
            };
            let page = self.store.entries(SPACE, range, 1_000).await?;
            let Some(end) = page.last() else { return Ok(rules) };
            last = Some(end.entry.key().to_vec());
            for entry in &page {
                let Some(value) = &entry.value else { continue };
                if entry.entry.key() == CLOSED {
                    rules.is_closed = true;
                    continue;
                }
                let Stored { id, organization } = serde_json::from_str(value.as_str())
                    .map_err(|error| StoreError::Corrupt { reason: error.to_string() })?;
                let token = Token { id, organization, created_at: entry.changed_at };
                let hash = String::from_utf8_lossy(entry.entry.key()).into_owned();
                rules.tokens.insert(hash, token);
            }
        }
    }

    fn forget(&self) {
        let mut cache = self.cache.write();
        cache.rules = None;
        cache.forgotten += 1;
    }
}

fn is_organization(text: &str) -> bool {
    let fits = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    (1..=ORGANIZATION_MAX).contains(&text.len()) && !text.starts_with('.') && text.chars().all(fits)
}

fn hash(token: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(token))
}

#[cfg(test)]
mod tests {
    use steadfast_store::{MemoryStore, SystemClock};

    use super::*;

    #[tokio::test]
    async fn everybody_is_let_in_until_there_is_a_token_and_then_only_its_organization() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let tokens = Tokens::new(store.clone());
        tokens.check(None, "acme").await.unwrap();
        let made = tokens.create("acme").await.unwrap();
        let denied = async |bearer: Option<&str>, organization: &str| {
            tokens.check(bearer, organization).await.err().map(|it| it.to_string())
        };
        assert_eq!(denied(Some(&made.secret), "acme").await, None);
        assert_eq!(denied(None, "acme").await, Some(Denied::Unknown.to_string()));
        assert_eq!(denied(Some("sf_x_y"), "acme").await, Some(Denied::Unknown.to_string()));
        let foreign = denied(Some(&made.secret), "other").await;
        assert_eq!(foreign, Some(Denied::Foreign.to_string()));
        // The next process has it too, and the store does not hold the secret.
        let next = Tokens::new(store.clone());
        next.check(Some(&made.secret), "acme").await.unwrap();
        let rows = store.dump().await.unwrap().rows.join("\n");
        assert!(!rows.contains(&made.secret));
        assert!(tokens.revoke(&made.token.id).await.unwrap());
        assert!(!tokens.revoke(&made.token.id).await.unwrap());
        assert_eq!(denied(None, "acme").await, Some(Denied::Unknown.to_string()), "still closed");
        assert_eq!(Tokens::new(store).list(None, 9).await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_token_is_for_an_organization_that_can_be_one() {
        let tokens = Tokens::new(Arc::new(MemoryStore::new(Arc::new(SystemClock))));
        for bad in ["", ".", "a/b", "a b", &"x".repeat(101)] {
            let error = tokens.create(bad).await.err().unwrap();
            assert!(matches!(error, TokenError::Organization { .. }), "{bad}");
        }
    }
}
