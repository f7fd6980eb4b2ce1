//! Buckets under load: deeds by several writers, while a sweep deletes old blobs.

use std::{path::Path, sync::Arc, time::Duration};

use steadfast_bucket::{
    Attributes, BlobKey, BucketError, BucketName, Buckets, Condition, CopyOptions, EventType,
    ExpectedContent, FileBlobs, LifecycleRule, PartTag, PutOptions, Rule, account,
};
use steadfast_core::store::{SeededEntropy, Store};
use tokio::time::MissedTickBehavior;

use crate::{
    deeds::{Deed, EVENTS, OLD, WRITERS, bytes_of, key_of, source_of},
    say,
};

/// A load that is not killed ends by itself.
const DEEDS_MAX: u64 = 1_200;

async fn open(store: Arc<dyn Store>, folder: &str) -> Result<Buckets, BucketError> {
    let name = account(&*store, &SeededEntropy::from_system()).await?;
    let blobs = FileBlobs::open(Path::new(folder), &name)?;
    let buckets = Buckets::builder(store).open(Arc::new(blobs)).await?;
    let bucket = bucket();
    buckets.ensure(&bucket).await?;
    let events = [EventType::ObjectCreate, EventType::ObjectDelete];
    buckets.put_rule(&bucket, Rule::new("all", &events, EVENTS)).await?;
    let (id, prefix, delete_after_ms) = ("all".into(), OLD.into(), Some(1_000));
    let rule = LifecycleRule { id, prefix, delete_after_ms, ..LifecycleRule::default() };
    buckets.put_lifecycle(&bucket, rule).await?;
    Ok(buckets)
}

fn bucket() -> BucketName {
    BucketName::new("shots").expect("a name")
}

/// Performs deeds from `first` on.
pub(crate) async fn load(store: Arc<dyn Store>, folder: &str, first: u64) {
    let buckets = open(store, folder).await.expect("buckets open");
    say("ready");
    let sweeper = buckets.clone();
    let sweeping = tokio::spawn(async move {
        // Often enough to meet every deed; without a pause it takes a processor for itself.
        let mut pause = tokio::time::interval(Duration::from_millis(5));
        pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pause.tick().await;
            sweeper.sweep().await.expect("sweep");
        }
    });
    let writers = (0..WRITERS).map(|writer| {
        let buckets = buckets.clone();
        tokio::spawn(async move {
            let mine = |it: &u64| it % WRITERS == writer;
            for number in (first..first + DEEDS_MAX).filter(mine) {
                say(&format!("invoked {number}"));
                match deed(&buckets, number).await {
                    Ok(Some(sequence)) => say(&format!("acked {number} {sequence}")),
                    Ok(None) => say(&format!("nothing {number}")),
                    Err(error) => say(&format!("unknown {number} {}", error.code())),
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("writer ends");
    }
    sweeping.abort();
}

/// Its sequence number for its key; `None` if it changed nothing.
async fn deed(buckets: &Buckets, number: u64) -> Result<Option<i64>, BucketError> {
    let (bucket, key) = (bucket(), BlobKey::new(&key_of(number))?);
    let mut attributes = Attributes::default();
    attributes.metadata.insert("deed".into(), number.to_string());
    match Deed::of(number) {
        Deed::Put => {
            let put = PutOptions { attributes, ..PutOptions::default() };
            let blob = buckets.put(&bucket, &key, &bytes_of(number), put).await?;
            Ok(Some(blob.sequence))
        }
        Deed::Copy => {
            let source = BlobKey::new(&source_of(number))?;
            let copy = CopyOptions { attributes: Some(attributes), ..CopyOptions::default() };
            match buckets.copy((&bucket, &source), (&bucket, &key), copy).await {
                Ok(blob) => Ok(Some(blob.sequence)),
                Err(BucketError::UnknownBlob { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        }
        Deed::Delete => buckets.delete(&bucket, &key, Condition::default()).await,
        deed @ (Deed::Upload | Deed::Abort) => {
            let id = buckets.begin_upload(&bucket, &key, attributes).await?.id;
            for part in [1, 1, 2] {
                let mut writer = buckets.part_writer(&bucket, &key, &id, part).await?;
                writer.write(&bytes_of(number)).await?;
                writer.finish(ExpectedContent::default()).await?;
            }
            if deed == Deed::Abort {
                return buckets.abort_upload(&bucket, &key, &id).await.map(|()| None);
            }
            let tags = [PartTag { number: 1, ..PartTag::default() }];
            let any = Condition::default();
            let blob = buckets.complete_upload(&bucket, &key, &id, &tags, any).await?;
            Ok(Some(blob.sequence))
        }
    }
}
