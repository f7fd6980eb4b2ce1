//! `steadfast audit …`.

use clap::Args;
use steadfast_api::{
    LIMIT_MAX, Limit, Page,
    audit::{AuditEntry, ListAudit},
};

use super::{client::Client, noun::Noun, output::try_print};
use crate::{args::AskArgs, failure::Failure, pages::audit::columns};

pub(super) fn noun() -> Noun {
    Noun::new("audit", "Read the audit log")
        .verb::<ListAudit>(
            "tail",
            &["audit tail --limit 20", "audit tail --actor ABCDEFGHIJ --since 2026-11-15"],
            |_, page| tail(page),
        )
        .custom(
            "export",
            (
                "Print all records as lines of JSON, newest first",
                &["audit export", "audit export --since 2026-11-01 --until 2026-12-01"],
            ),
            export,
        )
}

#[derive(Args)]
struct ExportArgs {
    /// Filter by the id or name of a token or access key, or the address of a client
    #[arg(long, env = "STEADFAST_ACTOR", value_name = "ACTOR")]
    actor: Option<String>,
    /// Filter by a part of the action, as in `DELETE` or `/v1/tokens`
    #[arg(long, env = "STEADFAST_ACTION", value_name = "TEXT")]
    action: Option<String>,
    /// Only records of this time or later, as in 2026-11-15T12:30:00Z
    #[arg(long, env = "STEADFAST_SINCE", value_name = "TIME")]
    since: Option<String>,
    /// Only records before this time
    #[arg(long, env = "STEADFAST_UNTIL", value_name = "TIME")]
    until: Option<String>,
}

fn export(client: &Client, it: ExportArgs, ask: &AskArgs) -> Result<(), Failure> {
    let ExportArgs { actor, action, since, until } = it;
    let (limit, cursor) = (Limit::of(LIMIT_MAX), None);
    let mut request = ListAudit { actor, action, since, until, limit, cursor };
    loop {
        let page = client.send(&request, ask.json)?;
        let mut lines = String::new();
        for it in &page.items {
            lines += &serde_json::to_string(it).map_err(std::io::Error::from)?;
            lines.push('\n');
        }
        // The reader may have closed the pipe.
        if !try_print(&lines)? || page.next.is_none() {
            return Ok(());
        }
        request.cursor = page.next;
    }
}

fn tail(page: &Page<AuditEntry>) -> String {
    if page.items.is_empty() {
        return "nothing is recorded; records begin when access is closed\n".into();
    }
    columns().write(page.items.iter().rev())
}
