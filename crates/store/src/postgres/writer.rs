//! The one task that writes: it takes what waits, decides it, and commits it in two round trips.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::join3;
use tokio_postgres::{Client, Error, Statement, types::ToSql};

use super::{
    PostgresOptions,
    apply::Writes,
    connect::{Session, Target},
    facts::Reads,
    owner::{self, HEARTBEAT, Held, LEASE_SECONDS},
    trouble::Trouble,
};
use crate::{
    Clock, Health, OpenError, StoreError, crash,
    plan::{self, Needs, Plan},
    writer::{Request, Requests, Status},
};

/// After so long without the database, those who wait are told.
const REFUSE_AFTER: Duration = Duration::from_secs(10);

/// After so long without the database, those whose commit is in doubt are told that it is.
const DOUBT_AFTER: Duration = Duration::from_secs(30);

/// A connection with all its statements prepared.
struct Line {
    session: Session,
    fence: Statement,
    reads: Reads,
    writes: Writes,
}

impl Line {
    async fn new(session: Session) -> Result<Self, Error> {
        let client = &session.client;
        // Fence and outcome record in one row; it is a sign of life as well.
        let fence = format!(
            "UPDATE node SET last_batch = $1, \
             lease_until = clock_timestamp() + interval '{LEASE_SECONDS} s' WHERE epoch = $2"
        );
        let fence = client.prepare(&fence).await?;
        let (reads, writes) = (Reads::prepare(client).await?, Writes::prepare(client).await?);
        Ok(Self { session, fence, reads, writes })
    }

    fn client(&self) -> &Client {
        &self.session.client
    }
}

pub(super) struct Writer {
    target: Target,
    line: Line,
    requests: Requests,
    status: Arc<Status>,
    clock: Arc<dyn Clock>,
    process: String,
    epoch: i64,
    batch: i64,
}

/// How a batch did not go through.
enum Failure {
    /// It surely changed nothing.
    Unapplied(Trouble),
    /// The connection was lost after COMMIT was sent.
    InDoubt(String, Box<Plan>),
}

impl Writer {
    pub(super) async fn new(
        target: Target,
        session: Session,
        requests: Requests,
        status: Arc<Status>,
        options: &PostgresOptions,
        held: Held,
    ) -> Result<Self, OpenError> {
        let line = Line::new(session).await.map_err(|error| target.failed(&error))?;
        let (clock, process, epoch) = (options.clock.clone(), held.process, held.owner.epoch);
        Ok(Self { target, line, requests, status, clock, process, epoch, batch: 0 })
    }

    pub(super) async fn run(mut self) {
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        heartbeat.reset();
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
            // A batch is a sign of life, too.
            heartbeat.reset();
        }
        if !matches!(self.status.health(), Health::Failed { .. })
            && let Err(error) = owner::leave(self.line.client(), self.epoch).await
        {
            tracing::warn!(error = %error, "store could not be marked as closed");
        }
    }

    async fn commit_batch(&mut self, mut batch: Vec<Request>) {
        if let Health::Failed { reason } = self.status.health() {
            return refuse(batch, &StoreError::Failed { reason });
        }
        loop {
            match self.transact(&batch).await {
                Ok(plan) => return self.answer(batch, *plan),
                Err(Failure::Unapplied(Trouble::Lost(reason))) => {
                    if self.recover(&reason, &mut batch, None).await.is_err() {
                        return self.fenced(batch);
                    }
                }
                Err(Failure::InDoubt(reason, plan)) => {
                    let number = self.batch;
                    match self.recover(&reason, &mut batch, Some(number)).await {
                        Ok(last_batch) if last_batch == number => return self.answer(batch, *plan),
                        Ok(_) => {}
                        Err(_) => return self.fenced(batch),
                    }
                }
                Err(Failure::Unapplied(Trouble::Fenced)) => return self.fenced(batch),
                // One commit may be at fault; its neighbours must not suffer for it.
                Err(Failure::Unapplied(_)) if 1 < batch.len() => {
                    for request in batch {
                        Box::pin(self.commit_batch(vec![request])).await;
                    }
                    return;
                }
                Err(Failure::Unapplied(trouble)) => return self.refused(batch, trouble),
            }
            if batch.is_empty() {
                return;
            }
        }
    }

    /// Decides and writes a batch in one transaction. An empty batch is a sign of life.
    async fn transact(&mut self, batch: &[Request]) -> Result<Box<Plan>, Failure> {
        self.batch += 1;
        let (line, client) = (&self.line, self.line.client());
        let unapplied = Failure::Unapplied;
        crash::point("commit.begun");
        let needs = Needs::of(batch.iter().map(|it| &it.commit));
        let fence: [&(dyn ToSql + Sync); 2] = [&self.batch, &self.epoch];
        // Sent in this order without waiting: one round trip.
        let (begun, fenced, facts) = join3(
            client.batch_execute("BEGIN"),
            client.execute(&line.fence, &fence),
            line.reads.read(client, &needs),
        )
        .await;
        let known = match (begun, fenced, facts) {
            (Ok(()), Ok(1), facts) => facts,
            (Ok(()), Ok(_), _) => Err(Trouble::Fenced),
            (Err(error), ..) | (_, Err(error), _) => Err(error.into()),
        };
        let facts = match known {
            Ok(facts) => facts,
            Err(trouble) => return Err(unapplied(self.undo(trouble).await)),
        };
        let plan = plan::plan(facts, self.clock.now(), batch.iter().map(|it| &it.commit));
        let plan = Box::new(plan);
        crash::point("commit.planned");
        let written = if plan.is_empty() {
            client.batch_execute("COMMIT").await
        } else {
            line.writes.write(client, &plan).await
        };
        crash::point("commit.written");
        match written.map_err(Trouble::from) {
            Ok(()) => {
                crash::point("commit.durable");
                Ok(plan)
            }
            Err(Trouble::Lost(reason)) => Err(Failure::InDoubt(reason, plan)),
            Err(trouble) => Err(unapplied(self.undo(trouble).await)),
        }
    }

    /// Leaves a transaction that failed. If that fails too, the connection is gone.
    async fn undo(&self, trouble: Trouble) -> Trouble {
        match self.line.client().batch_execute("ROLLBACK").await {
            Ok(()) => trouble,
            Err(error) => Trouble::Lost(super::trouble::text(&error)),
        }
    }

    /// Connects again and raises our epoch, so that the lost connection can no longer commit;
    /// returns the last batch that it did commit. Who waits too long is told so.
    async fn recover(
        &mut self,
        reason: &str,
        batch: &mut Vec<Request>,
        in_doubt: Option<i64>,
    ) -> Result<i64, Fenced> {
        self.status.set_health(Health::Degraded { reason: reason.into() });
        let (mut waited, mut delay) = (Duration::ZERO, Duration::from_millis(50));
        loop {
            match self.reconnect().await {
                Ok(last_batch) => {
                    self.status.set_health(Health::Ready);
                    return Ok(last_batch);
                }
                Err(Trouble::Fenced) => return Err(Fenced),
                Err(trouble) => tracing::debug!(error = ?trouble, "store is still not reachable"),
            }
            tokio::time::interval_at(tokio::time::Instant::now() + delay, delay).tick().await;
            waited += delay;
            delay = (delay * 2).min(Duration::from_secs(1));
            if REFUSE_AFTER <= waited {
                let unavailable = StoreError::Unavailable { reason: reason.into() };
                refuse(self.requests.take_waiting(), &unavailable);
                if in_doubt.is_none() {
                    refuse(std::mem::take(batch), &unavailable);
                }
            }
            if DOUBT_AFTER <= waited {
                refuse(std::mem::take(batch), &StoreError::Unknown { reason: reason.into() });
            }
        }
    }

    async fn reconnect(&mut self) -> Result<i64, Trouble> {
        let session = self.target.connect().await?;
        let (epoch, last_batch) = owner::raise(&session.client, &self.process).await?;
        self.epoch = epoch;
        self.status.epoch.store(epoch, Ordering::Release);
        self.line = Line::new(session).await?;
        Ok(last_batch)
    }

    fn answer(&self, batch: Vec<Request>, plan: Plan) {
        if batch.is_empty() {
            return;
        }
        self.status.set_health(Health::Ready);
        self.status.count_batch(batch.len());
        self.status.notices.publish(&plan);
        for (request, answer) in batch.into_iter().zip(plan.answers) {
            request.answer(Ok(answer));
        }
        crash::point("commit.answered");
    }

    fn refused(&self, batch: Vec<Request>, trouble: Trouble) {
        if !matches!(trouble, Trouble::Bug(_)) {
            self.status.set_health(Health::Degraded { reason: format!("{trouble:?}") });
        }
        refuse(batch, &trouble.into_store_error(self.epoch));
    }

    /// Somebody else owns the store: nothing more may be written, and this process must stop.
    fn fenced(&self, batch: Vec<Request>) {
        let error = StoreError::Fenced { epoch: self.epoch };
        self.status.set_health(Health::Failed { reason: error.to_string() });
        refuse(batch, &error);
    }
}

/// Our epoch is over.
struct Fenced;

fn refuse(batch: Vec<Request>, error: &StoreError) {
    batch.into_iter().for_each(|it| it.answer(Err(error.clone())));
}
