//! Changes of tokens. Each is one commit, after which all tokens are read again.

use std::time::Duration;

use steadfast_store::{
    Commit, EntryKey, Outcome, Put, Record, Rejection, StoreError, Write, secret_text,
};

use super::{
    CLOSED, NewToken, SPACE, TokenError, TokenSpec, Tokens,
    token::{LETTERS, Stored, check, new_secret},
};
use crate::{RequestKey, commit::to_end, idempotency::read};

impl Tokens {
    /// Creates a token, at most once under a key. A repetition fails with
    /// [`TokenError::Repeated`], which names the token: its secret is not kept.
    #[steadfast_store::boxed]
    pub async fn create(
        &self,
        spec: TokenSpec,
        key: Option<&RequestKey>,
    ) -> Result<NewToken, TokenError> {
        check(&spec)?;
        let (id, now) = (secret_text(10, LETTERS)?, self.store.clock().now());
        let TokenSpec { name, organization, role, scopes, expires_in, created_by } = spec;
        let expires_at = expires_in.map(|it| now.after(it).0);
        let created_at = now.0;
        let stored = Stored {
            id,
            name,
            organization,
            role,
            scopes,
            created_at,
            expires_at,
            revoked_at: None,
            created_by,
            replaced_by: None,
        };
        let (new, commit) = new_secret(&stored, now)?;
        let closed = Put::of(EntryKey::new(SPACE, CLOSED)?, &true)?;
        let mut commit = commit.write(Write::Put(closed));
        if let Some(key) = key {
            commit = commit.write(key.write_answer(&new.token.id)?);
        }
        match self.change(commit).await? {
            Outcome::Committed(_) => Ok(new),
            Outcome::Duplicate(before) => Err(TokenError::Repeated { id: read(&before)? }),
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(TokenError::KeyReused { key }),
            Outcome::Rejected(rejection) => {
                Err(StoreError::Corrupt { reason: rejection.to_string() }.into())
            }
        }
    }

    /// Gives a token a new secret. The old one is refused from now on. `None` if there is no such
    /// token, or it has ended.
    #[steadfast_store::boxed]
    pub async fn rotate(&self, id: &str) -> Result<Option<NewToken>, TokenError> {
        loop {
            let Some((found, mut stored)) = self.find(id).await? else { return Ok(None) };
            let now = self.store.clock().now();
            if !stored.can_rotate(now)? {
                return Ok(None);
            }
            // Later than before, so that sessions of the old secret end.
            stored.created_at = now.0.max(stored.created_at.saturating_add(1));
            let (new, commit) = new_secret(&stored, now)?;
            let old = Put::removal(found.entry.clone(), Duration::ZERO);
            let commit = commit.expect(found.expect()).write(Write::Put(old));
            if let Outcome::Committed(_) = self.change(commit).await? {
                return Ok(Some(new));
            }
        }
    }

    /// Creates a token with the limits and the expiry of another one, which ends after an overlap
    /// at the latest. `None` if there is no such token, or it has ended.
    #[steadfast_store::boxed]
    pub async fn replace(
        &self,
        id: &str,
        overlap: Duration,
        created_by: Option<String>,
    ) -> Result<Option<NewToken>, TokenError> {
        loop {
            let Some((found, mut old)) = self.find(id).await? else { return Ok(None) };
            let now = self.store.clock().now();
            if !old.can_rotate(now)? {
                return Ok(None);
            }
            let (id, created_by) = (secret_text(10, LETTERS)?, created_by.clone());
            let stored = Stored { id, created_at: now.0, created_by, ..old.clone() };
            let (new, commit) = new_secret(&stored, now)?;
            let ends = now.after(overlap).0;
            old.expires_at = Some(old.expires_at.map_or(ends, |it| it.min(ends)));
            old.replaced_by = Some(new.token.id.clone());
            let put = old.put(found.entry.clone(), now)?;
            let commit = commit.expect(found.expect()).write(Write::Put(put));
            if let Outcome::Committed(_) = self.change(commit).await? {
                return Ok(Some(new));
            }
        }
    }

    /// Revokes a token. `false` if there is none of this id, or it is revoked already.
    #[steadfast_store::boxed]
    pub async fn revoke(&self, id: &str) -> Result<bool, TokenError> {
        loop {
            let Some((found, mut stored)) = self.find(id).await? else { return Ok(false) };
            if stored.revoked_at.is_some() {
                return Ok(false);
            }
            let now = self.store.clock().now();
            stored.revoked_at = Some(now.0);
            let commit = found.put(stored.put(found.entry.clone(), now)?);
            if let Outcome::Committed(_) = self.change(commit).await? {
                return Ok(true);
            }
        }
    }

    /// Has every request need a credential from now on.
    #[steadfast_store::boxed]
    pub async fn close(&self) -> Result<(), TokenError> {
        // A start on a full disk writes nothing.
        if self.is_closed().await? {
            return Ok(());
        }
        let put = Put::of(EntryKey::new(SPACE, CLOSED)?, &true)?;
        self.change(Commit::of(Write::Put(put))).await?;
        Ok(())
    }

    /// A token as it is stored, and its record without the value.
    async fn find(&self, id: &str) -> Result<Option<(Record<Stored>, Stored)>, TokenError> {
        let tokens = self.tokens().await?;
        let Some((hash, _)) = tokens.by_hash.iter().find(|(_, it)| it.id == id) else {
            return Ok(None);
        };
        let entry = EntryKey::new(SPACE, hash.as_bytes())?;
        let mut found = Record::<Stored>::read(&*self.store, entry).await?;
        let stored = found.value.take();
        Ok(stored.map(|it| (found, it)))
    }

    /// Commits a change, after which all tokens are read again.
    async fn change(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let tokens = self.clone();
        to_end(async move {
            let outcome = tokens.store.commit(commit).await;
            tokens.changed();
            outcome
        })
        .await
    }
}
