//! Access, transport, the audit log, and secrets.

use std::{fmt::Display, fs, io, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use steadfast_api::{rfc3339, server::Check};
use steadfast_bucket::older_keys;
use steadfast_store::{Seal, Timestamp};

use crate::{
    access::head, doctor::blobs::is_recent, location::Location, network::Network, server::Server,
};

/// Records of the audit log that are checked, unless all are.
const RECORDS: usize = 1_000;

/// Expiry is reported this long before.
const NOTICE: Duration = Duration::from_hours(14 * 24);

/// Tokens that are named.
const SHOWN: usize = 5;

/// Checks the mode of access, expired credentials and the audit log.
pub(super) async fn checks(server: &Server, deep: bool) -> Vec<Check> {
    let mut checks = vec![mode(server).await];
    let now = server.runtime.store().clock().now();
    checks.extend(server.transport.certificate_expires_at().map(|it| certificate(it, now)));
    if let Ok(true) = server.runtime.tokens().is_closed().await {
        checks.push(tokens(server).await);
        checks.push(audit(server, deep).await);
    } else if !matches!(server.runtime.audit().list(None, 1).await.as_deref(), Ok([]))
        || !matches!(copied_head(server), Ok(None))
    {
        // An open store with a log: somebody has removed the entry that closes access.
        checks.push(audit(server, deep).await);
    }
    checks.extend(restored(server).await);
    checks
}

async fn mode(server: &Server) -> Check {
    match server.runtime.tokens().is_closed().await {
        Err(error) => Check::failed("access", format!("tokens cannot be read: {error}")),
        Ok(false) => {
            let detail = "open: everybody on this machine may do everything; close it with \
                          `steadfast tokens create --role admin` or --access closed";
            Check::ok("access", detail)
        }
        Ok(true) => {
            let transport = &server.transport;
            let has_tls = transport.tls().is_some();
            let way = if has_tls { "TLS" } else { "plain HTTP for this machine" };
            let proxies: Vec<String> = transport.proxies.iter().map(Network::to_string).collect();
            let proxies = match &proxies[..] {
                [] => String::new(),
                proxies => format!(" and the trusted proxies {}", proxies.join(", ")),
            };
            Check::ok("access", format!("closed, {way}{proxies}"))
        }
    }
}

fn certificate(expires_at: Timestamp, now: Timestamp) -> Check {
    let (name, at) = ("certificate", rfc3339(expires_at));
    if expires_at <= now {
        let detail = format!("it expired at {at}: clients refuse it; replace --tls-cert");
        return Check::failed(name, detail);
    }
    if expires_at <= now.after(NOTICE) {
        return Check::warning(name, format!("it expires at {at}; replace --tls-cert before"));
    }
    Check::ok(name, format!("valid until {at}"))
}

async fn tokens(server: &Server) -> Check {
    let name = "tokens";
    let soon = match server.runtime.tokens().expiring(NOTICE).await {
        Ok(soon) => soon,
        Err(error) => return Check::failed(name, format!("tokens cannot be read: {error}")),
    };
    if soon.is_empty() {
        return Check::ok(name, "none expires within 14 days");
    }
    let shown = soon
        .iter()
        .take(SHOWN)
        .filter_map(|it| Some(format!("{} at {}", it.id, rfc3339(it.expires_at?))));
    let (shown, more) = (shown.collect::<Vec<_>>(), if SHOWN < soon.len() { ", …" } else { "" });
    let detail = format!(
        "{} expire within 14 days ({}{more}); create new ones with `steadfast tokens create`",
        soon.len(),
        shown.join(", ")
    );
    Check::warning(name, detail)
}

/// Warns of credentials that a restored backup may have revived. `None` if no backup was restored
/// lately.
async fn restored(server: &Server) -> Option<Check> {
    let record = server.buckets().ok()?.check_record().await.ok()?;
    let restored_at = record.restored_at.filter(|it| is_recent(Some(*it)))?;
    let (name, at) = ("restored backup", Timestamp(restored_at));
    let tokens = server.runtime.tokens().valid().await.ok()?;
    let keys = older_keys(&**server.runtime.store(), at).await.ok()?;
    let is_older = tokens.iter().any(|it| it.created_at < at) || !keys.is_empty();
    let (at, now) = (rfc3339(at), rfc3339(server.runtime.store().clock().now()));
    if !is_older {
        return Some(Check::ok(name, format!("{at}; older tokens and access keys are revoked")));
    }
    // An admin token that is valid again may have created others since.
    let detail = format!(
        "this store may be an older copy, put back at {at}: tokens and access keys that were \
         revoked after it was taken are valid again; `steadfast tokens revoke-older {now}` revokes \
         all that exist now, also those that they created since"
    );
    Some(Check::warning(name, detail))
}

async fn audit(server: &Server, deep: bool) -> Check {
    let name = "audit log";
    let unreadable =
        |error: &dyn Display| Check::failed(name, format!("it cannot be read: {error}"));
    // The file first: the records that it names were written before.
    let has_copy = match copied_head(server) {
        Ok(None) => Ok(true),
        Ok(Some(head)) => server.runtime.audit().has(&head).await,
        Err(error) => return unreadable(&error),
    };
    let limit = if deep { usize::MAX } else { RECORDS };
    let log = server.runtime.audit();
    let unsealed = match log.unsealed(limit).await {
        Ok(unsealed) => unsealed,
        Err(error) => return unreadable(&error),
    };
    match (log.broken(limit).await, has_copy) {
        (Err(error), _) | (_, Err(error)) => unreadable(&error),
        (Ok(Some(number)), _) => {
            let detail = format!(
                "record {number} does not follow the one before it, or is not the one that was \
                 written last, or was written without the seal key: records were changed or \
                 removed; compare with a backup"
            );
            Check::failed(name, detail)
        }
        (Ok(None), Ok(false)) => Check::failed(name, head::MISSING),
        (Ok(None), Ok(true)) => {
            let checked = if deep { "all".to_owned() } else { format!("the last {RECORDS}") };
            let checked = format!("{checked} records follow each other");
            if server.runtime.seal().fingerprint().is_err() {
                let unknown = "without the seal key nobody can say who wrote them";
                return Check::warning(name, format!("{checked}; {unknown}"));
            }
            let Some((oldest, newest)) = unsealed else { return Check::ok(name, checked) };
            let detail = format!(
                "{checked}; records {oldest} to {newest}, or some of these, were written without \
                 the seal key, so nobody can say who wrote them"
            );
            Check::warning(name, detail)
        }
    }
}

/// The copy of the head in the data folder, if there is one.
fn copied_head(server: &Server) -> io::Result<Option<String>> {
    let folder = match &server.location {
        Location::Folder(folder) => Some(folder),
        Location::Database(_) | Location::Host => server.data.as_ref(),
    };
    folder.map_or(Ok(None), |it| head::read(it))
}

pub(super) fn secrets(server: &Server) -> Vec<Check> {
    let mut checks = vec![key(server.runtime.seal(), server.is_read_only)];
    if !server.open_secrets.is_empty() {
        let open = server.open_secrets.join(", ");
        let detail = format!("other users may read {open}; use mode 0600");
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

#[cfg(test)]
mod tests {
    use steadfast_api::server::Verdict;
    use steadfast_core::{App, AuditEvent};

    use super::*;
    use crate::server::Policy;

    #[tokio::test]
    async fn a_log_in_a_store_that_is_open_is_checked_as_well() {
        let program = App::new("host").test().await.unwrap();
        let server = Server::new((*program).clone(), Location::Host, Policy::Loopback);
        let has = async || checks(&server, false).await.iter().any(|it| it.name == "audit log");
        assert!(!has().await);
        program.audit().record(AuditEvent::default()).await.unwrap();
        assert!(has().await);
    }

    #[test]
    fn a_certificate_is_reported_14_days_before_it_expires() {
        let now = Timestamp(1_000_000_000_000);
        let day = Duration::from_hours(24);
        for (days, verdict) in [(15, Verdict::Ok), (14, Verdict::Warning), (0, Verdict::Failed)] {
            let check = certificate(now.after(day * days), now);
            assert_eq!(check.status, verdict, "{days}");
            assert!(check.detail.contains("2001-09-"), "{}", check.detail);
        }
    }
}
