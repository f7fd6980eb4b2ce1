//! Idempotency keys of requests: how a key is recorded and found.
//!
//! A key is recorded in the commit of its operation. A crash leaves both or neither, so a
//! repetition either finds the first answer or performs the operation.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use steadfast_store::{
    Address, Code, EntityId, EntityKind, InvalidInput, Json, Outcome, RecordedKey, Rejection,
    Remember, Store, StoreError, Write,
};
use tokio::sync;

/// An idempotency key with its scope: the operation, the principal, and a hash of the request. The
/// same key with another request is [refused](KeyError::Reused); another operation or principal has
/// keys of its own. A key is valid for 24 hours.
///
/// Handles such as [`Queues::keyed`](crate::Queues::keyed) record it in the commit of the change
/// that they make.
#[derive(Clone, Debug)]
pub struct RequestKey(Remember);

impl RequestKey {
    /// A key of a request to an operation. `request` is the body together with everything else that
    /// distinguishes two requests, such as the values of the path.
    ///
    /// Without a principal the scope is that of all requests without one.
    pub fn new(
        operation: &str,
        principal: Option<&str>,
        key: &str,
        request: &[u8],
    ) -> Result<Self, InvalidInput> {
        let scope = match principal {
            None => Address::new(EntityKind::System, "http", operation)?,
            Some(it) => Address::new(EntityKind::System, "http", &format!("{operation} {it}"))?,
        };
        Self::within(scope.id(), key, request)
    }

    /// A key within an entity that has keys of its own.
    pub(crate) fn within(scope: EntityId, key: &str, request: &[u8]) -> Result<Self, InvalidInput> {
        Remember::new(scope, key, request).map(Self)
    }

    /// Records this answer, for an operation whose caller makes the answer.
    pub fn answering(self, answer: &impl Serialize) -> Result<Self, InvalidInput> {
        Ok(Self(self.0.reply(0, Json::of(answer)?)))
    }

    /// The record for operations below this crate.
    pub fn into_remember(self) -> Remember {
        self.0
    }

    /// The write that records the key.
    pub fn write(&self) -> Write {
        Write::Remember(self.0.clone())
    }

    /// The write that records the key with an answer.
    pub fn write_answer(&self, answer: &impl Serialize) -> Result<Write, InvalidInput> {
        Ok(self.clone().answering(answer)?.write())
    }

    /// The record of the key, if the request was performed before.
    #[steadfast_store::boxed]
    pub async fn find(&self, store: &dyn Store) -> Result<Option<RecordedKey>, KeyError> {
        match store.commit(self.0.clone().probe()).await? {
            Outcome::Duplicate(before) => Ok(Some(before)),
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(KeyError::Reused { key }),
            Outcome::Rejected(_) | Outcome::Committed(_) => Ok(None),
        }
    }

    /// The answer that was recorded with the key, if the request was performed before.
    pub async fn answer<T: DeserializeOwned>(
        &self,
        store: &dyn Store,
    ) -> Result<Option<T>, KeyError> {
        let before = self.find(store).await?;
        Ok(before.map(|it| read(&it)).transpose()?)
    }
}

/// Serializes requests with one key, so that the second finds the answer of the first before it
/// changes anything. Each key in use has a lock of its own: a request that hangs delays no other.
#[derive(Default)]
pub(crate) struct KeyLocks(Mutex<HashMap<KeyIdentity, Arc<sync::Mutex<()>>>>);

/// Scope and key.
type KeyIdentity = (EntityId, Box<str>);

impl KeyLocks {
    pub(crate) async fn lock(&self, key: &RequestKey) -> KeyGuard<'_> {
        let (scope, key) = key.0.identity();
        let identity = (scope, key.into());
        let lock = self.0.lock().entry(identity.clone()).or_default().clone();
        let mut guard = KeyGuard { locks: self, identity, held: None };
        guard.held = Some(lock.lock_owned().await);
        guard
    }
}

/// The lock of a key, held or awaited.
pub(crate) struct KeyGuard<'a> {
    locks: &'a KeyLocks,
    identity: KeyIdentity,
    held: Option<sync::OwnedMutexGuard<()>>,
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        // Under the lock of the map, so that nobody begins to wait meanwhile.
        let mut locks = self.locks.0.lock();
        self.held.take();
        if locks.get(&self.identity).is_some_and(|it| Arc::strong_count(it) == 1) {
            locks.remove(&self.identity);
        }
    }
}

/// Reads the answer that was recorded with a key.
pub(crate) fn read<T: DeserializeOwned>(before: &RecordedKey) -> Result<T, StoreError> {
    let reply = before.reply.as_ref().map_or("null", Json::as_str);
    serde_json::from_str(reply).map_err(|error| {
        let reason = format!("the answer that was recorded with a key: {error}");
        StoreError::Corrupt { reason }
    })
}

/// Why a key cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KeyError {
    /// The key was used for another request.
    #[error("idempotency key `{key}` was used for another request; use a new key")]
    Reused {
        /// The key.
        key: String,
    },
    /// The store could not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl KeyError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            KeyError::Reused { .. } => Code::KeyReused,
            KeyError::Store(error) => error.kind(),
        }
    }
}
