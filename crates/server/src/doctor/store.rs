//! Checks of the store.

use steadfast_api::server::Check;
use steadfast_store::{Health, Setting, Store};

/// Checks that need only the store.
pub(super) async fn checks(store: &dyn Store, works: bool, deep: bool) -> Vec<Check> {
    let mut checks = vec![health(store), invariants(store, deep).await];
    checks.extend(work(store, works).await);
    checks.extend(settings(store).await);
    checks
}

/// The settings of the database that durability depends on.
async fn settings(store: &dyn Store) -> Vec<Check> {
    match store.settings().await {
        Ok(settings) => settings
            .into_iter()
            .map(|Setting { name, value, concern }| match concern {
                Some(concern) => Check::warning(&name, format!("{value}: {concern}")),
                None => Check::ok(&name, value),
            })
            .collect(),
        Err(error) => vec![Check::failed("settings", error.to_string())],
    }
}

fn health(store: &dyn Store) -> Check {
    match store.health() {
        Health::Ready => Check::ok("store", format!("can write, epoch {}", store.owner().epoch)),
        Health::Degraded { reason } => {
            Check::warning("store", format!("cannot write now: {reason}"))
        }
        Health::Failed { reason } => Check::failed("store", format!("failed: {reason}")),
    }
}

/// The invariants cover all rows. In a store with more positions than this, only `--deep` checks
/// them.
const SMALL: i64 = 20_000;

async fn invariants(store: &dyn Store, deep: bool) -> Check {
    let is_small = store.totals().await.is_ok_and(|it| it.position <= SMALL);
    if !is_small && !deep {
        let how = "not checked in a store of this size; `steadfast doctor --deep` reads every row";
        return Check::ok("invariants", how);
    }
    match store.violations().await {
        Ok(found) if found.is_empty() => Check::ok("invariants", "all hold"),
        Ok(found) => Check::failed("invariants", found.join("; ")),
        Err(error) => Check::failed("invariants", error.to_string()),
    }
}

async fn work(store: &dyn Store, works: bool) -> [Check; 2] {
    let totals = match store.totals().await {
        Ok(totals) => totals,
        Err(error) => {
            let failed = |name| Check::failed(name, error.to_string());
            return [failed("pending"), failed("dead")];
        }
    };
    let pending = match totals.pending {
        0 => Check::ok("pending", "no message is pending"),
        count if works => Check::ok("pending", format!("{count} messages are pending")),
        // Only the program with their handlers delivers messages.
        count => Check::warning(
            "pending",
            format!("{count} messages are pending, and nothing in this process handles them"),
        ),
    };
    let dead = match totals.dead {
        0 => Check::ok("dead", "no message is dead"),
        count => Check::warning(
            "dead",
            format!("{count} messages are dead; see `steadfast streams dead`"),
        ),
    };
    [pending, dead]
}
