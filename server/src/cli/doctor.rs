//! `steadfast doctor`.

use super::{
    client::Client,
    output::{print, print_json},
    table::Table,
};
use crate::{args::AskArgs, doctor::Examination, failure::Failure};

/// Prints what was found; fails if a check did.
pub(super) fn doctor(client: &Client, args: &AskArgs) -> Result<(), Failure> {
    let body = client.get("/v1/doctor", args.json)?;
    let found: Examination = client.read(&body)?;
    if args.json {
        print_json(&body)?;
    } else {
        let mut table = Table::new(&["CHECK", "STATUS", "DETAIL"]);
        for it in found.checks {
            table.row([it.name, it.status.word().into(), it.detail]);
        }
        print(&table.write())?;
    }
    if found.ok { Ok(()) } else { Err(Failure::Quiet) }
}
