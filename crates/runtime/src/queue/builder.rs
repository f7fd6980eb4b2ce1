//! Queues without a whole program around them, for those who put its parts together themselves.

use std::{sync::Arc, time::Duration};

use steadfast_store::{Entropy, SeededEntropy, Store, StoreError};

use super::{BatchConsumer, ConsumeOptions, Consumer, Declared, Queue, QueueSpec, Queues};
use crate::{Link, Objects, workflow::Runs};

/// Says which queues there are, and who consumes them.
pub struct QueuesBuilder {
    store: Arc<dyn Store>,
    declared: Declared,
    entropy: Arc<dyn Entropy>,
}

impl QueuesBuilder {
    /// Declares a queue: how its messages are delivered, unless an operator says otherwise.
    pub fn queue<T>(mut self, queue: impl Into<QueueSpec<T>>) -> Self {
        let QueueSpec { queue, settings } = queue.into();
        self.declared.queue(queue.name(), settings);
        self
    }

    /// Consumes a queue, message by message.
    pub fn consume<C: Consumer>(mut self, queue: Queue<C::Message>, consumer: C) -> Self {
        self.declared.consume(queue.name(), consumer, ConsumeOptions::default());
        self
    }

    /// Consumes a queue in batches, two at a time.
    pub fn consume_batches<C: BatchConsumer>(
        mut self,
        queue: Queue<C::Message>,
        consumer: C,
    ) -> Self {
        let options = ConsumeOptions { concurrency: 2, ..ConsumeOptions::default() };
        self.declared.consume_batches(queue.name(), consumer, options);
        self
    }

    /// The queues, to look at and to send to. Nothing is consumed until [`Queues::work`].
    pub fn build(self, objects: Objects) -> Queues {
        let Self { store, declared, entropy } = self;
        Queues::new(declared, store, entropy, objects, Link::default())
    }
}

impl Queues {
    /// Begins to declare the queues of a store.
    pub fn builder(store: Arc<dyn Store>) -> QueuesBuilder {
        QueuesBuilder {
            store,
            declared: Declared::default(),
            entropy: Arc::new(SeededEntropy::from_system()),
        }
    }

    /// Begins to consume, until [`Queues::stop`]. A dispatcher on the same store must know of them:
    /// it hears first of what is sent.
    pub async fn work(&self, runs: &Runs, grace: Duration) -> Result<(), StoreError> {
        self.shared.link.tie(&self.shared.objects, runs);
        self.shared.link.tie_queues(self);
        self.begin(grace).await
    }
}
