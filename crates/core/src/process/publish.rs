//! Outputs that a process publishes go to its subscribers in the commit of the decision.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steadfast_store::{
    Address, Due, ENQUEUE, EntityKind, Json, Message, StoreError, Task, queue_address,
};

use super::{
    CodecError, Event, EventOf, InputError, Process, codec,
    record::{Metadata, stream},
};

/// An output that a process published, as a message of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The process.
    pub process: String,
    /// The instance.
    pub instance: String,
    /// The type of the output.
    #[serde(rename = "type")]
    pub message_type: String,
    /// Its data.
    pub data: Value,
}

impl Published {
    /// The output of the process.
    pub fn output<P: Process>(&self) -> Result<P::Output, CodecError> {
        codec::decode(&self.message_type, self.data.clone())
    }
}

/// Makes the message for a subscriber; `None` if the subscriber ignores this output.
type Subscriber =
    Arc<dyn Fn(&Published) -> Result<Option<Message>, InputError> + Send + Sync + 'static>;

/// The subscribers of processes, by the name of the process.
#[derive(Clone, Default)]
pub(super) struct Subscribers(Arc<RwLock<BTreeMap<&'static str, Vec<Subscriber>>>>);

impl Subscribers {
    fn add(&self, process: &'static str, subscriber: Subscriber) {
        let mut all = self.0.write();
        all.entry(process).or_default().push(subscriber);
    }

    /// Puts everything that a process publishes into a queue.
    pub(super) fn add_queue<P: Process>(&self, queue: &'static str) {
        self.add(
            P::NAME,
            Arc::new(move |published| Ok(Some(letter(published)?.to(&queue_address(queue)?)))),
        );
    }

    /// Gives another process an input for outputs that this one publishes.
    pub(super) fn add_process<P: Process, Q: Process>(
        &self,
        input: impl Fn(P::Output) -> Option<Q::Input> + Send + Sync + 'static,
    ) {
        self.add(
            P::NAME,
            Arc::new(move |published| {
                let Some(input) = input(published.output::<P>()?) else { return Ok(None) };
                let Some(instance) = Q::route(&input) else { return Ok(None) };
                let (target, due) = (stream::<Q>(&instance)?, Due::After(Duration::ZERO));
                let task = Task { target, ordered: Q::ORDERED, due };
                Ok(Some(input_for::<Q>(&input)?.task(task)))
            }),
        );
    }

    /// The messages for all subscribers, and the stream that they are appended to.
    pub(super) fn messages<P: Process>(
        &self,
        instance: &Address,
        events: &[EventOf<P>],
    ) -> Result<Option<(Address, Vec<Message>)>, InputError> {
        let subscribers = {
            let all = self.0.read();
            all.get(P::NAME).cloned().unwrap_or_default()
        };
        let mut messages = Vec::new();
        for event in events {
            let Event::Published(output) = event else { continue };
            if subscribers.is_empty() {
                break;
            }
            let (message_type, data) = codec::encode(output)?;
            let corrupt = |error: serde_json::Error| {
                InputError::Store(StoreError::Corrupt { reason: error.to_string() })
            };
            let published = Published {
                process: P::NAME.into(),
                instance: instance.name().to_owned(),
                message_type,
                data: serde_json::from_str(data.as_str()).map_err(corrupt)?,
            };
            for subscriber in &subscribers {
                messages.extend(subscriber(&published)?);
            }
        }
        if messages.is_empty() {
            return Ok(None);
        }
        let published = Address::new(EntityKind::Stream, "published", P::NAME)?;
        Ok(Some((published, messages)))
    }
}

fn letter(published: &Published) -> Result<Message, CodecError> {
    Ok(Message::new(&published.message_type, Json::of(published)?)?.action(ENQUEUE))
}

/// It is delivered like an input that the other process has scheduled.
fn input_for<Q: Process>(input: &Q::Input) -> Result<Message, CodecError> {
    let (message_type, data) = codec::encode(input)?;
    let metadata = Json::of(&Metadata { process: Q::NAME.into(), after_ms: None })?;
    let message = Message::new(&message_type, data)?.schema(Q::SCHEMA);
    Ok(message.action("schedule").metadata(metadata)?)
}
