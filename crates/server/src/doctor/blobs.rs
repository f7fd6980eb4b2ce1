//! Blobs whose contents are damaged or missing, and organizations that have used most of their
//! quotas.

use std::time::Duration;

use steadfast_api::{quotas::Quota, server::Check};
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

/// Percent of a quota from which on it is reported.
const NEARLY: u64 = 90;

/// Quotas per read.
const PAGE: usize = 1_000;

/// Names the organizations that are near their limits; `None` if there are no quotas.
pub(super) async fn quotas(server: &Server) -> Option<Check> {
    let name = "quotas";
    let buckets = server.buckets().ok()?;
    let (mut count, mut full, mut last) = (0, Vec::new(), None);
    loop {
        let page = match buckets.quotas(last.as_deref(), PAGE).await {
            Ok(page) => page,
            Err(error) => return Some(Check::failed(name, format!("cannot be read: {error}"))),
        };
        let Some(end) = page.last() else { break };
        (last, count) = (Some(end.organization.clone()), count + page.len());
        full.extend(page.into_iter().filter_map(|it| nearly_full(&it)));
    }
    if count == 0 {
        return None;
    }
    if full.is_empty() {
        return Some(Check::ok(name, format!("{count}, each used below {NEARLY} %")));
    }
    let shown = full.iter().take(5).map(String::as_str).collect::<Vec<_>>().join("; ");
    let detail = format!(
        "{} of {count} organizations use {NEARLY} % or more: {shown}; raise a quota with \
         `steadfast quotas set`",
        full.len()
    );
    Some(Check::warning(name, detail))
}

fn nearly_full(quota: &Quota) -> Option<String> {
    let kinds = [("bytes", quota.bytes), ("objects", quota.objects), ("spend", quota.spend_micros)];
    let full: Vec<&str> = kinds.iter().filter(|it| it.1.reaches(NEARLY)).map(|it| it.0).collect();
    (!full.is_empty()).then(|| format!("{} ({})", quota.organization, full.join(", ")))
}
