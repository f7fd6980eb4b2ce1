//! Checks the key that seals secrets, and the files with secrets.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use steadfast_api::server::Check;
use steadfast_store::Seal;

use crate::server::Server;

pub(super) fn checks(server: &Server) -> Vec<Check> {
    let mut checks = vec![key(server.runtime.seal(), server.is_read_only.get().is_some())];
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
