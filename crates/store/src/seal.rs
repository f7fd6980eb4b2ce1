//! Secrets at rest. A secret that the program must read again is stored sealed: encrypted with a
//! key that is in a file and never in the store.
//!
//! A sealed text is `sealed:` and the base64 of a version byte, the fingerprint of the key, a nonce
//! and the ciphertext (XChaCha20-Poly1305). The identity of its row is authenticated too, so a text
//! that was moved to another row cannot be opened there.

mod file;
#[cfg(test)]
mod tests;

use std::{fmt, path::Path, sync::Arc};

use chacha20poly1305::{
    KeyInit as _, XChaCha20Poly1305,
    aead::{Aead, Payload},
};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use hmac::{Hmac, Mac};
use sha2::Sha256;

use self::file::KEY_BYTES;
pub use self::file::SealFile;
use crate::{
    Code, EntryKey, Outcome, Record, Records, Store, StoreError,
    secret::{Secret, random_bytes},
};

/// The fingerprint of the store's key is one of them.
const SYSTEM: Records<String> = Records::new("system");

/// Sealed texts begin with this.
const PREFIX: &str = "sealed:";

/// The format of a sealed text.
const VERSION: u8 = 1;

const FINGERPRINT_BYTES: usize = 8;
const NONCE_BYTES: usize = 24;

/// Seals secrets and opens them. Clones share their keys.
#[derive(Clone)]
pub struct Seal(Arc<State>);

struct State {
    /// The first key seals; the others only open. Empty if there is no usable key.
    keys: Vec<Key>,
    /// The reason why there is no key.
    missing: String,
    file: Option<SealFile>,
}

struct Key {
    bytes: [u8; KEY_BYTES],
    fingerprint: [u8; FINGERPRINT_BYTES],
}

/// A secret that cannot be sealed or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The key is missing, or it is another one.
    #[error("{reason}")]
    KeyMissing {
        /// Which key is expected, where it is looked for, and what to do.
        reason: String,
    },
    /// The sealed text was changed, or belongs to another row.
    #[error("the sealed secret of `{identity}` was changed, or it belongs to another row")]
    Changed {
        /// The row.
        identity: String,
    },
    /// The system gives no random numbers.
    #[error("nothing can be sealed: {reason}")]
    Failed {
        /// The reason.
        reason: String,
    },
}

impl SealError {
    /// The code of the platform.
    pub fn kind(&self) -> Code {
        match self {
            SealError::KeyMissing { .. } => Code::SealKeyMissing,
            SealError::Changed { .. } => Code::Corrupt,
            SealError::Failed { .. } => Code::StoreUnavailable,
        }
    }
}

impl Seal {
    /// Loads the key of a store. The store has the fingerprint of its key. If it has none yet, the
    /// key of the file becomes its key; a file in a data folder is created first. A wrong or
    /// missing key is no error here: each use of a secret reports it.
    #[crate::boxed]
    pub async fn load(store: &dyn Store, file: SealFile) -> Result<Self, StoreError> {
        let expected = recorded(store).await?.value;
        let is_first = expected.is_none();
        let (at, replaces) = (file.clone(), file.replaces);
        let read = move || at.read_or_create(is_first || replaces);
        let read = tokio::task::spawn_blocking(read).await;
        let read = read.unwrap_or_else(|error| Err(error.to_string()));
        let keys: Vec<Key> = match read {
            Ok(keys) => keys.into_iter().map(Key::new).collect(),
            Err(problem) => {
                return Ok(Self::without_key(file.missing(expected.as_deref(), &problem), file));
            }
        };
        let is_known = |it: &String| keys.iter().any(|key| key.name() == *it);
        let first = keys.first().map(Key::name).unwrap_or_default();
        if let Some(expected) = expected.as_ref().filter(|it| !is_known(it) && !replaces) {
            let problem = format!("it has key {first}");
            return Ok(Self::without_key(file.missing(Some(expected), &problem), file));
        }
        let is_rotation = expected.as_ref().is_some_and(is_known);
        let seal = Self(Arc::new(State { keys, missing: String::new(), file: Some(file) }));
        // After a rotation the fingerprint follows when all secrets are sealed again.
        if !is_rotation {
            match seal.record(store).await {
                // The next start records it.
                Ok(()) | Err(StoreError::DiskFull | StoreError::ReadOnly) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(seal)
    }

    /// Seals with this key, which is in no file.
    pub fn of_key(key: [u8; KEY_BYTES]) -> Self {
        Self(Arc::new(State { keys: vec![Key::new(key)], missing: String::new(), file: None }))
    }

    /// Seals with a random key that ends with this process: for a program in memory.
    pub fn random() -> Result<Self, StoreError> {
        Ok(Self::of_key(random_bytes()?))
    }

    /// Refuses every use, because the program names no key.
    pub fn none() -> Self {
        let missing = "this program names no key that seals secrets; open it on a data folder, or \
                       name a key file";
        Self(Arc::new(State { keys: Vec::new(), missing: missing.into(), file: None }))
    }

    fn without_key(missing: String, file: SealFile) -> Self {
        Self(Arc::new(State { keys: Vec::new(), missing, file: Some(file) }))
    }

    /// The path of the key file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_ref().map(|it| &*it.path)
    }

    /// The fingerprint of the key that seals.
    pub fn fingerprint(&self) -> Result<String, SealError> {
        Ok(self.key()?.name())
    }

    fn key(&self) -> Result<&Key, SealError> {
        let missing = || SealError::KeyMissing { reason: self.0.missing.clone() };
        self.0.keys.first().ok_or_else(missing)
    }

    /// Seals a secret for the row with this identity.
    pub fn seal(&self, identity: &str, secret: &str) -> Result<String, SealError> {
        let key = self.key()?;
        let failed = |reason: String| SealError::Failed { reason };
        let nonce: [u8; NONCE_BYTES] = random_bytes().map_err(|it| failed(it.to_string()))?;
        let head = [&[VERSION], &key.fingerprint[..]].concat();
        let aad = [&head, identity.as_bytes()].concat();
        let payload = Payload { msg: secret.as_bytes(), aad: &aad };
        let sealed = key.cipher().encrypt(&nonce.into(), payload);
        let sealed = sealed.map_err(|error| failed(error.to_string()))?;
        let bytes = [&head[..], &nonce, &sealed].concat();
        Ok(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes)))
    }

    /// Opens the secret of the row with this identity.
    pub fn open(&self, identity: &str, text: &str) -> Result<Secret, SealError> {
        let changed = || SealError::Changed { identity: identity.into() };
        let sealed = text.strip_prefix(PREFIX).ok_or_else(changed)?;
        let bytes = BASE64URL_NOPAD.decode(sealed.as_bytes()).map_err(|_| changed())?;
        let split = bytes.split_at_checked(1 + FINGERPRINT_BYTES);
        let (head, rest) = split.filter(|it| it.0[0] == VERSION).ok_or_else(changed)?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(changed)?;
        self.key()?;
        let Some(key) = self.0.keys.iter().find(|it| it.fingerprint == head[1..]) else {
            let expected = HEXLOWER.encode(&head[1..]);
            let reason = match &self.0.file {
                Some(file) => file.missing(Some(&expected), "it does not have that key"),
                None => format!("this secret is sealed with key {expected}, which is not known"),
            };
            return Err(SealError::KeyMissing { reason });
        };
        let aad = [head, identity.as_bytes()].concat();
        let payload = Payload { msg: sealed, aad: &aad };
        let opened = key.cipher().decrypt(&(*nonce).into(), payload).map_err(|_| changed())?;
        String::from_utf8(opened).map(Secret::from).map_err(|_| changed())
    }

    /// The text as it must be stored now, if it is sealed with an earlier key.
    pub fn reseal(&self, identity: &str, text: &str) -> Result<Option<String>, SealError> {
        let key = self.key()?;
        let head = text.strip_prefix(PREFIX).and_then(|it| {
            let bytes = BASE64URL_NOPAD.decode(it.as_bytes()).ok()?;
            bytes.get(1..1 + FINGERPRINT_BYTES).map(<[u8]>::to_vec)
        });
        if head.is_some_and(|it| it == key.fingerprint) {
            return Ok(None);
        }
        let secret = self.open(identity, text)?;
        self.seal(identity, secret.expose()).map(Some)
    }

    /// Keys for another purpose than sealing: the first is that of the current key, the others are
    /// those of earlier ones. They need not be stored.
    pub fn derived(&self, purpose: &str) -> Result<Vec<[u8; KEY_BYTES]>, SealError> {
        self.key()?;
        Ok(self.0.keys.iter().map(|it| derive(&it.bytes, &format!("derived {purpose}"))).collect())
    }

    /// The authentication code of a text for a purpose, in hexadecimal, with the current key.
    pub fn mac(&self, purpose: &str, text: &str) -> Result<String, SealError> {
        let key = derive(&self.key()?.bytes, &format!("derived {purpose}"));
        let failed = || SealError::Failed { reason: "the key has a wrong length".into() };
        let mac = authenticator(&key, text).ok_or_else(failed)?;
        Ok(HEXLOWER.encode(&mac.finalize().into_bytes()))
    }

    /// Whether one of the keys made this authentication code of a text for a purpose.
    pub fn is_mac(&self, purpose: &str, text: &str, mac: &str) -> bool {
        let Ok(mac) = HEXLOWER.decode(mac.as_bytes()) else { return false };
        let keys = self.derived(purpose).unwrap_or_default();
        let mut all = keys.iter().filter_map(|key| authenticator(key, text));
        all.any(|it| it.verify_slice(&mac).is_ok())
    }

    /// Records the key that seals as the key of the store.
    #[crate::boxed]
    pub async fn record(&self, store: &dyn Store) -> Result<(), StoreError> {
        let (Ok(name), true) = (self.fingerprint(), self.0.file.is_some()) else { return Ok(()) };
        let found = recorded(store).await?;
        if found.value.as_ref() == Some(&name) {
            return Ok(());
        }
        if let Outcome::Committed(_) = store.commit(found.change(&name)?).await? {
            tracing::info!(key = name, file = ?self.file(), "secrets are sealed with this key");
        }
        Ok(())
    }
}

/// The identity of an entry for [`Seal::seal`].
pub fn identity_of(entry: &EntryKey) -> String {
    format!("{}/{}", entry.space(), entry.key().escape_ascii())
}

/// The recorded fingerprint of the store's key.
async fn recorded(store: &dyn Store) -> Result<Record<String>, StoreError> {
    SYSTEM.find(store, b"seal-key").await
}

impl Key {
    fn new(bytes: [u8; KEY_BYTES]) -> Self {
        let mut fingerprint = [0; FINGERPRINT_BYTES];
        fingerprint.copy_from_slice(&derive(&bytes, "fingerprint")[..FINGERPRINT_BYTES]);
        Self { bytes, fingerprint }
    }

    fn name(&self) -> String {
        HEXLOWER.encode(&self.fingerprint)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&derive(&self.bytes, "seal").into())
    }
}

/// A key for one purpose; from it nobody learns the key of another one.
fn derive(key: &[u8; KEY_BYTES], purpose: &str) -> [u8; KEY_BYTES] {
    // HMAC accepts a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return *key };
    mac.update(b"steadfast seal 1 ");
    mac.update(purpose.as_bytes());
    mac.finalize().into_bytes().into()
}

fn authenticator(key: &[u8; KEY_BYTES], text: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(text.as_bytes());
    Some(mac)
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Seal").field(&self.fingerprint()).finish()
    }
}
