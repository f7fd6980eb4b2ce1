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
use steadfast_store::{Secret, private};

/// The name of the file.
pub(crate) const FILE: &str = "admin.token";

/// The creator of the tokens of the machine, of which one lives at a time.
const MACHINE: &str = "this machine";

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
/// follow each other.
pub(crate) async fn ensure(runtime: &Runtime, data: &Path) -> Result<AdminToken, AdminError> {
    if let Some(id) = in_file(runtime, data).await? {
        revoke_others(runtime, &id).await?;
        return Ok(AdminToken { id, is_new: false });
    }
    let (expires_in, created_by) = (Some(LIFETIME), Some(MACHINE.to_owned()));
    let spec = TokenSpec { expires_in, created_by, ..TokenSpec::role(Role::Admin) };
    let new = runtime.tokens().create(spec, None).await?;
    // After a crash the next start finds the token of the file, and revokes the others.
    write(data, FILE, &new.secret)?;
    revoke_others(runtime, &new.token.id).await?;
    let event = AuditEvent {
        token: Some(new.token.id.clone()),
        client: "this machine".into(),
        action: "create the admin token".into(),
        target: FILE.into(),
        outcome: "created".into(),
        ..AuditEvent::default()
    };
    runtime.audit().record(event).await.map_err(TokenError::from)?;
    Ok(AdminToken { id: new.token.id, is_new: true })
}

/// The id of the token in the file, if it is one of an admin and lasts long enough.
async fn in_file(runtime: &Runtime, data: &Path) -> Result<Option<String>, TokenError> {
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
    Ok((is_admin && lasts).then_some(id))
}

/// Revokes the tokens of the machine, except one. A deleted file leaves such a token, and so does a
/// crash before the file was written.
async fn revoke_others(runtime: &Runtime, id: &str) -> Result<(), TokenError> {
    for token in runtime.tokens().valid().await? {
        if token.created_by.as_deref() == Some(MACHINE) && token.id != id {
            runtime.tokens().revoke(&token.id).await?;
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
        // A token with limits is not one of the machine.
        let scopes = vec!["queue:mail:send".parse().unwrap()];
        let limited = TokenSpec { scopes, ..TokenSpec::role(Role::Admin) };
        let limited = app.tokens().create(limited, None).await.unwrap();
        write(data.path(), FILE, &limited.secret).unwrap();
        assert!(is_new().await && secret() != limited.secret);
        assert_eq!(count().await, 2, "it is not revoked");
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
