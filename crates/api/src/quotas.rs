//! Quotas of organizations: set, show, list, remove.

use clap::Args;
use serde::{Deserialize, Serialize};
use steadfast_bucket::Quota as Limits;
pub use steadfast_bucket::{QuotaInfo as Quota, QuotaUse};
use utoipa::ToSchema;

use crate::{
    Page,
    operation::{operation, requests},
};

/// Set the quota of an organization. A limit that is left out is removed.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SetQuota {
    /// Organization
    #[serde(skip)]
    pub organization: String,
    /// Maximum bytes of its blobs and unfinished uploads, like 500MB or 10GiB
    #[arg(long, env = "STEADFAST_BYTES", value_name = "BYTES", value_parser = read_bytes)]
    pub bytes: Option<u64>,
    /// Maximum number of its blobs
    #[arg(long, env = "STEADFAST_OBJECTS", value_name = "COUNT")]
    pub objects: Option<u64>,
    /// Maximum spend per calendar month in US dollars, like 50 or 12.50
    #[arg(
        long = "spend",
        env = "STEADFAST_SPEND",
        value_name = "DOLLARS",
        value_parser = read_dollars
    )]
    pub spend_micros: Option<u64>,
}
operation!(SetQuota => Quota, Put "/v1/quotas/{organization}" (organization), Operator, scope None,
    errors [InvalidName, InvalidInput, BucketNotFound]);

requests! {
    /// List the quotas, and what their organizations use.
    paged ListQuotas {} => Page<Quota>, Get "/v1/quotas", Viewer, scope None,
        errors [BucketNotFound];

    /// Show the quota of an organization, and what it uses.
    plain ShowQuota {
        /// Organization
        organization: String,
    } => Quota, Get "/v1/quotas/{organization}", Viewer, scope None,
        errors [InvalidInput, BucketNotFound, QuotaNotFound];

    /// Remove the quota of an organization. Nothing that it stores is removed.
    plain RemoveQuota {
        /// Organization
        organization: String,
    } => RemovedQuota, Delete "/v1/quotas/{organization}", Operator, scope None,
        errors [InvalidInput, BucketNotFound, QuotaNotFound];
}

/// The name and the use of each kind, and how its amounts are written for people.
pub fn kinds(it: &Quota) -> [(&'static str, QuotaUse, WriteAmount); 3] {
    let plain: WriteAmount = |it| it.to_string();
    [
        ("bytes", it.bytes, plain),
        ("objects", it.objects, plain),
        ("spend this month", it.spend_micros, dollars),
    ]
}

/// Writes an amount for people.
pub type WriteAmount = fn(u64) -> String;

/// Millionths of a US dollar, in dollars and cents.
fn dollars(micros: u64) -> String {
    format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000)
}

/// A quota that was removed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RemovedQuota {
    /// The organization.
    pub organization: String,
}

impl From<&SetQuota> for Limits {
    fn from(it: &SetQuota) -> Self {
        Self { bytes: it.bytes, objects: it.objects, spend: it.spend_micros }
    }
}

/// Units of bytes, the longest first.
const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// A number of bytes, with or without a unit.
fn read_bytes(text: &str) -> Result<u64, String> {
    let found = UNITS.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, size)));
    let (digits, size) = found.unwrap_or((text.strip_suffix('B').unwrap_or(text), &1));
    let count: Option<u64> = digits.trim_end().parse().ok();
    count.and_then(|it| it.checked_mul(*size)).ok_or_else(|| {
        format!("`{text}` is not a number of bytes; write one like 500MB, 10GiB or 1048576")
    })
}

/// US dollars in millionths.
fn read_dollars(text: &str) -> Result<u64, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_good = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    let wrong = || format!("`{text}` is not an amount of US dollars; write one like 50 or 12.50");
    if !is_good(whole) || !is_good(part) || 6 < part.len() {
        return Err(wrong());
    }
    let micros: u64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
    let whole: Option<u64> = whole.parse().ok();
    let whole = whole.and_then(|it| it.checked_mul(1_000_000));
    whole.and_then(|it| it.checked_add(micros)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units_and_dollars_have_cents() {
        let sizes = [("7", 7), ("7B", 7), ("2kB", 2_000), ("1 KiB", 1_024), ("10GiB", 10 << 30)];
        for (text, bytes) in sizes {
            assert_eq!(read_bytes(text), Ok(bytes), "{text}");
        }
        for bad in ["", "GiB", "-1", "1.5GB", "1XB", "99999999TiB"] {
            assert!(read_bytes(bad).is_err(), "{bad}");
        }
        for (text, micros) in [("50", 50_000_000), ("12.5", 12_500_000), ("0.000001", 1)] {
            assert_eq!(read_dollars(text), Ok(micros), "{text}");
        }
        for bad in ["", ".", "1.", ".5", "-1", "1.0000001", "1e3", "99999999999999999999"] {
            assert!(read_dollars(bad).is_err(), "{bad}");
        }
    }
}
