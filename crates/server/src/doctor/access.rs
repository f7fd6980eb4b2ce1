//! Access, transport and the audit log.

use steadfast_api::server::Check;

use crate::server::Server;

/// Records of the audit log that are checked.
const RECORDS: usize = 1_000;

/// Checks the mode of access, expired credentials and the audit log.
pub(super) async fn checks(server: &Server) -> Vec<Check> {
    let mut checks = vec![mode(server).await];
    if let Ok(true) = server.runtime.tokens().is_closed().await {
        checks.push(audit(server).await);
    }
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
            let is_safe = server.transport().is_safe_for_network();
            let way = if is_safe { "TLS or a trusted proxy" } else { "loopback only" };
            Check::ok("access", format!("closed, {way}"))
        }
    }
}

async fn audit(server: &Server) -> Check {
    let name = "audit log";
    match server.runtime.audit().broken(RECORDS).await {
        Ok(None) => Check::ok(name, format!("the last {RECORDS} records follow each other")),
        Ok(Some(number)) => {
            let detail = format!(
                "record {number} does not follow the one before it: a record was changed or \
                 removed; compare with a backup"
            );
            Check::failed(name, detail)
        }
        Err(error) => Check::failed(name, format!("it cannot be read: {error}")),
    }
}
