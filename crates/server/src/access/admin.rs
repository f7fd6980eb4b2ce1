//! The admin token of the machine: `admin.token` in the data folder, which only its owner can read.
//! The command line of the same user logs in with it, at the address in the file `address`.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr},
    path::Path,
    time::Duration,
};

use axum::http::Uri;
use steadfast_core::{AuditEvent, Role, Runtime, Token, TokenError, TokenSpec};
use steadfast_store::{Secret, StoreError, private};

/// The name of the file.
pub(crate) const FILE: &str = "admin.token";

/// The creator of the tokens of the machine, of which one lives at a time.
pub(crate) const MACHINE: &str = "this machine";

/// Lifetime of the token. A server that runs renews it in time.
const LIFETIME: Duration = Duration::from_hours(90 * 24);

/// A token that lasts no longer than this is renewed.
const RENEWED: Duration = Duration::from_hours(30 * 24);

/// The file with the address of the server that has the folder open.
const ADDRESS: &str = "address";

/// Reads the token, if this user may.
pub(crate) fn read(data: &Path) -> Option<Secret> {
    text(&data.join(FILE)).map(Secret::from)
}

/// Reads the token for a server. Another user of the machine may listen on any other port, so only
/// the address that the server of this folder has written gets the token, and only while that
/// server runs.
pub(crate) fn read_for(data: &Path, url: &str) -> Option<Secret> {
    let path = data.join(ADDRESS);
    match File::open(&path).ok()?.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        // The server has ended: somebody else may listen there by now.
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let written: SocketAddr = text(&path)?.parse().ok()?;
    is_at(url, written).then(|| read(data)).flatten()
}

/// Whether a URL leads to a server that listens on this address. The name `localhost` may lead to
/// another one.
fn is_at(url: &str, listens: SocketAddr) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let Ok(host) = host.parse::<IpAddr>() else { return false };
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let is_host = host == listens.ip() || listens.ip().is_unspecified();
    host.is_loopback() && is_host && uri.port_u16().unwrap_or(default) == listens.port()
}

/// The file with the address of a running server, which has it locked. The lock ends with the
/// process, however it ends.
pub(crate) struct AddressFile(#[expect(dead_code, reason = "it holds the lock")] File);

impl AddressFile {
    /// Writes the address of the server that has the folder open.
    pub(crate) fn write(data: &Path, address: SocketAddr) -> io::Result<Self> {
        let mut file = private::open_file(&data.join(ADDRESS))?;
        file.try_lock()?;
        file.set_len(0)?;
        file.write_all(format!("{address}\n").as_bytes())?;
        Ok(Self(file))
    }
}

/// The text of a small file.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(1_024).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|it| !it.is_empty())
}

/// The admin token of the machine.
pub(crate) struct AdminToken {
    /// The id of the token.
    pub(crate) id: String,
    /// Whether it was created now.
    pub(crate) is_new: bool,
}

/// Has the data folder hold a valid admin token, and revokes the others of the machine. Calls must
/// follow each other. While the token of the file is valid, a failure is logged, and the next call
/// tries again.
pub(crate) async fn ensure(runtime: &Runtime, data: &Path) -> Result<AdminToken, AdminError> {
    let Some((id, lasts)) = in_file(runtime, data).await? else {
        return renew(runtime, data).await;
    };
    let ensured = match lasts {
        true => revoke_others(runtime, &id).await.map_err(AdminError::from).map(|()| None),
        false => renew(runtime, data).await.map(Some),
    };
    let ensured = ensured.unwrap_or_else(|error| {
        tracing::warn!(%error, "admin token not renewed; it is still valid");
        None
    });
    Ok(ensured.unwrap_or(AdminToken { id, is_new: false }))
}

/// Creates the token of the machine and writes it into the data folder.
async fn renew(runtime: &Runtime, data: &Path) -> Result<AdminToken, AdminError> {
    let (expires_in, created_by) = (Some(LIFETIME), Some(MACHINE.to_owned()));
    let spec = TokenSpec { expires_in, created_by, ..TokenSpec::role(Role::Admin) };
    let new = runtime.tokens().create(spec, None).await?;
    let id = new.token.id;
    // After a crash the next start finds the token of the file, and revokes the others.
    let recorded = record(runtime, &id, "create the admin token", "created").await;
    let recorded = recorded.map_err(AdminError::from);
    let written = |()| write(data, FILE, &new.secret).map_err(AdminError::from);
    if let Err(error) = recorded.and_then(written) {
        // Nobody has its secret.
        revoke(runtime, &id).await?;
        return Err(error);
    }
    revoke_others(runtime, &id).await?;
    Ok(AdminToken { id, is_new: true })
}

/// Records a change of a token of the machine.
async fn record(
    runtime: &Runtime,
    id: &str,
    action: &str,
    outcome: &str,
) -> Result<(), TokenError> {
    let event = AuditEvent {
        token: Some(id.into()),
        client: MACHINE.into(),
        action: action.into(),
        target: FILE.into(),
        outcome: outcome.into(),
        ..AuditEvent::default()
    };
    Ok(runtime.audit().record(event).await?)
}

async fn revoke(runtime: &Runtime, id: &str) -> Result<(), TokenError> {
    if runtime.tokens().revoke(id).await? {
        record(runtime, id, "revoke an admin token", "revoked").await?;
    }
    Ok(())
}

/// The id of the token in the file, if it is a valid one of an admin, and whether it lasts long
/// enough.
async fn in_file(runtime: &Runtime, data: &Path) -> Result<Option<(String, bool)>, TokenError> {
    let Some(secret) = read(data) else { return Ok(None) };
    let found = match runtime.tokens().by_secret(secret.expose()).await {
        Ok(found) => found,
        Err(TokenError::Denied(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Token { id, organization, role, scopes, expires_at, .. } = found;
    let is_admin = role == Role::Admin && organization.is_none() && scopes.is_empty();
    let renewed_at = runtime.store().clock().now().after(RENEWED);
    let lasts = expires_at.is_none_or(|it| renewed_at < it);
    Ok(is_admin.then_some((id, lasts)))
}

/// Revokes the tokens of the machine, except one. A deleted file leaves such a token, and so does a
/// crash before the file was written.
async fn revoke_others(runtime: &Runtime, id: &str) -> Result<(), TokenError> {
    for token in runtime.tokens().valid().await? {
        if token.created_by.as_deref() == Some(MACHINE) && token.id != id {
            revoke(runtime, &token.id).await?;
        }
    }
    Ok(())
}

/// Writes a small private file; a crash leaves the old text or the new one.
pub(super) fn write(data: &Path, name: &str, text: &str) -> io::Result<()> {
    let part = data.join(format!("{name}.part"));
    let mut file = private::open_file(&part)?;
    file.set_len(0)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&part, data.join(name))
}

/// Why there is no admin token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminError {
    /// The file cannot be written.
    #[error("{FILE} in the data folder cannot be written: {0}")]
    File(#[from] io::Error),
    /// The token cannot be created.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl AdminError {
    /// Whether there is no space for the token.
    pub(crate) fn is_disk_full(&self) -> bool {
        match self {
            AdminError::File(error) => {
                [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind())
            }
            AdminError::Token(error) => matches!(error, TokenError::Store(StoreError::DiskFull)),
        }
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::App;

    use super::*;

    #[tokio::test]
    async fn the_machine_has_one_admin_token_which_is_renewed_before_it_expires() {
        let (data, app) = (tempfile::tempdir().unwrap(), App::new("host").test().await.unwrap());
        let secret = || read(data.path()).unwrap().expose().to_owned();
        let is_new = async || ensure(&app, data.path()).await.unwrap().is_new;
        let count = async || app.tokens().valid().await.unwrap().len();
        assert!(is_new().await && !is_new().await);
        let day = Duration::from_hours(24);
        // The file is deleted, as after a leak, or holds something else.
        let deleted = secret();
        std::fs::remove_file(data.path().join(FILE)).unwrap();
        assert!(is_new().await);
        assert!(app.tokens().authenticate(&deleted).await.is_err());
        // A crash before the file was written leaves a token.
        let created_by = Some(MACHINE.into());
        let left = TokenSpec { created_by, ..TokenSpec::role(Role::Admin) };
        app.tokens().create(left, None).await.unwrap();
        assert!(!is_new().await);
        assert_eq!(count().await, 1);
        app.advance(59 * day).await;
        assert!(!is_new().await);
        let old = secret();
        app.advance(2 * day).await;
        assert!(is_new().await && secret() != old);
        assert!(app.tokens().authenticate(&old).await.is_err());
        app.tokens().authenticate(&secret()).await.unwrap();
        assert_eq!(count().await, 1);
        let actions = async || {
            let records = app.audit().list(None, 99).await.unwrap();
            records.into_iter().map(|it| it.event.action).collect::<Vec<_>>()
        };
        assert_eq!(actions().await[..2], ["revoke an admin token", "create the admin token"]);
        // A token with limits is not one of the machine.
        let scopes = vec!["queue:mail:send".parse().unwrap()];
        let limited = TokenSpec { scopes, ..TokenSpec::role(Role::Admin) };
        let limited = app.tokens().create(limited, None).await.unwrap();
        write(data.path(), FILE, &limited.secret).unwrap();
        assert!(is_new().await && secret() != limited.secret);
        assert_eq!(count().await, 2, "it is not revoked");
    }

    #[tokio::test]
    async fn a_renewal_that_fails_keeps_a_valid_token_and_leaves_no_other_one() {
        let (data, app) = (tempfile::tempdir().unwrap(), App::new("host").test().await.unwrap());
        let ids = async || {
            let valid = app.tokens().valid().await.unwrap();
            valid.into_iter().map(|it| it.id).collect::<Vec<_>>()
        };
        let first = ensure(&app, data.path()).await.unwrap();
        app.advance(Duration::from_hours(61 * 24)).await;
        // No file can be written.
        let obstacle = data.path().join(format!("{FILE}.part"));
        std::fs::create_dir(&obstacle).unwrap();
        let kept = ensure(&app, data.path()).await.unwrap();
        assert!(kept.id == first.id && !kept.is_new);
        assert_eq!(ids().await, [&*first.id]);
        // Without a valid token it is an error, and nothing is left, either.
        std::fs::remove_file(data.path().join(FILE)).unwrap();
        let failed = ensure(&app, data.path()).await.err().unwrap();
        assert!(failed.to_string().contains("cannot be written") && !failed.is_disk_full());
        assert_eq!(ids().await, [&*first.id]);
        std::fs::remove_dir(&obstacle).unwrap();
        let next = ensure(&app, data.path()).await.unwrap();
        assert!(next.is_new && ids().await == [&*next.id]);
        assert!(AdminError::from(TokenError::from(StoreError::DiskFull)).is_disk_full());
    }

    #[test]
    fn the_token_is_for_the_server_of_its_folder_only() {
        let data = tempfile::tempdir().unwrap();
        let read = |url: &str| read_for(data.path(), url).map(|it| it.expose().to_owned());
        write(data.path(), FILE, "sf_1").unwrap();
        assert_eq!(read("http://127.0.0.1:8787"), None, "no server has the folder open");
        let write_address = |it: &str| AddressFile::write(data.path(), it.parse().unwrap());
        let server = write_address("127.0.0.1:8787").unwrap();
        for own in ["http://127.0.0.1:8787", "https://127.0.0.1:8787/"] {
            assert_eq!(read(own).as_deref(), Some("sf_1"), "{own}");
        }
        for other in [
            "http://127.0.0.1:8788",
            "http://127.0.0.1",
            "http://127.0.0.2:8787",
            "http://[::1]:8787",
            "http://localhost:8787",
            "http://127.0.0.1.example.org:8787",
            "http://10.0.0.1:8787",
            "nowhere",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert!(write_address("0.0.0.0:80").is_err(), "another server has the folder");
        drop(server);
        assert_eq!(read("http://127.0.0.1:8787"), None, "the server has ended");
        let _server = write_address("0.0.0.0:80").unwrap();
        assert!(read("http://127.0.0.1").is_some() && read("http://10.0.0.1").is_none());
    }
}
