//! What every server knows: the examples, until there are others.

use std::{sync::Arc, time::Duration};

use steadfast::{
    BucketError, BucketSpec, Buckets, ObjectOptions, Objects, QueueSettings, Queues, Runs,
    process::Processes,
};
use steadfast_chat::Chat;
use steadfast_checkout::{GroupCheckout, Hotel, NEWS, NoticeBoard, Office, Reception, TrafficFine};
use steadfast_counter::Counter;
use steadfast_drift::{CompareEnvironments, Pairs};
use steadfast_generations::{
    ARTIFACTS, Discard, Fetch, FetchHere, FindOrphans, GenerationManager, Library, OrphanSweep,
    Poll, Record, Submit, SubmitHere,
};
use steadfast_mail::{Counting, DEAD_MAIL, MAIL, Mailbox, OPENS, Postman, Tally};
use steadfast_order::{Inventory, Invoice, Order, Reminder};
use steadfast_store::{SeededEntropy, Store, StoreError, SystemClock};
use steadfast_uploads::{
    FindLostRuns, GaveUp, INCOMING, INCOMING_DLQ, Ingestion, OrganizationAgent,
    OrganizationWorkflow, RunLookup,
};

use crate::{classifier::Sight, node::Apps};

/// The guest who has not paid, so that both ends of a checkout can be seen.
const UNPAID: &str = "unpaid";

/// The guest who cannot be found, so that a group can be seen that waits: a second clerk gets a
/// reply.
const ABSENT: &str = "absent";

/// Who says nothing in a chat room for so long leaves it.
const CHAT_IDLE: Duration = Duration::from_mins(10);

/// How long an upload waits at first for a classifier that is not there yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes the buckets of a server, with the rules that tell of their changes.
pub(crate) async fn declare(buckets: &Buckets) -> Result<(), BucketError> {
    BucketSpec::from(ARTIFACTS).declare(buckets).await?;
    steadfast_uploads::bucket().declare(buckets).await
}

/// The processes of a server on this store, which keeps what was given up for so long.
pub(crate) fn processes(store: Arc<dyn Store>, keep_dead: Duration) -> Processes {
    let hotel = Hotel::new(Arc::new(SystemClock)).unpaid([UNPAID]).absent([ABSENT]);
    let hotel = hotel.remembering(store.clone(), keep_dead);
    let office = Office::default().remembering(store.clone(), keep_dead);
    Processes::new(store)
        .with::<GroupCheckout>(hotel)
        .with::<TrafficFine>(office)
        .subscribe::<GroupCheckout>(NEWS)
}

/// The objects of a server on this store, read on the async runtime that this is called in.
pub(crate) fn objects(
    store: Arc<dyn Store>,
    options: ObjectOptions,
    apps: &Apps,
) -> Result<Objects, StoreError> {
    let (studio, runs) = (apps.studio.clone(), apps.sight.runs.clone());
    let chat = Chat { idle: CHAT_IDLE };
    let objects = Objects::builder(store).options(options);
    objects
        .class(Counter)
        .live_class(chat)
        .class(Inventory)
        .class(Mailbox)
        .class(NoticeBoard)
        .class(Tally)
        .live_class(OrganizationAgent::default())
        .live_class(GenerationManager { studio: studio.clone() })
        .class(Library)
        .class(OrphanSweep)
        .live_class(apps.drift.pair)
        .class(Pairs)
        .perform::<Submit>(studio.clone())
        .perform::<SubmitHere>(studio.clone())
        .perform::<Poll>(studio.clone())
        .perform::<Fetch>(studio.clone())
        .perform::<FetchHere>(studio.clone())
        .perform::<Record>(studio.clone())
        .perform::<Discard>(studio.clone())
        .perform::<FindOrphans>(studio)
        .perform::<FindLostRuns>(RunLookup::new(move || runs.get().cloned()))
        .start()
}

/// The queues of a server on this store.
pub(crate) fn queues(store: Arc<dyn Store>, objects: Objects, sight: &Sight) -> Queues {
    let malformed = &sight.malformed;
    Queues::builder(store)
        .queue(MAIL.dead_letters(DEAD_MAIL))
        .queue(DEAD_MAIL)
        .queue(OPENS.with(QueueSettings { batch_size: 100, ..QueueSettings::default() }))
        .consume(MAIL, Postman)
        .consume_batches(OPENS, Counting)
        .consume(NEWS, Reception)
        .queue(steadfast_uploads::queue())
        .queue(steadfast_uploads::dead_letters())
        .consume(INCOMING, Ingestion { malformed: malformed.clone() })
        .consume(INCOMING_DLQ, GaveUp { malformed: malformed.clone() })
        .build(objects)
}

/// The workflows of a server on this store.
pub(crate) fn runs(
    store: Arc<dyn Store>,
    objects: Objects,
    buckets: Buckets,
    (sight, compare): (&Sight, CompareEnvironments),
) -> Runs {
    let entropy = Arc::new(SeededEntropy::from_system());
    let classify = OrganizationWorkflow::new(sight.classifier.clone(), PATIENCE);
    Runs::new(store, entropy, objects)
        .with_buckets(Some(buckets))
        .with(Invoice)
        .with(Order)
        .with(Reminder)
        .with(classify.bytes_max(sight.limits.bytes_max))
        .with(compare)
}
