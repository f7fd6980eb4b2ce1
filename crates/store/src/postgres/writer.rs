//! The one thread that writes: it takes a batch, decides it, and commits it in two round trips.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, timeout};
use tokio_postgres::{Client, Error, Statement, types::ToSql};

use super::{
    batch::{self, Statements, WriteFailure, send},
    batch_error::{BatchError, StopReason, text},
    connect::{Session, Target},
    loss::Memo,
    node::{self, AcknowledgedBatch, HEARTBEAT, WriterLink},
    owner::Ownership,
};
use crate::{
    Clock, Health, OpenError, StoreError, SystemClock, crash,
    plan::{self, Facts, Needs, Plan},
    writer::{Request, Requests, Status},
};

/// Timeout of a round trip: the server cancels a statement earlier.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(40);

/// Silence after which the writer looks whether the server still works on its statements. The look
/// may take as long.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Time after which callers get an error: that nothing was written, or that a commit is in doubt.
pub(super) const CALLERS_WAIT: Duration = Duration::from_secs(9);

/// A connection with all its statements prepared.
pub(super) struct PreparedSession {
    pub(super) session: Session,
    /// The process of the server, and when it began.
    pub(super) backend: (i32, String),
    fence: Statement,
    statements: Statements,
}

impl PreparedSession {
    pub(super) async fn new(session: Session, lease: Duration) -> Result<Self, Error> {
        let client = &session.client;
        // All statements find their rows by a key; tables that look small may have many dead rows.
        client.batch_execute("SET enable_seqscan = off; SET jit = off").await?;
        let backend = "SELECT pid, backend_start::text FROM pg_stat_activity \
             WHERE pid = pg_backend_pid()";
        let backend = client.query_one(backend, &[]).await?;
        let backend = (backend.get(0), backend.get(1));
        // Fence and outcome are recorded in one row; it is a heartbeat as well.
        let fence = format!(
            "UPDATE node SET last_batch = $1, lease_until = {} \
             WHERE id = 1 AND epoch = $2 AND last_batch = $3",
            node::lease_end(lease)
        );
        let fence = client.prepare(&fence).await?;
        let statements = Statements::prepare(client).await?;
        Ok(Self { session, backend, fence, statements })
    }

    fn client(&self) -> &Client {
        &self.session.client
    }
}

pub(super) struct Writer {
    pub(super) target: Target,
    pub(super) session: PreparedSession,
    pub(super) requests: Requests,
    pub(super) status: Arc<Status>,
    pub(super) link: Arc<WriterLink>,
    pub(super) process: String,
    pub(super) epoch: i64,
    batch: i64,
    /// The current history.
    lineage: i64,
    memo: Option<Memo>,
    /// Requests of a batch that failed, which are tried one by one.
    pub(super) alone: VecDeque<Request>,
}

/// The failure of a batch.
struct Failure {
    error: BatchError,
    /// The plan, if COMMIT was sent: then only the node row shows the outcome.
    sent: Option<Box<Plan>>,
}

impl From<BatchError> for Failure {
    fn from(error: BatchError) -> Self {
        Self { error, sent: None }
    }
}

impl Writer {
    pub(super) async fn new(
        target: Target,
        session: Session,
        requests: Requests,
        (status, link, memo): (Arc<Status>, Arc<WriterLink>, Option<Memo>),
        held: Ownership,
    ) -> Result<Self, OpenError> {
        let session = PreparedSession::new(session, target.lease).await;
        let session = session.map_err(|error| target.failed(&error))?;
        let (process, epoch) = (held.process, held.owner.epoch);
        let lineage = held.lineages.current();
        Ok(Self {
            target,
            session,
            requests,
            status,
            link,
            process,
            epoch,
            batch: 0,
            lineage,
            memo,
            alone: VecDeque::new(),
        })
    }

    pub(super) async fn run(mut self) {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        heartbeat.reset();
        let panicked = self.status.fail_if_dropped();
        loop {
            let batch = tokio::select! {
                biased;
                batch = self.requests.next_batch() => batch,
                _ = heartbeat.tick() => {
                    self.status.heartbeats.fetch_add(1, Ordering::Relaxed);
                    Some(Vec::new())
                }
            };
            let Some(batch) = batch else { break };
            self.commit_batch(batch).await;
            // A batch is a heartbeat, too.
            heartbeat.reset();
        }
        panicked.disarm();
        // From now on another owner may return newer data.
        self.status.set_lease(Duration::ZERO);
        if !matches!(self.status.health(), Health::Failed { .. })
            && let Err(error) = self.in_time(self.leave()).await
        {
            tracing::warn!(error = ?error, "store could not be marked as closed");
        }
        if let Some(memo) = self.memo.take()
            && !matches!(self.status.health(), Health::Failed { .. })
        {
            memo.end(self.link.acknowledged()).await;
        }
    }

    async fn leave(&self) -> Result<(), BatchError> {
        Ok(node::leave(self.session.client(), self.epoch).await?)
    }

    async fn commit_batch(&mut self, mut batch: Vec<Request>) {
        if let Health::Failed { reason } = self.status.health() {
            let stopped = self.status.check_lease().err();
            return refuse(batch, &stopped.unwrap_or(StoreError::Failed { reason }));
        }
        let since = Instant::now();
        loop {
            let Failure { error, sent } = match self.transact(&batch).await {
                Ok(plan) => return self.answer(batch, *plan),
                Err(failure) => failure,
            };
            match error {
                BatchError::Lost(reason) => {
                    let number = self.batch;
                    let in_doubt = sent.is_some();
                    match (self.recover(&reason, &mut batch, since, in_doubt).await, sent) {
                        (Ok(last), Some(plan)) if last == number => {
                            return self.answer(batch, *plan);
                        }
                        // It certainly did not happen: repeat it.
                        (Ok(_), _) => {}
                        (Err(stop), sent) => return self.stopped(stop, batch, sent.is_some()),
                    }
                }
                BatchError::Fenced => return self.stopped(StopReason::Fenced, batch, false),
                BatchError::Behind(lost) => {
                    return self.stopped(StopReason::Behind(lost), batch, false);
                }
                // One commit may be at fault; the others must not fail with it.
                BatchError::Full | BatchError::Bug(_) if 1 < batch.len() => {
                    self.alone = batch.into();
                    while let Some(request) = self.alone.pop_front() {
                        Box::pin(self.commit_batch(vec![request])).await;
                    }
                    return;
                }
                BatchError::Full | BatchError::Bug(_) | BatchError::Later(_) => {
                    return self.refused(batch, error);
                }
            }
            if batch.is_empty() {
                return;
            }
        }
    }

    /// Decides and writes a batch in one transaction. An empty batch is a heartbeat.
    async fn transact(&mut self, batch: &[Request]) -> Result<Box<Plan>, Failure> {
        self.batch += 1;
        let asked_at = SystemClock.elapsed();
        self.session.session.take_warning();
        crash::point("commit.begun");
        let time = self.status.clock.batch_time();
        let commits = || batch.iter().map(|it| &it.commit);
        let facts = match self.in_time(self.begin(Needs::of(commits(), &time))).await {
            Ok(facts) => facts,
            Err(error) => return Err(self.undo(error).await.into()),
        };
        let plan = plan::plan(facts, time, commits());
        let plan = Box::new(Plan { lineage: self.lineage, ..plan });
        crash::point("commit.planned");
        let written = self.in_time(self.finish(&plan)).await;
        crash::point("commit.written");
        match written {
            // It may not be replicated; reconnecting waits until it is.
            Ok(Ok(())) if self.session.session.take_warning() => {
                let error = BatchError::Lost("the database warned of the commit".into());
                Err(Failure { error, sent: Some(plan) })
            }
            Ok(Ok(())) => {
                crash::point("commit.durable");
                self.status.set_lease(asked_at + node::answers(self.target.lease));
                Ok(plan)
            }
            // COMMIT rolled back, unless the connection was lost: then it may have been sent.
            Ok(Err(error)) => {
                let error = self.undo(error).await;
                let sent = matches!(error, BatchError::Lost(_)).then_some(plan);
                Err(Failure { error, sent })
            }
            Err(error) => Err(Failure { error, sent: Some(plan) }),
        }
    }

    /// Begins, checks the fence and reads the needed rows, in one round trip; a sweep first finds
    /// its rows in another one.
    async fn begin(&self, mut needs: Needs) -> Result<Facts, BatchError> {
        let (session, client) = (&self.session, self.session.client());
        let before = self.link.acknowledged().batch;
        let fence: [&(dyn ToSql + Sync); 3] = [&self.batch, &self.epoch, &before];
        // Sent in this order without waiting.
        let begun = send(client.batch_execute("BEGIN")).await;
        let fenced = send(client.execute(&session.fence, &fence)).await;
        let fenced = async {
            begun.wait().await?;
            if fenced.wait().await? != 1 {
                // Another process has the store, or this is another database.
                return Err(BatchError::Lost("the row of the owner has changed".into()));
            }
            Ok(())
        };
        let Some(sweep) = needs.sweep else {
            let keys = batch::keys(&needs);
            let read = session.statements.read(client, &keys).await;
            fenced.await?;
            return batch::facts(read).await;
        };
        fenced.await?;
        let candidates = batch::candidates(client, sweep).await?;
        needs.add_candidates(&candidates);
        let keys = batch::keys(&needs);
        let read = session.statements.read(client, &keys).await;
        Ok(Facts { candidates, ..batch::facts(read).await? })
    }

    /// Writes and commits, in one round trip. The outer error is one of COMMIT itself, whatever its
    /// code: a server that fails during COMMIT may have done it.
    async fn finish(&self, plan: &Plan) -> Result<Result<(), BatchError>, BatchError> {
        let (session, client) = (&self.session, self.session.client());
        let lost = |error: Error| BatchError::Lost(text(&error));
        if plan.is_empty() {
            return client.batch_execute("COMMIT").await.map(Ok).map_err(lost);
        }
        match session.statements.write(client, plan).await {
            Ok(()) => Ok(Ok(())),
            Err(WriteFailure::Statement(error)) => Ok(Err(error.into())),
            Err(WriteFailure::Commit(error)) => Err(lost(error)),
        }
    }

    /// Rolls back a failed transaction. If that fails too, the connection is lost.
    async fn undo(&self, error: BatchError) -> BatchError {
        if matches!(error, BatchError::Lost(_)) {
            return error;
        }
        let rollback = async { Ok(self.session.client().batch_execute("ROLLBACK").await?) };
        self.in_time(rollback).await.map_or_else(|lost| lost, |()| error)
    }

    /// A database that does not answer in time is lost, sooner if it does not even work.
    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, BatchError>>,
    ) -> Result<T, BatchError> {
        let mut work = std::pin::pin!(work);
        if let Ok(done) = timeout(SILENCE_MAX, &mut work).await {
            return done;
        }
        let reason = "the database does not answer";
        self.status.set_health(Health::Degraded { reason: reason.into() });
        let works = tokio::select! {
            biased;
            done = &mut work => return done,
            works = timeout(SILENCE_MAX, self.server_works()) => works.unwrap_or(false),
        };
        if works && let Ok(done) = timeout(ROUND_TRIP_MAX, work).await {
            return done;
        }
        Err(BatchError::Lost(reason.into()))
    }

    /// Whether the server can be reached and still has this connection.
    async fn server_works(&self) -> bool {
        let (pid, since) = &self.session.backend;
        let sql = "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2";
        let found = async {
            let session = self.target.connect().await?;
            session.client.query_opt(sql, &[pid, since]).await
        };
        match found.await {
            Ok(found) => found.is_some(),
            // It answers, if only with a refusal.
            Err(error) => error.as_db_error().is_some(),
        }
    }

    fn answer(&mut self, batch: Vec<Request>, plan: Plan) {
        let before = self.link.acknowledged();
        let position = before.position.max(plan.position);
        let commits = if plan.is_empty() { before.commits } else { self.batch };
        let known = AcknowledgedBatch { epoch: self.epoch, batch: self.batch, commits, position };
        self.link.acknowledge(known);
        if let Some(memo) = &mut self.memo {
            memo.note(known);
        }
        self.status.set_health(Health::Ready);
        // The work must be delivered even if the callers are gone.
        self.status.notices.publish(&plan);
        if batch.is_empty() {
            return;
        }
        self.status.count_batch(batch.len());
        for (request, answer) in batch.into_iter().zip(plan.answers) {
            request.answer(Ok(answer));
        }
        crash::point("commit.answered");
    }

    fn refused(&self, batch: Vec<Request>, error: BatchError) {
        let error = error.into_store_error(self.epoch);
        if error.is_retryable() {
            self.status.set_health(Health::Degraded { reason: error.to_string() });
        }
        refuse(batch, &error);
    }

    /// Nothing more may be written. Only the next owner can determine the outcome of the current
    /// batch.
    fn stopped(&self, stop: StopReason, batch: Vec<Request>, in_doubt: bool) {
        let error = match stop {
            StopReason::Fenced => StoreError::Fenced { epoch: self.epoch },
            StopReason::Behind(lost) => StoreError::CommitsLost { lost },
            StopReason::Closed => StoreError::Closed,
        };
        let reason = error.to_string();
        self.status.stop(error.clone());
        refuse(batch, &if in_doubt { StoreError::Unknown { reason } } else { error });
    }
}

pub(super) fn refuse(batch: impl IntoIterator<Item = Request>, error: &StoreError) {
    batch.into_iter().for_each(|it| it.answer(Err(error.clone())));
}
