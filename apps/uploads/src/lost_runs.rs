//! Rows whose run ended without a result, or is lost, are found and retried.

use std::{sync::Arc, time::Duration};

use steadfast_core::{Error, Handle, Outcome, Perform, Result, RunError, Runs, Turn, Workflow};

use crate::{
    FindLostRuns, OrganizationAgent, OrganizationWorkflow, SweepStuck,
    agent::fail,
    alarms::{self, SWEEP_STUCK},
    upload,
};

/// Rows that one sweep looks at.
const PAGE: usize = 200;

/// A row that lost more runs since its user last retried it is failed: its user may retry it.
const LOST_MAX: u32 = 5;

type FindRuns = dyn Fn() -> Option<Runs> + Send + Sync;

/// Looks runs up. The program that it is a part of gives the runs when it has started.
#[derive(Clone)]
pub struct RunLookup(Arc<FindRuns>);

impl RunLookup {
    /// Looks runs up here.
    pub fn new(runs: impl Fn() -> Option<Runs> + Send + Sync + 'static) -> Self {
        Self(Arc::new(runs))
    }
}

impl Perform<FindLostRuns> for RunLookup {
    async fn perform(&self, job: FindLostRuns, _: &str) -> Result<Vec<String>> {
        let runs = (self.0)().ok_or_else(|| Error::retryable("the program does not run"))?;
        let mut lost = Vec::new();
        for id in job.workflow_ids {
            match runs.phase(OrganizationWorkflow::NAME, &id).await {
                Ok(phase) if phase.is_final() => lost.push(id),
                Ok(_) => {}
                Err(RunError::UnknownRun { .. }) => lost.push(id),
                Err(error) => return Err(Error::retryable(error)),
            }
        }
        Ok(lost)
    }
}

impl Handle<SweepStuck> for OrganizationAgent {
    const NAME: &'static str = "sweep-stuck";
    type Reply = ();

    fn handle(&self, turn: &Turn<Self>, msg: SweepStuck) -> Result<()> {
        let patience = i64::try_from(self.stuck_after.as_millis()).unwrap_or(i64::MAX);
        let until = turn.now().0.saturating_sub(patience);
        let rows = upload::open_rows(turn.sql(), &msg.after, PAGE)?;
        let stuck = rows.iter().filter(|it| it.updated_at <= until);
        let workflow_ids: Vec<_> = stuck.map(|it| it.workflow_id.clone()).collect();
        if !workflow_ids.is_empty() {
            turn.perform(&FindLostRuns { workflow_ids });
        }
        let is_more = rows.len() == PAGE;
        match rows.into_iter().last() {
            Some(last) if is_more => {
                turn.set_alarm(SWEEP_STUCK, Duration::ZERO, SweepStuck { after: last.name });
            }
            Some(_) => turn.set_alarm(SWEEP_STUCK, self.stuck_after, SweepStuck::first()),
            None if msg.after.is_empty() => {}
            None => turn.set_alarm(SWEEP_STUCK, self.stuck_after, SweepStuck::first()),
        }
        alarms::arm(self, turn)
    }
}

impl Handle<Outcome<FindLostRuns>> for OrganizationAgent {
    const NAME: &'static str = "lost-runs-found";
    type Reply = ();

    /// A run reports its result before it ends, so a row that is still open here got none.
    fn handle(&self, turn: &Turn<Self>, msg: Outcome<FindLostRuns>) -> Result<()> {
        // The next sweep asks again.
        let Ok(lost) = msg.result else { return Ok(()) };
        for workflow_id in lost {
            let Some(row) = upload::find_open(turn.sql(), &workflow_id)? else { continue };
            let (_, lost) = upload::lost_runs(turn.sql(), &row.name)?;
            upload::lose_run(turn.sql(), &row.name)?;
            if lost < LOST_MAX {
                self.begin_again(turn, &row)?;
            } else {
                let runs = lost + 1;
                let error = format!("{runs} runs ended without a result; retry it");
                fail(turn, &row.event_id, &workflow_id, &error)?;
            }
        }
        alarms::arm(self, turn)
    }
}
