//! The spend of organizations per calendar month, in millionths of a US dollar.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Address, Commit, DateTime, EntityKind, Entry, EntryKey, Expect, Json, Outcome, Put, Rejection,
    Remember, StoreError, Timestamp, Write,
};

use crate::{
    BucketError, Buckets, QuotaError,
    quota::{QuotaRow, entry_of},
};

/// Retention of the row of a month.
const KEEP_MONTHS: Duration = Duration::from_hours(400 * 24);

/// Retention of the id of an expense: a caller that repeats it later is counted twice.
const KEEP_IDS: Duration = Duration::from_hours(35 * 24);

/// The spend of an organization in a month.
#[derive(Serialize, Deserialize)]
struct SpendRow {
    micros: u64,
}

impl SpendRow {
    fn read(entry: Option<&Entry>) -> Result<u64, BucketError> {
        let Some(value) = entry.and_then(|it| it.value.as_ref()) else { return Ok(0) };
        let row: SpendRow = serde_json::from_str(value.as_str()).map_err(|error| {
            let reason = format!("spend of an organization: {error}");
            BucketError::Store(StoreError::Corrupt { reason })
        })?;
        Ok(row.micros)
    }
}

impl Buckets {
    /// Adds an expense of an organization to this month. An id counts once within 35 days: a
    /// repetition returns `false`.
    #[steadfast_store::boxed]
    pub async fn spend(
        &self,
        organization: &str,
        id: &str,
        micros: u64,
    ) -> Result<bool, BucketError> {
        entry_of(organization)?;
        let store = &self.shared.store;
        let scope = Address::new(EntityKind::System, "spend", organization)?.id();
        // The first amount counts, whatever a repetition says.
        let once = Remember::new(scope, id, b"")?.keep(KEEP_IDS);
        loop {
            let entry = self.month(organization)?.0;
            let found = store.entry(&entry).await?;
            let revision = found.as_ref().map_or(0, |it| it.revision);
            let micros = SpendRow::read(found.as_ref())?.saturating_add(micros);
            let (value, expires) = (Some(Json::of(&SpendRow { micros })?), Some(KEEP_MONTHS));
            let put = Put { entry: entry.clone(), value, reference: None, expires };
            let commit = Commit::of(Write::Put(put))
                .expect(Expect::Revision { entry, revision })
                .write(Write::Remember(once.clone()));
            match store.commit(commit).await? {
                Outcome::Committed(_) => return Ok(true),
                Outcome::Duplicate(_) => return Ok(false),
                Outcome::Rejected(Rejection::KeyReused { key }) => {
                    return Err(BucketError::KeyReused { key });
                }
                // Another expense was committed first.
                Outcome::Rejected(_) => {}
            }
        }
    }

    /// The spend of an organization in this month.
    #[steadfast_store::boxed]
    pub async fn spent(&self, organization: &str) -> Result<u64, BucketError> {
        let entry = self.shared.store.entry(&self.month(organization)?.0).await?;
        SpendRow::read(entry.as_ref())
    }

    /// Refuses if the organization has spent what it may spend in this month.
    #[steadfast_store::boxed]
    pub async fn check_spend(&self, organization: &str) -> Result<(), BucketError> {
        if !self.shared.known_quotas().await?.organizations.contains(organization) {
            return Ok(());
        }
        let row = self.shared.store.entry(&entry_of(organization)?).await?;
        let row = row.as_ref().map(QuotaRow::read).transpose()?.flatten();
        let Some(limit) = row.and_then(|it| it.quota.spend) else { return Ok(()) };
        let used = self.spent(organization).await?;
        if used < limit {
            return Ok(());
        }
        let next = self.month(organization)?.1;
        let seconds = next.since(self.shared.clock.now()).as_secs();
        let organization = organization.into();
        Err(QuotaError::Spend { organization, used, limit, seconds }.into())
    }

    /// The entry of this month, and the begin of the next one.
    fn month(&self, organization: &str) -> Result<(EntryKey, Timestamp), BucketError> {
        let (month, next) = month_of(self.shared.clock.now())?;
        let key = format!("{organization}/{month}");
        Ok((EntryKey::new("spend", key.as_bytes())?, next))
    }
}

/// The month of a time in UTC as `2026-11`, and the begin of the next one.
fn month_of(at: Timestamp) -> Result<(String, Timestamp), BucketError> {
    let found = DateTime::of(at).and_then(|DateTime { year, month, .. }| {
        let next = DateTime::midnight(year + month / 12, month % 12 + 1, 1)?;
        Some((format!("{year:04}-{month:02}"), next))
    });
    found.ok_or_else(|| {
        let reason = "the clock is outside of the calendar".into();
        BucketError::Store(StoreError::Failed { reason })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(text: &str) -> (String, String) {
        let (month, next) = month_of(Timestamp::from_rfc3339(text).unwrap()).unwrap();
        (month, next.rfc3339())
    }

    #[test]
    fn months_are_those_of_utc() {
        let of = |month: &str, next: &str| (month.to_owned(), next.to_owned());
        assert_eq!(month("2026-11-30T23:59:59.999Z"), of("2026-11", "2026-12-01T00:00:00.000Z"));
        assert_eq!(month("2026-12-01T00:00:00Z"), of("2026-12", "2027-01-01T00:00:00.000Z"));
        assert_eq!(month("2028-02-29T12:00:00Z"), of("2028-02", "2028-03-01T00:00:00.000Z"));
    }
}
