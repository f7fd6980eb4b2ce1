//! `steadfast doctor`.

use std::io::{IsTerminal, Write, stderr};

use steadfast_api::server::{Check, CheckBlobs, UnreadableBlob, Verdict};

use super::{
    client::Client,
    output::{print, print_json},
    table::Table,
};
use crate::{args::DoctorArgs, doctor::blobs::unreadable, failure::Failure};

/// Prints the checks; fails if one of them failed.
pub(crate) fn doctor(client: &Client, args: &DoctorArgs) -> Result<(), Failure> {
    let json = args.ask.json;
    let mut found = client.send(&args.examine, json)?;
    if args.examine.deep {
        let checked = check_blobs(client, json)?;
        found.ok &= checked.status != Verdict::Failed;
        found.checks.retain(|it| it.name != checked.name);
        found.checks.push(checked);
    }
    if json {
        print_json(&serde_json::to_string(&found).map_err(std::io::Error::from)?)?;
    } else {
        let mut table = Table::new(&["CHECK", "STATUS", "DETAIL"]);
        for it in found.checks {
            table.row([it.name, it.status.name().into(), it.detail]);
        }
        print(&table.write())?;
    }
    if found.ok { Ok(()) } else { Err(Failure::Quiet) }
}

/// Reads the contents of all blobs, with a progress bar on a terminal.
fn check_blobs(client: &Client, json: bool) -> Result<Check, Failure> {
    let (mut total, mut blobs, mut bytes) = (0, 0, 0);
    let mut found: Vec<UnreadableBlob> = Vec::new();
    let mut cursor = None;
    loop {
        let part = client.send(&CheckBlobs { cursor }, json)?;
        (blobs, bytes) = (blobs + part.blobs, bytes + part.bytes);
        total = part.total.unwrap_or(total).max(blobs);
        found.extend(part.unreadable);
        show(&bar(blobs, total, bytes));
        cursor = part.next;
        if cursor.is_none() {
            break;
        }
    }
    show("");
    if found.is_empty() {
        let detail = format!("{blobs} blobs have the bytes that were written");
        return Ok(Check::ok("blobs", detail));
    }
    let names = found.iter().map(|it| format!("{}/{} ({})", it.bucket, it.key, it.code));
    Ok(Check::failed("blobs", unreadable(found.len() as u64, names)))
}

/// Replaces the line on a terminal.
fn show(line: &str) {
    let mut stderr = stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\x1b[K{line}");
        let _ = stderr.flush();
    }
}

fn bar(blobs: u64, total: u64, bytes: u64) -> String {
    const WIDTH: u64 = 30;
    let done = (WIDTH * blobs).checked_div(total).unwrap_or(WIDTH) as usize;
    let (full, rest) = ("=".repeat(done), " ".repeat(WIDTH as usize - done));
    format!("blobs [{full}{rest}] {blobs} of {total}, {} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_grows_to_its_end() {
        assert_eq!(bar(0, 0, 0), format!("blobs [{}] 0 of 0, 0 MiB", "=".repeat(30)));
        let half = format!("{}{}", "=".repeat(15), " ".repeat(15));
        assert_eq!(bar(2, 4, 3 << 20), format!("blobs [{half}] 2 of 4, 3 MiB"));
    }
}
