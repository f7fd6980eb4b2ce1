//! Checks the key that seals secrets, and finds secrets that were stored as plain text.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use steadfast_api::server::Check;
use steadfast_bucket::{BucketError, list_keys};
use steadfast_store::{Seal, Store};

use crate::server::Server;

/// Keys that are read at a time.
const PAGE: usize = 100;

/// Ids that are shown.
const SHOWN_MAX: usize = 5;

pub(super) async fn checks(server: &Server) -> Vec<Check> {
    let (store, seal) = (server.runtime.store(), server.runtime.seal());
    let mut checks = vec![key(seal, server.is_read_only.get().is_some())];
    checks.push(plain(&**store).await);
    if let Some(open) = server.open_secrets.get().filter(|it| !it.is_empty()) {
        let detail = format!("other users may read {}; use mode 0600", open.join(", "));
        checks.push(Check::warning("secret files", detail));
    }
    checks
}

fn key(seal: &Seal, is_read_only: bool) -> Check {
    const NAME: &str = "seal key";
    let key = match seal.fingerprint() {
        Ok(key) => key,
        // A store that is only looked at needs no secrets, nor does a program without a key file.
        Err(error) if is_read_only || seal.file().is_none() => {
            return Check::warning(NAME, error.to_string());
        }
        Err(error) => return Check::failed(NAME, error.to_string()),
    };
    let Some(file) = seal.file() else { return Check::ok(NAME, format!("key {key}")) };
    let path = file.display();
    match is_private(file) {
        Ok(true) => Check::ok(NAME, format!("key {key} in {path}; keep a copy of it elsewhere")),
        Ok(false) => Check::warning(NAME, format!("other users may read {path}; use mode 0600")),
        Err(error) => Check::failed(
            NAME,
            format!("{path} cannot be read any more: {error}; restore it before the next start"),
        ),
    }
}

/// Whether only the owner has access.
fn is_private(file: &Path) -> std::io::Result<bool> {
    Ok(fs::metadata(file)?.permissions().mode() & 0o077 == 0)
}

async fn plain(store: &dyn Store) -> Check {
    const NAME: &str = "plain-text secrets";
    match once_plain(store).await {
        Ok(ids) if ids.is_empty() => Check::ok(NAME, "no access key was ever stored as plain text"),
        Ok(ids) => {
            let shown = ids.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>();
            let more = if SHOWN_MAX < ids.len() { ", …" } else { "" };
            let detail = format!(
                "an earlier version stored {} access keys as plain text ({}{more}), and old files \
                 or backups may still have them; replace each: `steadfast keys create`, then \
                 `steadfast keys revoke`",
                ids.len(),
                shown.join(", ")
            );
            Check::warning(NAME, detail)
        }
        Err(error) => Check::failed(NAME, error.to_string()),
    }
}

async fn once_plain(store: &dyn Store) -> Result<Vec<String>, BucketError> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = list_keys(store, after.as_deref(), PAGE).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|it| it.id.clone());
        ids.extend(page.into_iter().filter(|it| it.was_plain).map(|it| it.id));
        if is_last {
            return Ok(ids);
        }
    }
}
