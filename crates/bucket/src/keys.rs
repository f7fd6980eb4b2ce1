//! Access keys of the S3 port.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Commit, Entry, EntryKey, EntryRange, Expect, InvalidInput, Json, Outcome, Put, Record,
    Rejection, Remember, Seal, SealError, Secret, Store, StoreError, Timestamp, Write, identity_of,
    secret_text,
};

use crate::{BucketError, BucketName, KEY_BYTES_MAX, buckets::Pages, error::wrong};

const KEYS: &str = "access-key";

/// Last uses, by the id of the key. Apart from the keys, so that a use changes no key.
const USED: &str = "access-key-used";

/// A use is forgotten after this time.
const USE_KEPT: Duration = Duration::from_hours(400 * 24);

/// Keys that have expired are listed for this time, and then deleted.
const EXPIRED_KEPT: Duration = Duration::from_hours(30 * 24);

/// Characters of the name of an access key or a token.
const LABEL_MAX: usize = 100;

/// Whether a text can be the name of an access key or a token: 1 to 100 letters, digits, spaces
/// and ASCII punctuation.
pub fn is_label(text: &str) -> bool {
    let fits = |it: char| it.is_alphanumeric() || it.is_ascii_graphic() || it == ' ';
    (1..=LABEL_MAX).contains(&text.chars().count()) && text.trim() == text && text.chars().all(fits)
}

/// The permissions of a key, and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyScope {
    /// The name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Limits the key to this bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
    /// Limits the key to blobs whose keys have this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Refuses writes.
    #[serde(default)]
    pub read_only: bool,
    /// The organization that the key belongs to. Its blobs have keys that begin with its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organization: Option<String>,
    /// When the key expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
}

impl KeyScope {
    /// Whether the key has no limits.
    pub fn is_all(&self) -> bool {
        let KeyScope { name, expires_at, .. } = self.clone();
        *self == KeyScope { name, expires_at, ..KeyScope::default() }
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
        if self.name.as_ref().is_some_and(|it| !is_label(it)) {
            let rule = "must be 1 to 100 letters, digits, spaces and ASCII punctuation";
            return Err(wrong("name", rule));
        }
        if let Some(bucket) = &self.bucket {
            BucketName::new(bucket)?;
        }
        if self.prefix.as_ref().is_some_and(|it| KEY_BYTES_MAX < it.len()) {
            return Err(wrong("prefix", "must have 1,024 bytes at most"));
        }
        if let Some(organization) = &self.organization {
            let own = format!("{organization}/");
            if self.bucket.is_none() {
                return Err(wrong("bucket", "is required for a key of an organization"));
            }
            if organization.is_empty() || organization.contains('/') {
                return Err(wrong("organization", "must be a name without slashes"));
            }
            if !self.prefix.as_ref().is_some_and(|it| it.starts_with(&own)) {
                let rule = format!("must begin with `{own}`: the key is for this organization");
                return Err(wrong("prefix", &rule));
            }
        }
        Ok(())
    }
}

/// An access key with its secret. Signatures are checked with the secret, so it is stored, sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKey {
    /// Public id.
    pub id: String,
    /// Secret. It is shown once.
    pub secret: Secret,
    /// Permissions.
    pub scope: KeyScope,
    /// Time of creation.
    pub created_at: Timestamp,
}

/// An access key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Key))]
pub struct KeyInfo {
    /// Its id.
    #[serde(rename = "accessKeyId")]
    pub id: String,
    /// Its name; null for none.
    pub name: Option<String>,
    /// The only bucket that it allows; null for all.
    pub bucket: Option<String>,
    /// Prefix of the keys that it allows; null for all.
    pub prefix: Option<String>,
    /// Whether it allows only reads.
    pub read_only: bool,
    /// The organization that it belongs to; null for none.
    pub organization: Option<String>,
    /// When it was created.
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: Timestamp,
    /// When it expires; null for never.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute; null for never, and for a new key.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub last_used_at: Option<Timestamp>,
}

impl KeyInfo {
    /// A key that was not used yet.
    pub fn of(id: String, scope: KeyScope, created_at: Timestamp) -> Self {
        let KeyScope { name, bucket, prefix, read_only, organization, expires_at } = scope;
        let (expires_at, last_used_at) = (expires_at.map(Timestamp), None);
        Self {
            id,
            name,
            bucket,
            prefix,
            read_only,
            organization,
            created_at,
            expires_at,
            last_used_at,
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct KeyRow {
    /// Sealed.
    secret: String,
    #[serde(flatten)]
    scope: KeyScope,
    /// The time of creation, if the row was changed since then.
    #[serde(default, rename = "createdAt", skip_serializing_if = "Option::is_none")]
    created_at: Option<i64>,
    /// The id of the key that a rotation created.
    #[serde(default, rename = "replacedBy", skip_serializing_if = "Option::is_none")]
    replaced_by: Option<String>,
}

impl KeyRow {
    /// Writes the row, which goes some time after the key has expired.
    fn put(&self, entry: EntryKey, now: Timestamp) -> Result<Put, InvalidInput> {
        let expires = self.scope.expires_at.map(|it| Timestamp(it).after(EXPIRED_KEPT).since(now));
        Ok(Put { expires, ..Put::of(entry, self)? })
    }
}

/// Creates an access key. With an idempotency key it is created once: a repetition fails with
/// [`BucketError::Repeated`] and the id, because a secret is shown once.
#[steadfast_store::boxed]
pub async fn create_key(
    store: &dyn Store,
    seal: &Seal,
    scope: KeyScope,
    once: Option<Remember>,
) -> Result<AccessKey, BucketError> {
    scope.check()?;
    let NewSecret { id, secret, entry, sealed } = new_secret(seal)?;
    let (created_at, replaced_by) = (None, None);
    let stored = KeyRow { secret: sealed, scope: scope.clone(), created_at, replaced_by };
    let expect = Expect::Revision { entry: entry.clone(), revision: 0 };
    let put = stored.put(entry, store.clock().now())?;
    let mut commit = Commit::of(Write::Put(put)).expect(expect);
    if let Some(once) = once {
        commit = commit.write(Write::Remember(once.reply(0, Json::of(&id)?)));
    }
    match store.commit(commit).await? {
        Outcome::Committed(it) => {
            Ok(AccessKey { id, secret: secret.into(), scope, created_at: it.at })
        }
        Outcome::Duplicate(before) => Err(BucketError::repeated(&before)),
        Outcome::Rejected(Rejection::KeyReused { key }) => Err(BucketError::KeyReused { key }),
        // Random ids repeat only if the source of randomness is broken.
        Outcome::Rejected(_) => {
            let reason = "the system's random numbers repeat themselves".into();
            Err(StoreError::Corrupt { reason }.into())
        }
    }
}

/// The id and the secret of a new key.
struct NewSecret {
    id: String,
    secret: String,
    entry: EntryKey,
    sealed: String,
}

fn new_secret(seal: &Seal) -> Result<NewSecret, BucketError> {
    let id = format!("SF{}", secret_text(18, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")?);
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let secret = secret_text(40, letters)?;
    let entry = EntryKey::new(KEYS, id.as_bytes())?;
    let sealed = seal.seal(&identity_of(&entry), &secret)?;
    Ok(NewSecret { id, secret, entry, sealed })
}

/// Creates an access key with the scope and the expiry of another one, which ends after an overlap
/// at the latest. `None` if there is no such key, or it has expired. A key that was replaced is
/// refused: another key would end with the overlap.
#[steadfast_store::boxed]
pub async fn rotate_key(
    store: &dyn Store,
    seal: &Seal,
    id: &str,
    overlap: Duration,
) -> Result<Option<AccessKey>, BucketError> {
    let Ok(old) = EntryKey::new(KEYS, id.as_bytes()) else { return Ok(None) };
    loop {
        let mut found = Record::<KeyRow>::read(store, old.clone()).await?;
        let Some(mut row) = found.value.take() else { return Ok(None) };
        let (now, expires_at) = (store.clock().now(), row.scope.expires_at);
        if expires_at.is_some_and(|it| it <= now.0) {
            return Ok(None);
        }
        if let Some(by) = row.replaced_by.take() {
            return Err(BucketError::Replaced { id: id.to_owned(), by });
        }
        let NewSecret { id, secret, entry, sealed } = new_secret(seal)?;
        let scope = row.scope.clone();
        let new = KeyRow { secret: sealed, created_at: None, ..row.clone() };
        let new = new.put(entry, now)?;
        let ends = now.after(overlap).0;
        row.scope.expires_at = Some(expires_at.map_or(ends, |it| it.min(ends)));
        row.created_at = Some(row.created_at.unwrap_or(found.changed_at.0));
        row.replaced_by = Some(id.clone());
        let commit = found.put(row.put(old.clone(), now)?).write(Write::Put(new));
        if let Outcome::Committed(it) = store.commit(commit).await? {
            return Ok(Some(AccessKey { id, secret: secret.into(), scope, created_at: it.at }));
        }
    }
}

/// Writes that a key was used now.
#[steadfast_store::boxed]
pub async fn note_key_use(store: &dyn Store, id: &str) -> Result<(), BucketError> {
    let put = Put::of(EntryKey::new(USED, id.as_bytes())?, &true)?.expires(USE_KEPT);
    store.commit(Commit::of(Write::Put(put))).await?;
    Ok(())
}

/// An access key; `None` if it does not exist or has expired.
#[steadfast_store::boxed]
pub async fn find_key(
    store: &dyn Store,
    seal: &Seal,
    id: &str,
) -> Result<Option<AccessKey>, BucketError> {
    let Ok(entry) = EntryKey::new(KEYS, id.as_bytes()) else { return Ok(None) };
    let Some(found) = store.entry(&entry).await? else { return Ok(None) };
    let Some(row) = found.parse::<KeyRow>()? else { return Ok(None) };
    let now = store.clock().now().0;
    if row.scope.expires_at.is_some_and(|it| it <= now) {
        return Ok(None);
    }
    let secret = seal.open(&identity_of(&entry), &row.secret)?;
    let (id, created_at) = origin_of(&found, &row);
    Ok(Some(AccessKey { id, secret, scope: row.scope, created_at }))
}

/// Access keys in the order of their ids, after one of them, with their last uses.
#[steadfast_store::boxed]
pub async fn list_keys(
    store: &dyn Store,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<KeyInfo>, BucketError> {
    let mut listed = Vec::new();
    let range = EntryRange::prefix(b"").after(after.unwrap_or_default().as_bytes());
    for found in store.entries(KEYS, range, limit).await? {
        let Some(row) = found.parse()? else { continue };
        let used = store.entry(&EntryKey::new(USED, found.entry.key())?).await?;
        let last_used_at = used.map(|it| it.changed_at);
        let (id, created_at) = origin_of(&found, &row);
        listed.push(KeyInfo { last_used_at, ..KeyInfo::of(id, row.scope, created_at) });
    }
    Ok(listed)
}

/// Revokes an access key. Returns `false` if it does not exist.
#[steadfast_store::boxed]
pub async fn delete_key(store: &dyn Store, id: &str) -> Result<bool, BucketError> {
    let Ok(entry) = EntryKey::new(KEYS, id.as_bytes()) else { return Ok(false) };
    if store.entry(&entry).await?.is_none_or(|it| it.value.is_none()) {
        return Ok(false);
    }
    store.commit(Commit::of(Write::Put(Put::removal(entry, Duration::ZERO)))).await?;
    Ok(true)
}

/// The ids of the access keys that were created before a time. A row that cannot be read is left
/// out: its key is refused as well.
#[steadfast_store::boxed]
pub async fn older_keys(store: &dyn Store, before: Timestamp) -> Result<Vec<String>, BucketError> {
    let (mut pages, mut older) = (pages(store), Vec::new());
    while let Some(page) = pages.next().await? {
        for found in &page {
            match found.parse() {
                Ok(row) => {
                    let key = row.map(|it| origin_of(found, &it));
                    older.extend(key.filter(|it| it.1 < before).map(|it| it.0));
                }
                Err(error) => tracing::warn!(%error, "an access key cannot be read"),
            }
        }
    }
    Ok(older)
}

/// Revokes the access keys that were created before a time, each in a commit of its own. Returns
/// their number.
#[steadfast_store::boxed]
pub async fn delete_older_keys(store: &dyn Store, before: Timestamp) -> Result<usize, BucketError> {
    let mut count = 0;
    for id in older_keys(store, before).await? {
        count += usize::from(delete_key(store, &id).await?);
    }
    Ok(count)
}

/// Seals again the secrets that an earlier key sealed, each in a commit of its own. Returns their
/// number. Both forms are valid, so a crash in the middle does no harm.
#[steadfast_store::boxed]
pub async fn seal_keys(store: &dyn Store, seal: &Seal) -> Result<usize, BucketError> {
    let (mut pages, mut count) = (pages(store), 0);
    while let Some(page) = pages.next().await? {
        for found in &page {
            if let Some(row) = found.parse()? {
                count += usize::from(seal_row(store, seal, found, row).await?);
            }
        }
    }
    Ok(count)
}

async fn seal_row(
    store: &dyn Store,
    seal: &Seal,
    found: &Entry,
    row: KeyRow,
) -> Result<bool, BucketError> {
    let entry = found.entry.clone();
    let sealed = match seal.reseal(&identity_of(&entry), &row.secret) {
        Ok(None) => return Ok(false),
        Ok(Some(sealed)) => sealed,
        Err(error @ (SealError::KeyMissing { .. } | SealError::Changed { .. })) => {
            tracing::warn!(%error, key = ?entry, "an access key cannot be used; revoke it");
            return Ok(false);
        }
        Err(error @ SealError::Failed { .. }) => return Err(error.into()),
    };
    let created_at = Some(row.created_at.unwrap_or(found.changed_at.0));
    let row = KeyRow { secret: sealed, created_at, ..row };
    let expect = Expect::Revision { entry: entry.clone(), revision: found.revision };
    let put = row.put(entry, store.clock().now())?;
    // A key that was revoked meanwhile stays revoked.
    let outcome = store.commit(Commit::of(Write::Put(put)).expect(expect)).await?;
    Ok(matches!(outcome, Outcome::Committed(_)))
}

fn pages(store: &dyn Store) -> Pages<'_> {
    Pages::new(store, KEYS.to_owned(), EntryRange::prefix(b""))
}

/// The id of a key, and the time of its creation.
fn origin_of(entry: &Entry, row: &KeyRow) -> (String, Timestamp) {
    let id = String::from_utf8_lossy(entry.entry.key()).into_owned();
    (id, row.created_at.map_or(entry.changed_at, Timestamp))
}
