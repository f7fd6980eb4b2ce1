//! Writes a blob: bytes into a file, checksums, then the commit.

use std::sync::Arc;

use steadfast_store::{Rejection, Remember};

use crate::{
    Attributes, Blob, BlobAction, BlobKey, BucketError, BucketName, Buckets, ChecksumKind,
    Condition, ExpectedContent, Hashes,
    blob::BlobRow,
    buckets::{Hold, Shared},
    change::Change,
    content::{Draft, FileName},
    digest::{ContentSums, Digests},
    quota::Room,
    session::ChangeGuard,
};

/// Bytes collected before a write, so that a small blob needs one disk operation.
const BUFFER: usize = 1 << 20;

/// Options of a put.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Attributes of the blob.
    pub attributes: Attributes,
    /// Size and checksums that the bytes must have.
    pub expected: ExpectedContent,
    /// Condition on the blob that is replaced.
    pub condition: Condition,
    /// An idempotency key, recorded in the commit of the blob. A repeated put stores nothing and
    /// fails with [`BucketError::Repeated`] and a [`PutRecord`](crate::PutRecord).
    pub once: Option<Remember>,
}

/// A blob being written. Dropping it removes its file.
pub struct BlobWriter {
    shared: Arc<Shared>,
    bucket: BucketName,
    key: BlobKey,
    bytes: BytesWriter,
}

impl BlobWriter {
    /// Computes these hashes. The ETag is the MD5 if that is one of them, and otherwise the
    /// SHA-256, which is computed then. Call it before the first write.
    pub fn with(mut self, hashes: Hashes) -> Self {
        let sha256 = hashes.sha256 || !hashes.md5;
        self.bytes = self.bytes.with(Hashes { sha256, ..hashes });
        self
    }

    /// Appends bytes.
    #[steadfast_store::boxed]
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.bytes.write(bytes).await
    }

    /// Refuses a blob of this size before its bytes are read, if there is no space for it.
    #[steadfast_store::boxed]
    pub async fn expect_size(&mut self, size: u64) -> Result<(), BucketError> {
        self.bytes.check_size(size).await
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.bytes.size
    }

    /// Commits the blob. It and its event are durable when this returns. If the future is dropped,
    /// the put may still be committed.
    #[steadfast_store::boxed]
    pub async fn finish(self, put: PutOptions) -> Result<Blob, BucketError> {
        let (shared, once) = (self.shared.clone(), put.once.clone());
        shared.keyed(once, Shared::run_to_completion(self.seal_and_put(put))).await
    }

    async fn seal_and_put(self, put: PutOptions) -> Result<Blob, BucketError> {
        let Self { shared, bucket, key, bytes } = self;
        put.attributes.check()?;
        let name = bytes.name;
        let hold = Hold::new(&shared, name.content);
        let (sums, _changing) = bytes.seal(put.expected).await?;
        let stored = BlobRow::whole(name.content, sums, put.attributes);
        let (action, content) = (BlobAction::PutObject, Some((name.content, stored)));
        let change = Change { once: put.once, ..Change::new(&key, action, content, put.condition) };
        shared.replace(&bucket, change, vec![name], hold).await
    }
}

impl Shared {
    /// Puts a blob with an idempotency key. A repetition gets the first answer, even if it would be
    /// refused now: the first request may have used up the quota.
    async fn keyed(
        &self,
        once: Option<Remember>,
        put: impl Future<Output = Result<Blob, BucketError>>,
    ) -> Result<Blob, BucketError> {
        let refused = match put.await {
            Err(error) if error.surely_unapplied() => error,
            done => return done,
        };
        let Some(once) = once else { return Err(refused) };
        match self.commit(once.probe()).await? {
            Err(Rejection::KeyReused { key }) => Err(BucketError::KeyReused { key }),
            Ok(_) | Err(_) => Err(refused),
        }
    }

    /// Replaces the content of a key with these files. If the commit certainly failed, it removes
    /// them; otherwise the sweep decides. The replaced files are removed. The sweep skips contents
    /// that are held.
    pub(crate) async fn replace(
        self: &Arc<Self>,
        bucket: &BucketName,
        change: Change,
        files: Vec<FileName>,
        hold: Hold,
    ) -> Result<Blob, BucketError> {
        let changed = self.change(bucket, &change).await;
        drop(hold);
        match changed {
            Ok(changed) => {
                if let Some(before) = changed.before {
                    self.discard(before.files().into_iter().map(|it| it.0).collect()).await;
                }
                let reason = "a blob was put and is not there".to_owned();
                changed.after.ok_or(BucketError::Files { reason })
            }
            Err(error) => {
                if error.surely_unapplied() {
                    self.discard(files).await;
                } else {
                    self.recheck(&files);
                }
                Err(error)
            }
        }
    }
}

impl Buckets {
    /// Begins to write a blob. It is refused early if the quota has no space for another one,
    /// before an idempotency key is looked at: [`put`](Self::put) looks at the key.
    #[steadfast_store::boxed]
    pub async fn writer(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
    ) -> Result<BlobWriter, BucketError> {
        let max = self.shared.bucket(bucket).await?.settings.blob_bytes_max();
        let name = FileName { content: self.shared.new_content(), part: None };
        let before = async {
            let found = self.shared.store.entry(&key.entry(bucket)?).await?;
            Ok(found.as_ref().map(Blob::read).transpose()?.flatten().map(|it| it.size))
        };
        let room = self.shared.room(key, false, before).await?;
        let hashes = Hashes::default().and(ChecksumKind::Sha256);
        let bytes = BytesWriter::new(&self.shared, name, (max, room), hashes)?;
        let shared = self.shared.clone();
        Ok(BlobWriter { shared, bucket: bucket.clone(), key: key.clone(), bytes })
    }

    /// Puts a blob from bytes in memory.
    #[steadfast_store::boxed]
    pub async fn put(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        bytes: &[u8],
        put: PutOptions,
    ) -> Result<Blob, BucketError> {
        let once = put.once.clone();
        let work = async {
            let mut writer = self.writer(bucket, key).await?;
            if put.expected.md5.is_some() {
                writer = writer.with(Hashes { md5: true, sha256: true, ..Hashes::default() });
            }
            writer.write(bytes).await?;
            Shared::run_to_completion(writer.seal_and_put(put)).await
        };
        self.shared.keyed(once, work).await
    }
}

/// Writes bytes to a file and computes their checksums.
pub(crate) struct BytesWriter {
    shared: Arc<Shared>,
    pub(crate) name: FileName,
    max: u64,
    room: Option<Room>,
    pub(crate) size: u64,
    buffer: Vec<u8>,
    /// Taken while a blocking thread uses it.
    state: Option<State>,
}

struct State {
    draft: Option<Box<dyn Draft>>,
    digests: Digests,
    /// Dropped after the draft, so that the file is gone when the change ends.
    change_guard: ChangeGuard,
}

impl BytesWriter {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        name: FileName,
        (max, room): (u64, Option<Room>),
        hashes: Hashes,
    ) -> Result<Self, BucketError> {
        let (digests, change_guard) = (Digests::new(hashes), shared.changes.begin()?);
        let state = Some(State { draft: None, digests, change_guard });
        let shared = shared.clone();
        Ok(Self { shared, name, max, room, size: 0, buffer: Vec::new(), state })
    }

    pub(crate) fn with(mut self, hashes: Hashes) -> Self {
        if self.size == 0
            && let Some(state) = &mut self.state
        {
            state.digests = Digests::new(hashes);
        }
        self
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.size += bytes.len() as u64;
        if let Err(error) = self.check_size(self.size).await {
            // The bytes so far are useless: free their space.
            self.state = None;
            return Err(error);
        }
        for piece in bytes.chunks(BUFFER) {
            self.buffer.extend_from_slice(piece);
            if BUFFER <= self.buffer.len() {
                self.flush().await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn check_size(&mut self, size: u64) -> Result<(), BucketError> {
        if self.max < size {
            return Err(BucketError::TooLarge { max: self.max });
        }
        self.shared.check_room(&mut self.room, size).await
    }

    async fn flush(&mut self) -> Result<(), BucketError> {
        let (mut state, buffer) = (self.take()?, std::mem::take(&mut self.buffer));
        let name = self.name;
        let work = move |blobs: &dyn crate::content::Blobs| {
            state.digests.add(&buffer);
            let draft = match &mut state.draft {
                Some(draft) => draft,
                None => state.draft.insert(blobs.create(name)?),
            };
            draft.write(&buffer)?;
            let mut buffer = buffer;
            buffer.clear();
            Ok((state, buffer))
        };
        let (state, buffer) = self.shared.run_blocking(work).await?;
        (self.state, self.buffer) = (Some(state), buffer);
        Ok(())
    }

    /// Verifies the checksums and makes the file durable.
    pub(crate) async fn seal(
        mut self,
        expected: ExpectedContent,
    ) -> Result<(ContentSums, ChangeGuard), BucketError> {
        let (mut state, buffer, name) = (self.take()?, self.buffer, self.name);
        let shared = self.shared.clone();
        self.shared
            .run_blocking(move |blobs| {
                state.digests.add(&buffer);
                let sums = state.digests.finish();
                expected.check(&sums)?;
                let mut draft = match state.draft {
                    Some(draft) => draft,
                    None => blobs.create(name)?,
                };
                let sealed = draft.write(&buffer).and_then(|()| draft.seal());
                if let Err(error) = sealed {
                    // The file may have its name already.
                    if blobs.remove(&[name]).is_err() {
                        shared.recheck(&[name]);
                    }
                    return Err(error.into());
                }
                Ok((sums, state.change_guard))
            })
            .await
    }

    fn take(&mut self) -> Result<State, BucketError> {
        let reason = "the writer was dropped during a write".to_owned();
        self.state.take().ok_or(BucketError::Body { reason })
    }
}
