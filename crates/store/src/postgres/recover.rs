//! Reconnects after the connection was lost, and determines the outcome of the last commit.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::{Instant, interval_at, timeout};

use super::{
    batch_error::{BatchError, StopReason},
    loss,
    node::{AcknowledgedBatch, answers, lease_end},
    writer::{CALLERS_WAIT, PreparedSession, Writer, refuse},
};
use crate::{Clock, Health, StoreError, SystemClock, sql::queries, writer::Request};

/// Timeout of one attempt to reconnect.
const RECONNECT_MAX: Duration = Duration::from_secs(10);

impl Writer {
    /// Reconnects and raises the epoch, so that the lost connection can no longer commit; returns
    /// the last batch that it did commit. Callers that wait too long get an error.
    pub(super) async fn recover(
        &mut self,
        reason: &str,
        batch: &mut Vec<Request>,
        since: Instant,
        in_doubt: bool,
    ) -> Result<i64, StopReason> {
        self.status.set_health(Health::Degraded { reason: reason.into() });
        self.session.session.end();
        let mut delay = Duration::from_millis(50);
        let unavailable = StoreError::Unavailable { reason: reason.into() };
        loop {
            let left =
                Some(CALLERS_WAIT.saturating_sub(since.elapsed())).filter(|it| !it.is_zero());
            let attempt = left.map_or(RECONNECT_MAX, |it| it.min(RECONNECT_MAX));
            match timeout(attempt, self.reconnect()).await {
                Ok(Ok(last_batch)) => {
                    self.status.set_health(Health::Ready);
                    return Ok(last_batch);
                }
                Ok(Err(BatchError::Fenced)) => return Err(StopReason::Fenced),
                Ok(Err(BatchError::Behind(lost))) => return Err(StopReason::Behind(lost)),
                Ok(Err(error)) => tracing::warn!(error = ?error, "store is not reachable"),
                Err(_) => tracing::warn!("store does not answer"),
            }
            if self.requests.is_closed() {
                return Err(StopReason::Closed);
            }
            if CALLERS_WAIT <= since.elapsed() {
                refuse(std::mem::take(&mut self.alone), &unavailable);
                refuse(self.requests.take_waiting(), &unavailable);
                let unknown = StoreError::Unknown { reason: reason.into() };
                refuse(std::mem::take(batch), if in_doubt { &unknown } else { &unavailable });
            }
            interval_at(Instant::now() + delay, delay).tick().await;
            delay = (delay * 2).min(Duration::from_secs(1));
        }
    }

    /// Each attempt requests a higher epoch: an abandoned attempt may still arrive, and must then
    /// change nothing.
    async fn reconnect(&mut self) -> Result<i64, BatchError> {
        self.epoch += 1;
        let mut session = self.target.connect().await?;
        let known = self.link.acknowledged();
        // A server that has not noticed the end of the connection would keep the row locked.
        let (pid, since) = &self.session.backend;
        let lost = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid = $1 AND backend_start::text = $2";
        session.client.execute(lost, &[pid, since]).await?;
        let asked_at = SystemClock.elapsed();
        let tx = session.client.transaction().await?;
        // Waits until the lost backend has ended.
        let node = "SELECT epoch, last_batch, process FROM node WHERE id = 1 FOR UPDATE";
        let node = tx.query_one(node, &[]).await?;
        let position: i64 = tx.query_one(queries::COUNTER, &[]).await?.get(0);
        let (batch, is_ours) = (node.get(1), node.get::<_, &str>(2) == self.process);
        // Positions are independent of the owner; batch numbers belong to this one.
        let commits = if is_ours { batch } else { 0 };
        let found = AcknowledgedBatch { epoch: node.get(0), batch, commits, position };
        let is_before = is_ours || found.epoch < known.epoch;
        if found.position < known.position || (is_before && found.commits < known.commits) {
            let lost = loss::note(&tx, known, found, self.status.clock.now()).await?;
            tx.commit().await?;
            return Err(BatchError::Behind(lost));
        }
        if !is_ours {
            return Err(BatchError::Fenced);
        }
        let raise = format!(
            "UPDATE node SET epoch = $1, lease_until = {} WHERE id = 1 AND epoch < $1",
            lease_end(self.target.lease)
        );
        if tx.execute(&raise, &[&self.epoch]).await? != 1 {
            return Err(BatchError::Fenced);
        }
        tx.commit().await?;
        if session.take_warning() {
            return Err(BatchError::Lost("the database warned of the commit".into()));
        }
        self.status.epoch.store(self.epoch, Ordering::Release);
        self.status.set_lease(asked_at + answers(self.target.lease));
        self.link.reconnected(AcknowledgedBatch { epoch: self.epoch, batch: found.batch, ..known });
        self.session = PreparedSession::new(session, self.target.lease).await?;
        Ok(found.batch)
    }
}
