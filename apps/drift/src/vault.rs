//! Secrets in URLs: everything that is recorded is shown to operators, so what must be asked again
//! after a crash is recorded sealed.

use std::sync::{Arc, OnceLock};

use data_encoding::HEXLOWER_PERMISSIVE;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest, Sha256};
use steadfast_core::{
    Runtime,
    store::{EntryKey, InvalidInput, Seal, SealError, Store, StoreError, identity_of},
};

use crate::Comparison;

/// The row that sealed URLs belong to.
const URLS: &str = "drift/urls";

/// Seals the URLs of a comparison. Clones are the same one.
#[derive(Clone, Default)]
pub struct Vault(Arc<OnceLock<(Arc<dyn Store>, Seal)>>);

/// Why URLs could not be sealed, or not be read again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VaultError {
    /// The store gave no answer, or there is none yet.
    #[error("the key for the URLs is not to be had: {0}; try again")]
    Store(#[from] StoreError),
    /// The key that seals secrets is missing.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// It was sealed with another key, or changed.
    #[error("the URLs of this comparison cannot be decrypted; enter them again")]
    Unreadable,
}

impl VaultError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            VaultError::Store(_) => "vault_unavailable",
            VaultError::Seal(error) => error.code(),
            VaultError::Unreadable => "urls_unreadable",
        }
    }
}

impl Vault {
    /// Uses the key of this program; the first call decides.
    pub fn keep_in(&self, program: &Runtime) {
        // A second one is the same program.
        let _ = self.0.set((program.store().clone(), program.seal().clone()));
    }

    /// The comparison as it may be recorded, and its URLs sealed if there are secrets in them.
    pub fn seal(
        &self,
        comparison: &Comparison,
    ) -> Result<(Comparison, Option<String>), VaultError> {
        let shown = comparison.without_secrets();
        if shown == *comparison {
            return Ok((shown, None));
        }
        let (_, seal) = self.0.get().ok_or(StoreError::Closed)?;
        let urls = [&comparison.left_url, &comparison.right_url];
        let text = serde_json::to_string(&urls).map_err(|_| VaultError::Unreadable)?;
        Ok((shown, Some(seal.seal(URLS, &text)?)))
    }

    /// The left and the right URL of what [`Vault::seal`] gave.
    pub async fn open(&self, sealed: &str) -> Result<[String; 2], VaultError> {
        let is_old = !Seal::is_sealed(sealed);
        // No key opens a text of another form.
        if is_old && HEXLOWER_PERMISSIVE.decode(sealed.as_bytes()).is_err() {
            return Err(VaultError::Unreadable);
        }
        let (store, seal) = self.0.get().ok_or(StoreError::Closed)?;
        if is_old {
            return open_old(&**store, seal, sealed).await;
        }
        let urls = seal.open(URLS, sealed).map_err(|error| match error {
            SealError::Changed { .. } => VaultError::Unreadable,
            SealError::KeyMissing { .. } | SealError::Failed { .. } => error.into(),
        })?;
        serde_json::from_str(urls.expose()).map_err(|_| VaultError::Unreadable)
    }
}

/// The entry with the key of earlier versions. It was a text, and is sealed by now.
pub(crate) fn old_key() -> Result<EntryKey, InvalidInput> {
    EntryKey::new("drift", b"vault")
}

/// Opens URLs that an earlier version encrypted with a key of its own.
async fn open_old(store: &dyn Store, seal: &Seal, sealed: &str) -> Result<[String; 2], VaultError> {
    let unreadable = || VaultError::Unreadable;
    let mut bytes =
        HEXLOWER_PERMISSIVE.decode(sealed.as_bytes()).map_err(|_| VaultError::Unreadable)?;
    let entry = old_key().map_err(StoreError::from)?;
    let value = store.entry(&entry).await?.and_then(|it| it.value).ok_or_else(unreadable)?;
    let text: String = serde_json::from_str(value.as_str()).map_err(|_| unreadable())?;
    let key = seal.open(&identity_of(&entry), &text)?;
    let key = UnboundKey::new(&AES_256_GCM, &Sha256::digest(key.expose()));
    let key = LessSafeKey::new(key.map_err(|_| unreadable())?);
    let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN).ok_or_else(unreadable)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| unreadable())?;
    let text = key.open_in_place(nonce, Aad::empty(), text).map_err(|_| unreadable())?;
    let text = std::str::from_utf8(text).map_err(|_| unreadable())?;
    serde_json::from_str(text).map_err(|_| unreadable())
}

#[cfg(test)]
mod tests {
    use steadfast_core::store::{Commit, Json, MemoryStore, Put, SystemClock, Write};

    use super::*;

    fn comparison(left: &str, right: &str) -> Comparison {
        let (left_url, right_url) = (left.into(), right.into());
        Comparison { left_url, right_url, left_label: None, right_label: None, head: false }
    }

    fn vault(store: &Arc<dyn Store>, seal: &Seal) -> Vault {
        Vault(Arc::new(OnceLock::from((store.clone(), seal.clone()))))
    }

    fn store() -> Arc<dyn Store> {
        Arc::new(MemoryStore::new(Arc::new(SystemClock)))
    }

    #[tokio::test]
    async fn what_was_sealed_is_opened_by_the_next_process_and_with_no_other_key() {
        let (store, one) = (store(), Seal::of_key([1; 32]));
        let given = comparison("https://a.example/?token=hush1", "https://b.example/");
        let (shown, sealed) = vault(&store, &one).seal(&given).unwrap();
        let sealed = sealed.unwrap();
        assert_eq!(shown.left_url, "https://a.example/?token=[redacted]");
        assert!(!format!("{shown:?}{sealed}").contains("hush1"));
        let opened = vault(&store, &one).open(&sealed).await.unwrap();
        assert_eq!(opened, [given.left_url, given.right_url]);
        let other = Seal::of_key([2; 32]);
        let code =
            async |seal, text: &str| vault(&store, seal).open(text).await.unwrap_err().code();
        assert_eq!(code(&other, &sealed).await, "seal_key_missing");
        for text in [&sealed[..sealed.len() - 2], "00", "x"] {
            assert_eq!(code(&one, text).await, "urls_unreadable");
        }
    }

    #[tokio::test]
    async fn urls_of_an_earlier_version_are_opened_before_and_after_its_key_is_sealed() {
        let (store, seal) = (store(), Seal::of_key([1; 32]));
        let (entry, secret) = (old_key().unwrap(), "A".repeat(52));
        let value = Some(Json::of(&secret).unwrap());
        let put = Put { entry: entry.clone(), value, reference: None, expires: None };
        store.commit(Commit::of(Write::Put(put))).await.unwrap();
        let key = UnboundKey::new(&AES_256_GCM, &Sha256::digest(&secret)).unwrap();
        let (key, nonce) = (LessSafeKey::new(key), [7; NONCE_LEN]);
        let mut text = serde_json::to_vec(&["https://a/?token=hush1", "https://b/"]).unwrap();
        let unique = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(unique, Aad::empty(), &mut text).unwrap();
        let old = data_encoding::HEXLOWER.encode(&[&nonce[..], &text].concat());
        let vault = vault(&store, &seal);
        assert_eq!(vault.open(&old).await.unwrap()[0], "https://a/?token=hush1");
        seal.seal_entry(&*store, &entry).await.unwrap();
        let kept = store.entry(&entry).await.unwrap().unwrap().value.unwrap();
        assert!(!kept.as_str().contains(&secret));
        assert_eq!(vault.open(&old).await.unwrap()[1], "https://b/");
    }

    #[test]
    fn urls_without_secrets_need_no_key() {
        let given = comparison("https://a.example/?page=2", "https://b.example/");
        let (shown, sealed) = Vault::default().seal(&given).unwrap();
        assert_eq!((shown, sealed), (given, None));
    }
}
