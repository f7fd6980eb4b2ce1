//! One handing over: claim if need be, let the consumer decide, commit what it decided. It can end
//! at any line; nothing is lost.

use std::{pin::pin, sync::Arc, time::Duration};

use steadfast_store::{Commit, Lease, Letter, Position, Receipt, State, StoreError, Write, crash};

use super::{
    consumer::Consume,
    delivery::{Decisions, Parcel, Verdict},
    desk::{Desk, InHand},
    meter::Happening,
    patience::Patience,
    queues::Shared,
    settle::{self, Ending, Written},
    shelf::PutDown,
    suspects::{ALONE_MAX, Admitted, Care},
};
use crate::commit_each::commit_each;
use crate::dispatch::attempt::run_apart;

/// The points of a handing over, in order. `./test` ends a process at each of them.
pub const QUEUE_CRASH_POINTS: &[&str] = &[
    "queue.claim.before",
    "queue.claim.after",
    "queue.consume.before",
    "queue.consume.after",
    "queue.settle.before",
    "queue.settle.after",
];

/// Letters that are handed over together.
pub(super) struct Handing {
    pub(super) shared: Arc<Shared>,
    pub(super) desk: Arc<Desk>,
    pub(super) consumer: Arc<dyn Consume>,
    pub(super) letters: Vec<Letter>,
    pub(super) care: Care,
    /// Nothing else that is suspect runs beside it.
    pub(super) is_exclusive: bool,
    pub(super) timeout: Duration,
}

/// One of them, as it is delivered.
struct Claimed {
    letter: Letter,
    attempt: u32,
    lease: Option<Lease>,
}

impl Handing {
    /// Whether what was decided is recorded.
    pub(super) async fn carry(mut self, admitted: Admitted) -> bool {
        let positions: Vec<Position> = self.letters.iter().map(|it| it.message.position).collect();
        // Whatever happens, they are put down.
        let hands = InHand::new(self.desk.clone(), positions);
        let delivered = match self.care {
            Care::Plain => self.deliver(hands).await,
            Care::Counted | Care::Blamed { .. } => self.deliver_suspects(hands, admitted).await,
        };
        let Err(error) = delivered else { return true };
        let queue = &*self.desk.name;
        tracing::warn!(queue, error = %error, "what a consumer decided was not recorded");
        false
    }

    /// Others that are suspect may begin when it has ended, or when it was alone for long enough.
    async fn deliver_suspects(
        &mut self,
        hands: InHand<Arc<Desk>>,
        admitted: Admitted,
    ) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let is_blamed = matches!(self.care, Care::Blamed { .. });
        let mut delivering = pin!(self.deliver(hands));
        let delivered = tokio::select! {
            delivered = &mut delivering => Some(delivered),
            () = shared.clock.sleep(ALONE_MAX), if is_blamed => None,
        };
        drop(admitted);
        shared.wake_all();
        match delivered {
            Some(delivered) => delivered,
            None => delivering.await,
        }
    }

    async fn deliver(&mut self, mut hands: InHand<Arc<Desk>>) -> Result<(), StoreError> {
        let claimed = self.claim(&mut hands).await?;
        if claimed.is_empty() {
            return Ok(());
        }
        let now = self.shared.clock.now();
        self.desk.meter.count(Happening::Delivered, claimed.len(), now);
        crash::point("queue.consume.before");
        let endings = self.consume(claimed).await;
        crash::point("queue.consume.after");
        let settings = self.desk.rules().settings;
        let entropy = &*self.shared.entropy;
        let written: Vec<Written> =
            endings.iter().map(|it| settle::write(it, &settings, entropy)).collect();
        crash::point("queue.settle.before");
        let receipts = self.commit(&written).await?;
        crash::point("queue.settle.after");
        let now = self.shared.clock.now();
        for (it, receipt) in written.iter().zip(receipts) {
            self.desk.leases.let_go(it.position);
            let end = match (&it.write, receipt) {
                (None, _) => PutDown::Gone,
                (Some(_), Some(receipt)) => it.put_down(&receipt),
                // Somebody else has ended or claimed it.
                (Some(_), None) => PutDown::Unknown,
            };
            self.desk.meter.count(it.happening, 1, now);
            hands.put_down(it.position, end);
        }
        Ok(())
    }

    /// Counts the attempt before it begins, where that is needed.
    async fn claim(&mut self, hands: &mut InHand<Arc<Desk>>) -> Result<Vec<Claimed>, StoreError> {
        let letters = std::mem::take(&mut self.letters);
        if self.care == Care::Plain {
            let plain = |letter: Letter| {
                let attempt = letter.tries() + 1;
                Claimed { letter, attempt, lease: None }
            };
            return Ok(letters.into_iter().map(plain).collect());
        }
        let (over, letters) = self.used_up(letters);
        if letters.is_empty() {
            return Ok(over);
        }
        crash::point("queue.claim.before");
        let lease = self.desk.leases.next(&*self.shared.store, self.is_exclusive);
        let lasts = self.timeout;
        let mut claimed = over;
        let claim =
            |it: &Letter| Commit::of(Write::Claim { position: it.message.position, lease, lasts });
        let claims: Vec<Commit> = letters.iter().map(claim).collect();
        let receipts = commit_each(&*self.shared.store, &claims).await?;
        for (letter, receipt) in letters.into_iter().zip(receipts) {
            let position = letter.message.position;
            let is_it = |it: &&steadfast_store::Claimed| it.position == position;
            match receipt.as_ref().and_then(|it| it.claimed.iter().find(is_it)) {
                Some(it) => {
                    self.desk.leases.hold(position, lease, it.until);
                    claimed.push(Claimed { letter, attempt: it.attempt, lease: Some(lease) });
                }
                // Somebody else has it, or has ended it.
                None => hands.put_down(position, PutDown::Unknown),
            }
        }
        crash::point("queue.claim.after");
        Ok(claimed)
    }

    /// Those whose last lease has ended: they are given up under it, and no attempt is counted for
    /// that.
    fn used_up(&self, letters: Vec<Letter>) -> (Vec<Claimed>, Vec<Letter>) {
        let attempts_max = self.desk.rules().settings.attempts_max();
        let (mut over, mut rest) = (Vec::new(), Vec::new());
        for letter in letters {
            match letter.message.state {
                Some(State::InFlight { lease, attempts, .. }) if attempts_max <= attempts => {
                    over.push(Claimed { letter, attempt: attempts + 1, lease: Some(lease) });
                }
                Some(State::InFlight { .. } | State::Pending { .. } | State::Settled(_)) | None => {
                    rest.push(letter);
                }
            }
        }
        (over, rest)
    }

    /// Runs the consumer in a task of its own, so that neither a panic nor one that never comes
    /// back harms others.
    async fn consume(&self, claimed: Vec<Claimed>) -> Vec<Ending> {
        let decisions = Decisions::default();
        let patience = Patience::new(self.shared.clock.clone());
        let mut ends = Vec::new();
        let mut parcels = Vec::new();
        let attempts_max = self.desk.rules().settings.attempts_max();
        for Claimed { letter, attempt, lease } in claimed {
            let position = letter.message.position;
            ends.push((position, attempt, lease));
            if attempts_max < attempt {
                let error = "the attempts before ended without an answer".to_owned();
                decisions.decide(position, Verdict::Retry { after: None, error });
                continue;
            }
            parcels.push(Parcel {
                letter,
                attempt,
                lease,
                queue: self.desk.name.clone(),
                decisions: decisions.clone(),
                patience: patience.clone(),
                objects: self.shared.objects.clone(),
                client: self.shared.client.clone(),
            });
        }
        let failed = if parcels.is_empty() { None } else { self.run(parcels, patience).await };
        let error = failed.unwrap_or_else(|| "the consumer gave no answer".into());
        let ending = |(position, attempt, lease): (Position, u32, Option<Lease>)| {
            let verdict = decisions.take(position);
            let verdict =
                verdict.unwrap_or_else(|| Verdict::Retry { after: None, error: error.clone() });
            Ending { position, attempt, lease, verdict }
        };
        ends.into_iter().map(ending).collect()
    }

    /// Why it failed, if it did.
    async fn run(&self, parcels: Vec<Parcel>, patience: Patience) -> Option<String> {
        let over = async {
            patience.over(self.timeout).await;
            format!("no answer within {} s", self.timeout.as_secs_f32())
        };
        run_apart("consumer", self.consumer.clone().consume(parcels), over).await.err()
    }

    /// What was decided is worth some patience with a store that has trouble.
    async fn commit(&self, written: &[Written]) -> Result<Vec<Option<Receipt>>, StoreError> {
        let mut tried = 0;
        loop {
            match settle::commit(&*self.shared.store, written).await {
                Err(error) if error.is_retryable() && tried < 12 => {
                    tried += 1;
                    if 3 < tried {
                        let wait = Duration::from_millis(100 << (tried - 3).min(6));
                        self.shared.clock.sleep(wait).await;
                    }
                }
                ended => return ended,
            }
        }
    }
}
