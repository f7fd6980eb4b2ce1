//! Access keys of the S3 port.

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Commit, Entry, EntryKey, EntryRange, Expect, Json, Outcome, Put, Rejection, Remember, Store,
    StoreError, Timestamp, Write, secret_text,
};

use crate::{BucketError, BucketName, KEY_BYTES_MAX};

const KEYS: &str = "access-key";

/// The permissions of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// Limits the key to this bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// Limits the key to blobs whose keys have this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Refuses writes.
    #[serde(default)]
    pub read_only: bool,
}

impl Scope {
    /// Whether the key has no limits.
    pub fn is_all(&self) -> bool {
        *self == Scope::default()
    }

    /// Whether the key may list a bucket with this prefix.
    pub fn covers_list(&self, bucket: &str, prefix: &str) -> bool {
        self.bucket.as_deref().is_none_or(|it| it == bucket)
            && self.prefix.as_deref().is_none_or(|it| prefix.starts_with(it))
    }

    /// Whether the key may read a blob.
    pub fn covers_blob(&self, bucket: &str, key: &str) -> bool {
        self.covers_list(bucket, key)
    }

    fn check(&self) -> Result<(), BucketError> {
        if let Some(bucket) = &self.bucket {
            BucketName::new(bucket)?;
        }
        if self.prefix.as_ref().is_some_and(|it| KEY_BYTES_MAX < it.len()) {
            let rule = "must have 1,024 bytes at most".into();
            return Err(BucketError::Argument { field: "prefix", rule });
        }
        Ok(())
    }
}

/// An access key with its secret. Signatures are checked with the secret, so it is stored as it is.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// Public id.
    pub id: String,
    /// Secret. It is shown once.
    pub secret: String,
    /// Permissions.
    pub scope: Scope,
    /// Time of creation.
    pub created_at: Timestamp,
}

impl std::fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessKey").field("id", &self.id).field("scope", &self.scope).finish()
    }
}

#[derive(Serialize, Deserialize)]
struct KeyRow {
    secret: String,
    #[serde(flatten)]
    scope: Scope,
}

/// Creates an access key. With an idempotency key it is created once: a repetition fails with
/// [`BucketError::Repeated`] and the id, because a secret is shown once.
pub async fn create_key(
    store: &dyn Store,
    scope: Scope,
    once: Option<Remember>,
) -> Result<AccessKey, BucketError> {
    scope.check()?;
    let id = format!("SF{}", secret_text(18, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")?);
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let secret = secret_text(40, letters)?;
    let entry = EntryKey::new(KEYS, id.as_bytes())?;
    let stored = KeyRow { secret: secret.clone(), scope: scope.clone() };
    let expect = Expect::Revision { entry: entry.clone(), revision: 0 };
    let put = Put { entry, value: Some(Json::of(&stored)?), reference: None, expires: None };
    let mut commit = Commit::of(Write::Put(put)).expect(expect);
    if let Some(once) = once {
        commit = commit.write(Write::Remember(once.reply(0, Json::of(&id)?)));
    }
    match store.commit(commit).await? {
        Outcome::Committed(it) => Ok(AccessKey { id, secret, scope, created_at: it.at }),
        Outcome::Duplicate(before) => Err(BucketError::repeated(&before)),
        Outcome::Rejected(Rejection::KeyReused { key }) => Err(BucketError::KeyReused { key }),
        // Random ids repeat only if the source of randomness is broken.
        Outcome::Rejected(_) => {
            let reason = "the system's random numbers repeat themselves".into();
            Err(StoreError::Corrupt { reason }.into())
        }
    }
}

/// An access key; `None` if it does not exist.
pub async fn find_key(store: &dyn Store, id: &str) -> Result<Option<AccessKey>, BucketError> {
    let Ok(entry) = EntryKey::new(KEYS, id.as_bytes()) else { return Ok(None) };
    let entry = store.entry(&entry).await?;
    Ok(entry.as_ref().map(read).transpose()?.flatten())
}

/// Access keys in the order of their ids, after one of them.
pub async fn list_keys(
    store: &dyn Store,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<AccessKey>, BucketError> {
    let range = EntryRange::prefix(b"");
    let range = match after {
        Some(after) => range.after(after.as_bytes()),
        None => range,
    };
    let entries = store.entries(KEYS, range, limit).await?;
    entries.iter().filter_map(|it| read(it).transpose()).collect()
}

/// Revokes an access key. Returns `false` if it does not exist.
pub async fn delete_key(store: &dyn Store, id: &str) -> Result<bool, BucketError> {
    if find_key(store, id).await?.is_none() {
        return Ok(false);
    }
    let entry = EntryKey::new(KEYS, id.as_bytes())?;
    let expires = Some(std::time::Duration::ZERO);
    let put = Put { entry, value: None, reference: None, expires };
    store.commit(Commit::of(Write::Put(put))).await?;
    Ok(true)
}

fn read(entry: &Entry) -> Result<Option<AccessKey>, BucketError> {
    let Some(value) = &entry.value else { return Ok(None) };
    let KeyRow { secret, scope } = serde_json::from_str(value.as_str()).map_err(|error| {
        let reason = format!("entry {:?} is not an access key: {error}", entry.entry);
        BucketError::Store(StoreError::Corrupt { reason })
    })?;
    let id = String::from_utf8_lossy(entry.entry.key()).into_owned();
    Ok(Some(AccessKey { id, secret, scope, created_at: entry.changed_at }))
}
