//! The alarms of an organization. They are set while there is something for them to do.

use std::time::Duration;

use steadfast_core::{Handle, Result, Turn};

use crate::{OrganizationAgent, SweepStuck, SweepTombstones, upload};

/// The alarm that looks for rows whose run was lost.
pub(crate) const SWEEP_STUCK: &str = "sweep-stuck";

/// The alarm that removes expired tombstones.
const SWEEP_TOMBSTONES: &str = "sweep-tombstones";

/// Sets the alarms that are needed and not set. Every turn does so, because an alarm that failed
/// too often was given up.
///
/// An alarm that is set stays where it is, or many changes would postpone it for ever.
pub(crate) fn arm(agent: &OrganizationAgent, turn: &Turn<OrganizationAgent>) -> Result<()> {
    let alarms = turn.alarms()?;
    let is_set = |name| alarms.iter().any(|it| it.name == name && !it.failed);
    if !is_set(SWEEP_STUCK) && upload::has_open_rows(turn.sql())? {
        turn.set_alarm(SWEEP_STUCK, agent.stuck_after, SweepStuck::first());
    }
    if !is_set(SWEEP_TOMBSTONES)
        && let Some(oldest) = upload::oldest_tombstone(turn.sql())?
    {
        let wait = oldest.saturating_sub(agent.tombstones_expire(turn));
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
        turn.set_alarm(SWEEP_TOMBSTONES, wait, SweepTombstones);
    }
    Ok(())
}

impl OrganizationAgent {
    /// Tombstones that are not younger than this have expired.
    pub(crate) fn tombstones_expire(&self, turn: &Turn<Self>) -> i64 {
        let keep = i64::try_from(self.keep_tombstones.as_millis()).unwrap_or(i64::MAX);
        turn.now().0.saturating_sub(keep)
    }
}

impl Handle<SweepTombstones> for OrganizationAgent {
    const NAME: &'static str = "sweep-tombstones";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, _: SweepTombstones) -> Result<()> {
        let until = self.tombstones_expire(turn);
        turn.sql().execute("DELETE FROM Tombstone WHERE deletedAt <= ?1", [until])?;
        arm(self, turn)
    }
}
