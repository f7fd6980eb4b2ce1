//! Coming back after the database went away, and finding out how the last commit ended.

use std::{sync::atomic::Ordering, time::Duration};

use tokio::time::{Instant, interval_at, timeout};

use super::{
    owner,
    trouble::{Stop, Trouble},
    writer::{Line, Writer, refuse},
};
use crate::{Health, StoreError, writer::Request};

/// After so long without the database, those who wait are told.
const REFUSE_AFTER: Duration = Duration::from_secs(10);

/// After so long without the database, those whose commit is in doubt are told that it is.
const DOUBT_AFTER: Duration = Duration::from_secs(30);

/// An attempt to connect again that takes longer is given up for the next one.
const RECONNECT_MAX: Duration = Duration::from_secs(10);

impl Writer {
    /// Connects again and raises our epoch, so that the lost connection can no longer commit;
    /// returns the last batch that it did commit. Who waits too long is told so.
    pub(super) async fn recover(
        &mut self,
        reason: &str,
        batch: &mut Vec<Request>,
        in_doubt: bool,
    ) -> Result<i64, Stop> {
        self.status.set_health(Health::Degraded { reason: reason.into() });
        let (began, mut delay) = (Instant::now(), Duration::from_millis(50));
        let unavailable = StoreError::Unavailable { reason: reason.into() };
        loop {
            match timeout(RECONNECT_MAX, self.reconnect()).await {
                Ok(Ok(last_batch)) => {
                    self.status.set_health(Health::Ready);
                    return Ok(last_batch);
                }
                Ok(Err(Trouble::Fenced)) => return Err(Stop::Fenced),
                Ok(Err(trouble)) => tracing::debug!(error = ?trouble, "store is not reachable"),
                Err(_) => tracing::debug!("store does not answer"),
            }
            if self.requests.is_closed() {
                return Err(Stop::Closed);
            }
            if REFUSE_AFTER <= began.elapsed() {
                refuse(self.requests.take_waiting(), &unavailable);
                if !in_doubt {
                    refuse(std::mem::take(batch), &unavailable);
                }
            }
            if DOUBT_AFTER <= began.elapsed() {
                refuse(std::mem::take(batch), &StoreError::Unknown { reason: reason.into() });
            }
            interval_at(Instant::now() + delay, delay).tick().await;
            delay = (delay * 2).min(Duration::from_secs(1));
        }
    }

    async fn reconnect(&mut self) -> Result<i64, Trouble> {
        // Never the same twice, see `raise`.
        self.epoch += 1;
        let session = self.target.connect().await?;
        let last_batch = owner::raise(&session.client, &self.process, self.epoch).await?;
        self.status.epoch.store(self.epoch, Ordering::Release);
        self.line = Line::new(session).await?;
        Ok(last_batch)
    }
}
