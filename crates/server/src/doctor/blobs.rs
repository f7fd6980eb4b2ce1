//! Blobs whose contents are damaged or missing.

use std::time::Duration;

use steadfast_api::server::Check;
use steadfast_store::{Clock, SystemClock, Timestamp};

use crate::server::Server;

const NAME: &str = "blobs";

/// Findings of the checks in the background; `None` if the program has no buckets.
pub(super) async fn check(server: &Server) -> Option<Check> {
    let buckets = server.buckets().ok()?;
    let record = match buckets.check_record().await {
        Ok(record) => record,
        Err(error) => return Some(Check::failed(NAME, format!("cannot be read: {error}"))),
    };
    let found = if record.now.unreadable == 0 { &record.last } else { &record.now };
    // Some may have been repaired since.
    let still = match buckets.still_unreadable(found.named.clone()).await {
        Ok(still) => still,
        Err(error) => return Some(Check::failed(NAME, format!("cannot be read: {error}"))),
    };
    let repaired = (found.named.len() - still.len()) as u64;
    let left = found.unreadable - repaired;
    Some(match record.ended_at {
        _ if left != 0 => {
            let names = still.iter().map(|it| format!("{}/{} ({})", it.bucket, it.key, it.code));
            Check::failed(NAME, unreadable(left, names))
        }
        _ if record.is_emptied() => Check::failed(
            NAME,
            "the folder of their contents is new; stop the server and put back the folder that \
             belongs to this store",
        ),
        _ if is_recent(record.restored_at) => Check::warning(
            NAME,
            "another copy of this store used their contents last: this one may be older, from a \
             backup, and lack what was acknowledged since",
        ),
        None => Check::ok(NAME, "not all checked yet; `steadfast doctor --deep` reads them now"),
        Some(ended_at) => {
            let (blobs, at) = (record.last.blobs, Timestamp(ended_at));
            let repaired = if repaired == 0 { "" } else { ", or have them again" };
            let text = format!("{blobs} blobs had the bytes that were written{repaired}, at {at}");
            Check::ok(NAME, text)
        }
    })
}

/// An operator who restored a backup knows it after a week.
pub(super) fn is_recent(at: Option<i64>) -> bool {
    at.is_some_and(|at| SystemClock.now() < Timestamp(at).after(Duration::from_hours(7 * 24)))
}

/// Says which blobs cannot be read.
pub(crate) fn unreadable(count: u64, names: impl Iterator<Item = String>) -> String {
    let shown: Vec<String> = names.take(5).collect();
    format!(
        "{count} of the blobs cannot be read as they were written: {}; restore their files from a \
         backup, or write them again",
        shown.join(", ")
    )
}
