//! Queues on the wire.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use steadfast_core::{
    QueueSettings,
    queue::{Acked, Peeked, Pulled, QueueView, Rates, Redriven, Sample},
};
use steadfast_store::Position;
use utoipa::ToSchema;

use super::message::raw;
use crate::api::time::rfc3339;

/// A queue.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueEntry {
    /// Its name.
    pub(crate) name: String,
    /// How its messages are delivered.
    pub(crate) settings: QueueSettings,
    /// Whether it is paused: nothing is delivered from it.
    pub(crate) paused: bool,
    /// Whether a consumer in the server takes its messages.
    pub(crate) consumed: bool,
    /// Messages that wait or are in flight.
    pub(crate) depth: u64,
    /// Messages that may be delivered now.
    pub(crate) ready: u64,
    /// Messages that may be delivered later.
    pub(crate) delayed: u64,
    /// Messages that a consumer has.
    pub(crate) in_flight: u64,
    /// Messages that were given up and stayed here.
    pub(crate) dead: u64,
    /// How long the oldest that waits or is in flight has been there; null if there is none.
    pub(crate) oldest_age_ms: Option<u64>,
    /// Messages per second over the last minute.
    pub(crate) rates: Rates,
    /// How full it was before, oldest first.
    pub(crate) history: Vec<SampleEntry>,
}

/// How full a queue was.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SampleEntry {
    /// When.
    #[schema(format = DateTime)]
    pub(crate) at: String,
    /// Messages that waited or were in flight.
    pub(crate) depth: u64,
    /// How long the oldest had been there.
    pub(crate) oldest_age_ms: u64,
}

/// All queues.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct QueueList {
    /// By name.
    pub(crate) queues: Vec<QueueEntry>,
}

/// A message in a queue, seen from outside.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueMessage {
    /// Its id.
    pub(crate) id: String,
    /// What was sent.
    #[schema(value_type = serde_json::Value)]
    pub(crate) body: Box<RawValue>,
    /// Attempts in this queue so far.
    pub(crate) attempts: u32,
    /// Attempts before it came into this queue.
    pub(crate) attempts_before: u32,
    /// When it was sent.
    #[schema(format = DateTime)]
    pub(crate) enqueued_at: String,
    /// When it may be delivered, or when its lease ends; null if it is dead.
    #[schema(format = DateTime)]
    pub(crate) due_at: Option<String>,
    /// pending, in-flight or dead.
    pub(crate) state: String,
    /// The queue that it was sent to, if that was another one.
    pub(crate) from: Option<String>,
    /// Why the last attempt failed.
    pub(crate) last_error: Option<String>,
}

/// A message that was pulled.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PulledEntry {
    /// Its id, the same at every delivery.
    pub(crate) id: String,
    /// What was sent.
    #[schema(value_type = serde_json::Value)]
    pub(crate) body: Box<RawValue>,
    /// Which attempt this is, from 1.
    pub(crate) attempts: u32,
    /// When it was sent.
    #[schema(format = DateTime)]
    pub(crate) enqueued_at: String,
    /// What to acknowledge it with.
    pub(crate) lease_id: String,
    /// When the lease ends.
    #[schema(format = DateTime)]
    pub(crate) lease_until: String,
}

/// What was pulled.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct PulledList {
    /// The messages; none if nothing is due.
    pub(crate) items: Vec<PulledEntry>,
    /// Whether there are none because the queue is paused.
    pub(crate) paused: bool,
}

/// What became of acknowledgements.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct AckedEntry {
    /// So many are done.
    pub(crate) acked: usize,
    /// So many are delivered again, or were given up.
    pub(crate) retried: usize,
    /// Leases that were not in force any more: somebody else got the message, or it was settled.
    pub(crate) lost: Vec<String>,
}

/// What was moved, or would be.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedrivenEntry {
    /// Messages that fit.
    pub(crate) matched: u64,
    /// Messages that were moved.
    pub(crate) moved: u64,
    /// How long until the last of them is due.
    pub(crate) lasts_ms: u64,
    /// The first of them, 20 at most.
    pub(crate) first: Vec<String>,
}

impl QueueEntry {
    /// Converts.
    pub(crate) fn of(view: QueueView) -> Self {
        let (depth, in_hand) = (view.depth, view.in_hand as u64);
        let age = |it: std::time::Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        Self {
            depth: depth.ready + depth.delayed + depth.leased,
            // What a consumer in here has in hand is still ready in the store.
            ready: depth.ready.saturating_sub(in_hand),
            delayed: depth.delayed,
            in_flight: depth.leased + in_hand.min(depth.ready),
            dead: depth.dead,
            oldest_age_ms: view.oldest_age.map(age),
            name: view.name,
            settings: view.settings,
            paused: view.paused,
            consumed: view.consumed,
            rates: view.rates,
            history: view.history.iter().map(SampleEntry::of).collect(),
        }
    }
}

impl SampleEntry {
    fn of(it: &Sample) -> Self {
        Self { at: rfc3339(it.at), depth: it.depth, oldest_age_ms: it.oldest_age_ms }
    }
}

impl QueueMessage {
    /// Converts.
    pub(crate) fn of(it: Peeked) -> Self {
        Self {
            id: it.message.position.to_string(),
            body: raw(&it.message.data),
            attempts: it.attempts,
            attempts_before: it.attempts_before,
            enqueued_at: rfc3339(it.message.created_at),
            due_at: it.due_at.map(rfc3339),
            state: it.state.name().into(),
            from: it.from,
            last_error: it.last_error,
        }
    }
}

impl PulledEntry {
    /// Converts.
    pub(crate) fn of(it: &Pulled) -> Self {
        let message = &it.letter.message;
        Self {
            id: message.position.to_string(),
            body: raw(&message.data),
            attempts: it.attempt,
            enqueued_at: rfc3339(message.created_at),
            lease_id: it.lease.to_string(),
            lease_until: rfc3339(it.until),
        }
    }
}

impl AckedEntry {
    /// Converts.
    pub(crate) fn of(it: &Acked) -> Self {
        let lost = it.lost.iter().map(ToString::to_string).collect();
        Self { acked: it.acked, retried: it.retried, lost }
    }
}

impl RedrivenEntry {
    /// Converts.
    pub(crate) fn of(it: &Redriven) -> Self {
        let lasts_ms = u64::try_from(it.lasts.as_millis()).unwrap_or(u64::MAX);
        Self { matched: it.matched, moved: it.moved, lasts_ms, first: written(&it.first) }
    }
}

/// Ids as they are written.
pub(crate) fn written(ids: &[Position]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}
