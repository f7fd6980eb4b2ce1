//! The spend of organizations per calendar month, in millionths of a US dollar.

use std::time::Duration;

use steadfast_store::{
    Address, Commit, Count, DateTime, EntityKind, EntryKey, Outcome, Record, Rejection, Remember,
    StoreError, Timestamp, Write,
};

use crate::{
    BucketError, Buckets, QuotaError,
    quota::{QuotaRow, entry_of, signed},
};

/// Retention of the row of a month.
const KEEP_MONTHS: Duration = Duration::from_hours(400 * 24);

/// Retention of the id of an expense: a caller that repeats it later is counted twice.
const KEEP_IDS: Duration = Duration::from_hours(35 * 24);

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
        let scope = Address::new(EntityKind::System, "spend", organization)?.id();
        // The first amount counts, whatever a repetition says.
        let once = Remember::new(scope, id, b"")?.keep(KEEP_IDS);
        let count = Count::of(self.month(organization)?.0, signed(micros));
        let count = Count { expires: Some(KEEP_MONTHS), ..count };
        let commit = Commit::of(Write::Count(count)).write(Write::Remember(once));
        match self.shared.store.commit(commit).await? {
            Outcome::Committed(_) => Ok(true),
            Outcome::Duplicate(_) => Ok(false),
            Outcome::Rejected(Rejection::KeyReused { key }) => Err(BucketError::KeyReused { key }),
            // Nothing else is expected.
            Outcome::Rejected(rejection) => {
                Err(StoreError::Corrupt { reason: rejection.to_string() }.into())
            }
        }
    }

    /// The spend of an organization in this month.
    #[steadfast_store::boxed]
    pub async fn spent(&self, organization: &str) -> Result<u64, BucketError> {
        let micros = self.shared.store.counter(&self.month(organization)?.0).await?;
        Ok(u64::try_from(micros).unwrap_or(0))
    }

    /// Refuses if the organization has spent what it may spend in this month.
    #[steadfast_store::boxed]
    pub async fn check_spend(&self, organization: &str) -> Result<(), BucketError> {
        if !self.shared.known_quotas().await?.organizations.contains_key(organization) {
            return Ok(());
        }
        let row = Record::<QuotaRow>::read(&*self.shared.store, entry_of(organization)?).await?;
        let Some(limit) = row.value.and_then(|it| it.quota.spend) else { return Ok(()) };
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
