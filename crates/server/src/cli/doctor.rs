//! `steadfast doctor`.

use steadfast_api::server::Examination;

use super::{
    client::Client,
    output::{print, print_json},
    table::Table,
};
use crate::{args::DoctorArgs, failure::Failure};

/// Prints the checks; fails if one of them failed.
pub(crate) fn doctor(client: &Client, args: &DoctorArgs) -> Result<(), Failure> {
    let json = args.ask.json;
    let body = client.request(&args.examine, json)?;
    let found: Examination = client.read(&body)?;
    if json {
        print_json(&body)?;
    } else {
        let mut table = Table::new(&["CHECK", "STATUS", "DETAIL"]);
        for it in found.checks {
            table.row([it.name, it.status.name().into(), it.detail]);
        }
        print(&table.write())?;
    }
    if found.ok { Ok(()) } else { Err(Failure::Quiet) }
}
