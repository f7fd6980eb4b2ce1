//! Secrets in URLs: everything that is recorded is shown to operators, so what must be asked again
//! after a crash is recorded encrypted. The key is in the store and in no table, run or message.

use std::sync::{Arc, OnceLock};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};
use sha2::{Digest, Sha256};
use steadfast_core::store::{Commit, EntryKey, Json, Put, Store, StoreError, Write, secret_text};
use tokio::sync::OnceCell;

use crate::Comparison;

/// Where the key is in the store.
const SPACE: &str = "drift";
const KEY: &[u8] = b"vault";

/// Encrypts the URLs of a comparison. Clones are the same one.
#[derive(Clone, Default)]
pub struct Vault(Arc<Inner>);

#[derive(Default)]
struct Inner {
    store: OnceLock<Arc<dyn Store>>,
    key: OnceCell<LessSafeKey>,
}

/// Why URLs could not be encrypted, or not be read again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VaultError {
    /// The store gave no answer, or there is none yet.
    #[error("the key for the URLs is not to be had: {0}; try again")]
    Store(#[from] StoreError),
    /// It was encrypted with another key, or changed.
    #[error("the URLs of this comparison cannot be decrypted; enter them again")]
    Unreadable,
}

impl VaultError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            VaultError::Store(_) => "vault_unavailable",
            VaultError::Unreadable => "urls_unreadable",
        }
    }
}

impl Vault {
    /// Keeps its key in this store; the first call decides.
    pub fn keep_in(&self, store: Arc<dyn Store>) {
        // A second one is the same store.
        let _ = self.0.store.set(store);
    }

    /// The comparison as it may be recorded, and its URLs encrypted if there are secrets in them.
    pub async fn seal(
        &self,
        comparison: &Comparison,
    ) -> Result<(Comparison, Option<String>), VaultError> {
        let shown = comparison.without_secrets();
        if shown == *comparison {
            return Ok((shown, None));
        }
        let key = self.key().await?;
        let mut nonce = [0; NONCE_LEN];
        let no_chance = |_| StoreError::Unavailable { reason: "no random numbers".into() };
        SystemRandom::new().fill(&mut nonce).map_err(no_chance)?;
        let urls = [&comparison.left_url, &comparison.right_url];
        let mut text = serde_json::to_vec(&urls).map_err(|_| VaultError::Unreadable)?;
        let sealed = key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::empty(),
            &mut text,
        );
        sealed.map_err(|_| VaultError::Unreadable)?;
        Ok((shown, Some(format!("{}{}", HEXLOWER.encode(&nonce), HEXLOWER.encode(&text)))))
    }

    /// The left and the right URL of what [`Vault::seal`] gave.
    pub async fn open(&self, sealed: &str) -> Result<[String; 2], VaultError> {
        let bytes = HEXLOWER_PERMISSIVE.decode(sealed.as_bytes());
        let mut bytes = bytes.map_err(|_| VaultError::Unreadable)?;
        let key = self.key().await?;
        let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN).ok_or(VaultError::Unreadable)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| VaultError::Unreadable)?;
        let text = key.open_in_place(nonce, Aad::empty(), text);
        let text = text.map_err(|_| VaultError::Unreadable)?;
        serde_json::from_slice(text).map_err(|_| VaultError::Unreadable)
    }

    /// The key, made when it is first needed.
    async fn key(&self) -> Result<&LessSafeKey, VaultError> {
        self.0.key.get_or_try_init(async || self.read_or_make().await).await
    }

    async fn read_or_make(&self) -> Result<LessSafeKey, VaultError> {
        let store = self.0.store.get().ok_or(StoreError::Closed)?;
        let entry = EntryKey::new(SPACE, KEY).map_err(StoreError::from)?;
        let corrupt = |reason: String| StoreError::Corrupt { reason };
        let found = store.entry(&entry).await?.and_then(|it| it.value);
        let secret = match found {
            Some(value) => serde_json::from_str(value.as_str())
                .map_err(|error| corrupt(format!("the key for URLs: {error}")))?,
            None => {
                let secret = secret_text(52, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")?;
                let value = Some(Json::of(&secret).map_err(StoreError::from)?);
                let put = Put { entry, value, reference: None, expires: None };
                store.commit(Commit::of(Write::Put(put))).await?;
                secret
            }
        };
        let key: String = secret;
        let key = UnboundKey::new(&AES_256_GCM, &Sha256::digest(key));
        Ok(LessSafeKey::new(key.map_err(|_| corrupt("the key for URLs".into()))?))
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::store::{MemoryStore, SystemClock};

    use super::*;

    fn comparison(left: &str, right: &str) -> Comparison {
        let (left_url, right_url) = (left.into(), right.into());
        Comparison { left_url, right_url, left_label: None, right_label: None, head: false }
    }

    fn vault(store: &Arc<dyn Store>) -> Vault {
        let vault = Vault::default();
        vault.keep_in(store.clone());
        vault
    }

    #[tokio::test]
    async fn what_was_sealed_is_opened_by_the_next_process_and_by_no_other_store() {
        let store = || -> Arc<dyn Store> { Arc::new(MemoryStore::new(Arc::new(SystemClock))) };
        let (one, other) = (store(), store());
        let given = comparison("https://a.example/?token=hush1", "https://b.example/");
        let (shown, sealed) = vault(&one).seal(&given).await.unwrap();
        let sealed = sealed.unwrap();
        assert_eq!(shown.left_url, "https://a.example/?token=[redacted]");
        assert!(!format!("{shown:?}{sealed}").contains("hush1"));
        let opened = vault(&one).open(&sealed).await.unwrap();
        assert_eq!(opened, [given.left_url, given.right_url]);
        for (store, sealed) in [(&other, &*sealed), (&one, &sealed[2..]), (&one, "00"), (&one, "x")]
        {
            let refused = vault(store).open(sealed).await.unwrap_err();
            assert_eq!(refused.code(), "urls_unreadable");
        }
    }

    #[tokio::test]
    async fn urls_without_secrets_need_no_key() {
        let given = comparison("https://a.example/?page=2", "https://b.example/");
        let (shown, sealed) = Vault::default().seal(&given).await.unwrap();
        assert_eq!((shown, sealed), (given, None));
    }
}
