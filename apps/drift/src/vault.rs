//! Secrets in URLs: everything that is recorded is shown to operators, so what must be asked again
//! after a crash is recorded sealed.

use std::sync::{Arc, OnceLock};

use steadfast_core::{
    Runtime,
    store::{Seal, SealError, StoreError},
};

use crate::Comparison;

/// The row that sealed URLs belong to.
const URLS: &str = "drift/urls";

/// Seals the URLs of a comparison. Clones are the same one.
#[derive(Clone, Default)]
pub struct Vault(Arc<OnceLock<Seal>>);

/// Why URLs could not be sealed, or not be read again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VaultError {
    /// The program is not open yet.
    #[error("the key for the URLs is not available: {0}; try again")]
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
            VaultError::Seal(error) => error.kind().tag(),
            VaultError::Unreadable => "urls_unreadable",
        }
    }
}

impl Vault {
    /// Uses the key of this program; the first call decides.
    pub fn keep_in(&self, program: &Runtime) {
        // A second one is the same program.
        let _ = self.0.set(program.seal().clone());
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
        let seal = self.0.get().ok_or(StoreError::Closed)?;
        let urls = [&comparison.left_url, &comparison.right_url];
        let text = serde_json::to_string(&urls).map_err(|_| VaultError::Unreadable)?;
        Ok((shown, Some(seal.seal(URLS, &text)?)))
    }

    /// The left and the right URL of what [`Vault::seal`] gave.
    pub fn open(&self, sealed: &str) -> Result<[String; 2], VaultError> {
        let seal = self.0.get().ok_or(StoreError::Closed)?;
        let urls = seal.open(URLS, sealed).map_err(|error| match error {
            SealError::Changed { .. } => VaultError::Unreadable,
            SealError::KeyMissing { .. } | SealError::Failed { .. } => error.into(),
        })?;
        serde_json::from_str(urls.expose()).map_err(|_| VaultError::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(left: &str, right: &str) -> Comparison {
        let (left_url, right_url) = (left.into(), right.into());
        Comparison { left_url, right_url, left_label: None, right_label: None, head: false }
    }

    fn vault(seal: &Seal) -> Vault {
        Vault(Arc::new(OnceLock::from(seal.clone())))
    }

    #[test]
    fn what_was_sealed_is_opened_by_the_next_process_and_with_no_other_key() {
        let one = Seal::of_key([1; 32]);
        let given = comparison("https://a.example/?token=hush1", "https://b.example/");
        let (shown, sealed) = vault(&one).seal(&given).unwrap();
        let sealed = sealed.unwrap();
        assert_eq!(shown.left_url, "https://a.example/?token=[redacted]");
        assert!(!format!("{shown:?}{sealed}").contains("hush1"));
        let opened = vault(&one).open(&sealed).unwrap();
        assert_eq!(opened, [given.left_url, given.right_url]);
        let other = Seal::of_key([2; 32]);
        let code = |seal, text: &str| vault(seal).open(text).unwrap_err().code();
        assert_eq!(code(&other, &sealed), "seal_key_missing");
        for text in [&sealed[..sealed.len() - 2], "00", "x"] {
            assert_eq!(code(&one, text), "urls_unreadable");
        }
    }

    #[test]
    fn urls_without_secrets_need_no_key() {
        let given = comparison("https://a.example/?page=2", "https://b.example/");
        let (shown, sealed) = Vault::default().seal(&given).unwrap();
        assert_eq!((shown, sealed), (given, None));
    }
}
