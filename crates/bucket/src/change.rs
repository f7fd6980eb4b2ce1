//! Changes of keys. One commit contains the row of the index, the number of the change and its
//! event; then files are removed. A copy links files and copies no bytes.

use std::{io, sync::Arc};

use serde::{Deserialize, Serialize};
use steadfast_store::{
    Address, Commit, DateTime, ENQUEUE, EntityKind, EntryKey, Expect, Json, Message, Put, Receipt,
    Recorded, Rejection, Remember, StoreError, Timestamp, Write, crash, queue_address,
};

use crate::{
    Attributes, Blob, BlobAction, BlobEvent, BlobKey, BucketError, BucketName, Buckets, Condition,
    blob::BlobRow,
    buckets::{CachedBucket, Hold, Shared},
    content::{Blobs, ContentId, FileName},
    event::{CopySource, EventObject},
    quota::{Place, UsageChange, signed},
};

/// A change of a key.
pub(crate) struct Change {
    pub(crate) key: BlobKey,
    pub(crate) action: BlobAction,
    /// The new content; `None` for a deletion.
    pub(crate) content: Option<(ContentId, BlobRow)>,
    pub(crate) condition: Condition,
    pub(crate) copy_source: Option<CopySource>,
    /// The upload that this change completes: its entry and revision.
    pub(crate) upload: Option<(EntryKey, i64)>,
    /// The idempotency key to record in the same commit.
    pub(crate) once: Option<Remember>,
}

impl Change {
    pub(crate) fn new(
        key: &BlobKey,
        action: BlobAction,
        content: Option<(ContentId, BlobRow)>,
        condition: Condition,
    ) -> Self {
        let (copy_source, upload, once) = (None, None, None);
        Self { key: key.clone(), action, content, condition, copy_source, upload, once }
    }
}

/// The reply recorded with the idempotency key of a put, as JSON. A repeated put returns it in
/// [`BucketError::Repeated`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutRecord {
    /// The number of the change.
    pub sequence: i64,
    /// The version of the blob.
    pub version: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The result of a change.
pub(crate) struct ChangeResult {
    /// The blob before it.
    pub(crate) before: Option<Blob>,
    /// The blob after it.
    pub(crate) after: Option<Blob>,
    /// Number of the change; `None` if nothing changed.
    pub(crate) sequence: Option<i64>,
}

impl Shared {
    /// Commits a change. If another change of the key or the bucket was committed first, this one
    /// is decided again from the new state.
    pub(crate) async fn change(
        self: &Arc<Self>,
        bucket: &BucketName,
        change: &Change,
    ) -> Result<ChangeResult, BucketError> {
        let entry = change.key.entry(bucket)?;
        loop {
            let known = self.bucket(bucket).await?;
            let found = self.store.entry(&entry).await?;
            let revision = found.as_ref().map_or(0, |it| it.revision);
            let before = found.as_ref().map(Blob::read).transpose()?.flatten();
            change.condition.check_write(bucket, &change.key, before.as_ref())?;
            let max = known.settings.blob_bytes_max();
            if change.content.as_ref().is_some_and(|it| max < it.1.size) {
                return Err(BucketError::TooLarge { max });
            }
            if change.content.is_none() && before.is_none() {
                return Ok(ChangeResult { before, after: None, sequence: None });
            }
            let mut commit = self.commit_of(bucket, &known, change, (&entry, revision), &before)?;
            if let Some(once) = &change.once {
                let stored = change.content.as_ref();
                let put = PutRecord {
                    sequence: known.floor + revision + 1,
                    version: stored.map(|it| it.0.to_string()).unwrap_or_default(),
                    size: stored.map_or(0, |it| it.1.size),
                };
                commit = commit.write(Write::Remember(once.clone().reply(0, Json::of(&put)?)));
            }
            crash::point("blob.prepared");
            let counted = self.commit_counted(bucket, change, &before, commit);
            let decided = Box::pin(counted).await;
            if decided.as_ref().is_err_and(|it| !it.surely_unapplied()) {
                // If the commit was applied, no row refers to these files any more.
                let before = before.iter().flat_map(Blob::files).map(|it| it.0);
                self.recheck(&before.collect::<Vec<_>>());
            }
            let receipt = match decided? {
                Ok(receipt) => receipt,
                Err(Rejection::Revision { entry: moved, .. }) => {
                    if change.upload.as_ref().is_some_and(|it| it.0 == moved) {
                        let upload = change.content.as_ref().map(|it| it.0.to_string());
                        let upload = upload.unwrap_or_default();
                        return Err(BucketError::UnknownUpload { upload });
                    }
                    if moved == bucket.entry()? {
                        self.cache.forget(bucket);
                    }
                    continue;
                }
                Err(Rejection::KeyReused { key }) => return Err(BucketError::KeyReused { key }),
                Err(rejection) => {
                    return Err(StoreError::Corrupt { reason: rejection.to_string() }.into());
                }
            };
            crash::point("blob.committed");
            let written = |(id, row): &(ContentId, BlobRow)| {
                let row = row.with_floor(known.floor);
                row.blob(change.key.clone(), *id, revision + 1, receipt.at)
            };
            let after = change.content.as_ref().map(written);
            let sequence = Some(known.floor + revision + 1);
            return Ok(ChangeResult { before, after, sequence });
        }
    }

    /// Commits a change, and counts it for its organization. The commit of a completed upload also
    /// ends the counter of its parts.
    async fn commit_counted(
        &self,
        bucket: &BucketName,
        change: &Change,
        before: &Option<Blob>,
        mut commit: Commit,
    ) -> Result<Result<Receipt, Rejection>, BucketError> {
        let counter = self.usage_counter(&change.key).await?;
        let (old, new) = (before.as_ref(), change.content.as_ref());
        let size = new.map_or(0, |it| it.1.size);
        let bytes = signed(size) - old.map_or(0, |it| signed(it.size));
        let objects = i64::from(new.is_some()) - i64::from(old.is_some());
        let place = Place::of_blob(bucket, &change.key);
        let mut changes = vec![UsageChange { place, bytes, objects }];
        if let (Some((upload, _)), Some((content, _))) = (&change.upload, new) {
            let (parts, ended) = self.end_parts(*content, commit).await?;
            commit = ended;
            let place = Place::of_upload(bucket, upload);
            changes.push(UsageChange { place, bytes: -parts, objects: -1 });
        }
        counter.commit(self, commit, &changes, size).await
    }

    fn commit_of(
        &self,
        bucket: &BucketName,
        known: &CachedBucket,
        change: &Change,
        (entry, revision): (&EntryKey, i64),
        before: &Option<Blob>,
    ) -> Result<Commit, BucketError> {
        let put = match &change.content {
            Some((id, stored)) => {
                let put = Put::of(entry.clone(), &stored.with_floor(known.floor))?;
                Put { reference: Some(id.reference()), ..put }
            }
            None => Put::removal(entry.clone(), self.options.keep_tombstones),
        };
        let mut commit = Commit::of(Write::Put(put))
            .expect(Self::expect_bucket(bucket, known)?)
            .expect(Expect::Revision { entry: entry.clone(), revision });
        if let Some((upload, revision)) = &change.upload {
            let gone = Put::removal(upload.clone(), std::time::Duration::ZERO);
            commit = commit
                .expect(Expect::Revision { entry: upload.clone(), revision: *revision })
                .write(Write::Put(gone));
        }
        let key = change.key.as_str();
        if let Some(rule) = known.settings.rules.iter().find(|it| it.sends(change.action, key)) {
            let sequence = known.floor + revision + 1;
            let event = self.event(bucket, change, sequence, before);
            let message = Message::new(&rule.queue, Json::of(&event)?)?.action(ENQUEUE);
            let message = message.metadata(Json::of(&Sender { rule: rule.id.clone() })?)?;
            let messages = vec![message.to(&queue_address(&rule.queue)?)];
            commit = commit.write(Write::Append { stream: stream(bucket)?, messages });
        }
        Ok(commit)
    }

    fn event(
        &self,
        bucket: &BucketName,
        change: &Change,
        sequence: i64,
        before: &Option<Blob>,
    ) -> BlobEvent {
        let stored = change.content.as_ref();
        let version = match (stored, before) {
            (Some((id, _)), _) => id.to_string(),
            (None, Some(before)) => before.version(),
            (None, None) => String::new(),
        };
        BlobEvent {
            account: self.account.clone(),
            action: change.action,
            bucket: bucket.to_string(),
            object: EventObject {
                key: change.key.to_string(),
                size: stored.map(|it| it.1.size),
                e_tag: stored.map(|it| it.1.etag.clone()),
            },
            event_time: time(self.clock.now()),
            copy_source: change.copy_source.clone(),
            version,
            sequence,
            metadata: stored.map(|it| it.1.attributes.metadata.clone()).unwrap_or_default(),
        }
    }
}

/// Formats a time for events.
fn time(at: Timestamp) -> String {
    match DateTime::of(at) {
        Some(it) => format!("{it:.3}"),
        // Years after 9999 have no RFC 3339 form.
        None => at.0.to_string(),
    }
}

impl Buckets {
    /// Deletes a blob. Returns `None` if there was none; then nothing was committed.
    #[steadfast_store::boxed]
    pub async fn delete(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        condition: Condition,
    ) -> Result<Option<i64>, BucketError> {
        self.shared.delete(bucket, key, BlobAction::DeleteObject, condition).await
    }
}

impl Shared {
    pub(crate) async fn delete(
        self: &Arc<Self>,
        bucket: &BucketName,
        key: &BlobKey,
        action: BlobAction,
        condition: Condition,
    ) -> Result<Option<i64>, BucketError> {
        let (shared, bucket) = (self.clone(), bucket.clone());
        let change = Change::new(key, action, None, condition);
        Self::run_to_completion(async move {
            let _changing = shared.changes.begin()?;
            let changed = shared.change(&bucket, &change).await?;
            if let Some(before) = changed.before {
                shared.discard(before.files().into_iter().map(|it| it.0).collect()).await;
            }
            Ok(changed.sequence)
        })
        .await
    }
}

/// Options of a copy.
#[derive(Clone, Debug, Default)]
pub struct CopyOptions {
    /// Condition on the source.
    pub source: Condition,
    /// Condition on the blob that the copy replaces.
    pub condition: Condition,
    /// Attributes of the copy; `None` copies those of the source.
    pub attributes: Option<Attributes>,
}

impl Buckets {
    /// Copies a blob. Its files are linked: contents are never overwritten.
    #[steadfast_store::boxed]
    pub async fn copy(
        &self,
        from: (&BucketName, &BlobKey),
        to: (&BucketName, &BlobKey),
        copy: CopyOptions,
    ) -> Result<Blob, BucketError> {
        let buckets = self.clone();
        let (from, to) = ((from.0.clone(), from.1.clone()), (to.0.clone(), to.1.clone()));
        Shared::run_to_completion(async move { buckets.link_and_put(&from, &to, copy).await }).await
    }

    async fn link_and_put(
        &self,
        from: &(BucketName, BlobKey),
        to: &(BucketName, BlobKey),
        copy: CopyOptions,
    ) -> Result<Blob, BucketError> {
        if let Some(attributes) = &copy.attributes {
            attributes.check()?;
        }
        let _changing = self.shared.changes.begin()?;
        let mut missing = None;
        let (source, held, files) = loop {
            let source = self.head(&from.0, &from.1).await?;
            copy.source.check_read(&source).map_err(BucketError::of_copy_source)?;
            let max = self.shared.bucket(&to.0).await?.settings.blob_bytes_max();
            if max < source.size {
                return Err(BucketError::TooLarge { max });
            }
            let content = self.shared.new_content();
            let held = Hold::new(&self.shared, content);
            let hold = Hold::new(&self.shared, source.content);
            let links: Vec<(FileName, FileName)> = source
                .files()
                .into_iter()
                .map(|(name, _)| (name, FileName { content, ..name }))
                .collect();
            let files: Vec<FileName> = links.iter().map(|it| it.1).collect();
            let linked = self.shared.run_blocking(move |blobs| Ok(link_all(blobs, &links))).await;
            let linked = linked.and_then(|it| it.map_err(|error| source.unreadable(error)));
            drop(hold);
            crash::point("blob.linked");
            match linked {
                Ok(()) => break (source, held, files),
                Err(error) => {
                    drop(held);
                    self.shared.discard(files).await;
                    // A blob with another version was replaced after its row was read: retry.
                    if missing == Some(source.version()) {
                        return Err(error);
                    }
                    missing = Some(source.version());
                }
            }
        };
        let content = held.content;
        let attributes = copy.attributes.unwrap_or_else(|| source.attributes.clone());
        let row = BlobRow::copy(&source, content, attributes);
        let (bucket, object) = (from.0.to_string(), from.1.to_string());
        let change = Change {
            copy_source: Some(CopySource { bucket, object }),
            ..Change::new(&to.1, BlobAction::CopyObject, Some((content, row)), copy.condition)
        };
        self.shared.replace(&to.0, change, files, held).await
    }
}

/// Links all files. On an error it removes the links made so far.
fn link_all(blobs: &dyn Blobs, links: &[(FileName, FileName)]) -> io::Result<()> {
    for (index, (from, to)) in links.iter().enumerate() {
        if let Err(error) = blobs.link(*from, *to) {
            let made: Vec<FileName> = links[..index].iter().map(|it| it.1).collect();
            // The caller handles files that cannot be removed.
            let _ = blobs.remove(&made);
            return Err(error);
        }
    }
    Ok(())
}

/// An event that a bucket sent, and the state of its delivery.
#[derive(Clone, Debug)]
pub struct SentEvent {
    /// The event.
    pub event: BlobEvent,
    /// Id of the rule that sent it, which may have changed since.
    pub rule: String,
    /// The message of the event, with its queue and state.
    pub message: Recorded,
}

/// The metadata of the message of an event.
#[derive(Serialize, Deserialize)]
pub(crate) struct Sender {
    pub(crate) rule: String,
}

impl Buckets {
    /// The last events of a bucket before a version of its stream, newest first.
    #[steadfast_store::boxed]
    pub async fn events(
        &self,
        bucket: &BucketName,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<SentEvent>, BucketError> {
        self.shared.bucket(bucket).await?;
        let stream = stream(bucket)?.id();
        let last = match before {
            Some(before) => before - 1,
            None => self.shared.store.version(stream).await?,
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX).min(last);
        if limit <= 0 {
            return Ok(Vec::new());
        }
        let found = self.shared.store.read_stream(stream, last - limit + 1, limit as usize).await?;
        let read = |message: Recorded| {
            let event = serde_json::from_str(message.data.as_str()).ok()?;
            let sender: Sender = serde_json::from_str(message.metadata.as_str()).ok()?;
            Some(SentEvent { event, rule: sender.rule, message })
        };
        let up_to = found.into_iter().filter(|it| it.version <= last);
        Ok(up_to.rev().filter_map(read).collect())
    }
}

/// The stream that a bucket sends its events from.
fn stream(bucket: &BucketName) -> Result<Address, BucketError> {
    Ok(Address::new(EntityKind::Bucket, bucket.as_str(), "events")?)
}
