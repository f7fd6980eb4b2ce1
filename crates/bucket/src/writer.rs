//! Writing: bytes into a file, what they come to, and then the commit.

use std::sync::Arc;

use steadfast_store::Remember;

use crate::{
    Attributes, Blob, BlobAction, BlobKey, BucketError, BucketName, Buckets, Condition, Expected,
    MoreHashes,
    blob::Stored,
    buckets::{Hold, Shared},
    change::Change,
    changes::Changing,
    content::{Draft, FileName},
    digest::{Checksums, Digests, Hashes},
};

/// So much is collected before it is written: a small blob is one errand to the disk.
const BUFFER: usize = 1 << 20;

/// How a blob is put.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Its attributes.
    pub attributes: Attributes,
    /// The checksums that its bytes must have.
    pub expected: Expected,
    /// The condition on the blob that it replaces.
    pub condition: Condition,
    /// An idempotency key, recorded in the commit of the blob. A repetition puts nothing and fails
    /// with [`BucketError::Repeated`] and a [`PutRecord`](crate::PutRecord).
    pub once: Option<Remember>,
}

/// A blob that is being written. Dropped, it leaves nothing.
pub struct BlobWriter {
    shared: Arc<Shared>,
    bucket: BucketName,
    key: BlobKey,
    bytes: BytesWriter,
}

impl BlobWriter {
    /// Takes the MD5 for its tag, as S3 does. To be said before anything is written.
    pub fn with_md5(mut self) -> Self {
        self.bytes = self.bytes.with(Hashes::Md5);
        self
    }

    /// Takes the MD5 for its tag, and computes the SHA-256, too. To be said before anything is
    /// written.
    pub fn with_md5_and_sha256(mut self) -> Self {
        self.bytes = self.bytes.with(Hashes::Both);
        self
    }

    /// Computes these checksums, too. To be said before anything is written, behind the others.
    pub fn with_more(mut self, more: MoreHashes) -> Self {
        self.bytes = self.bytes.and(more);
        self
    }

    /// Adds bytes to its end.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.bytes.write(bytes).await
    }

    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        self.bytes.size
    }

    /// Puts it into the bucket: it and its event are durable when this returns. Given up, it is
    /// done or not.
    pub async fn finish(self, put: PutOptions) -> Result<Blob, BucketError> {
        Shared::to_the_end(self.seal_and_put(put)).await
    }

    async fn seal_and_put(self, put: PutOptions) -> Result<Blob, BucketError> {
        let Self { shared, bucket, key, bytes } = self;
        put.attributes.check()?;
        let name = bytes.name;
        let hold = Hold::new(&shared, name.content);
        let (sums, _changing) = bytes.seal(put.expected).await?;
        let stored = Stored::whole(name.content, &sums, put.attributes);
        let change = Change {
            key,
            action: BlobAction::PutObject,
            content: Some((name.content, stored)),
            condition: put.condition,
            copy_source: None,
            upload: None,
            once: put.once,
        };
        shared.replace(&bucket, change, vec![name], hold).await
    }
}

impl Shared {
    /// Changes a key to what these files hold. If it is sure that this failed they go, otherwise
    /// the sweep decides; what was there before goes. The sweep leaves alone what is held.
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
                if error.is_certain() {
                    self.discard(files).await;
                } else {
                    self.doubt(&files);
                }
                Err(error)
            }
        }
    }
}

impl Buckets {
    /// Begins to write a blob.
    pub async fn writer(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
    ) -> Result<BlobWriter, BucketError> {
        let max = self.shared.bucket(bucket).await?.settings.blob_bytes_max();
        let name = FileName { content: self.shared.new_content(), part: None };
        let bytes = BytesWriter::new(&self.shared, name, max, Hashes::Sha256)?;
        let shared = self.shared.clone();
        Ok(BlobWriter { shared, bucket: bucket.clone(), key: key.clone(), bytes })
    }

    /// Puts a blob whose bytes are at hand.
    pub async fn put(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        bytes: &[u8],
        put: PutOptions,
    ) -> Result<Blob, BucketError> {
        let mut writer = self.writer(bucket, key).await?;
        if put.expected.md5.is_some() {
            writer = writer.with_md5_and_sha256();
        }
        writer.write(bytes).await?;
        writer.finish(put).await
    }
}

/// Bytes on their way into a file.
pub(crate) struct BytesWriter {
    shared: Arc<Shared>,
    pub(crate) name: FileName,
    max: u64,
    pub(crate) size: u64,
    buffer: Vec<u8>,
    /// Taken while it is on an errand.
    state: Option<State>,
}

struct State {
    draft: Option<Box<dyn Draft>>,
    digests: Digests,
    /// Goes with the draft, wherever that is dropped; behind it, so that the file is gone then.
    changing: Changing,
}

impl BytesWriter {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        name: FileName,
        max: u64,
        hashes: Hashes,
    ) -> Result<Self, BucketError> {
        let (digests, changing) = (Digests::new(hashes), shared.changes.begin()?);
        let state = Some(State { draft: None, digests, changing });
        Ok(Self { shared: shared.clone(), name, max, size: 0, buffer: Vec::new(), state })
    }

    pub(crate) fn with(mut self, hashes: Hashes) -> Self {
        if self.size == 0
            && let Some(state) = &mut self.state
        {
            state.digests = Digests::new(hashes);
        }
        self
    }

    pub(crate) fn and(mut self, more: MoreHashes) -> Self {
        if self.size == 0
            && let Some(state) = &mut self.state
        {
            state.digests.and(more);
        }
        self
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        self.size += bytes.len() as u64;
        if self.max < self.size {
            // The bytes so far are no blob, and need no room any more.
            self.state = None;
            return Err(BucketError::TooLarge { max: self.max });
        }
        for piece in bytes.chunks(BUFFER) {
            self.buffer.extend_from_slice(piece);
            if BUFFER <= self.buffer.len() {
                self.flush().await?;
            }
        }
        Ok(())
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
        let (state, buffer) = self.shared.off(work).await?;
        (self.state, self.buffer) = (Some(state), buffer);
        Ok(())
    }

    /// Makes the file durable, if it is what it should be.
    pub(crate) async fn seal(
        mut self,
        expected: crate::Expected,
    ) -> Result<(Checksums, Changing), BucketError> {
        let (mut state, buffer, name) = (self.take()?, self.buffer, self.name);
        let shared = self.shared.clone();
        self.shared
            .off(move |blobs| {
                state.digests.add(&buffer);
                let sums = state.digests.finish();
                expected.check(&sums)?;
                let mut draft = match state.draft {
                    Some(draft) => draft,
                    None => blobs.create(name)?,
                };
                let sealed = draft.write(&buffer).and_then(|()| draft.seal());
                if let Err(error) = sealed {
                    // It may have its name already.
                    if blobs.remove(&[name]).is_err() {
                        shared.doubt(&[name]);
                    }
                    return Err(error.into());
                }
                Ok((sums, state.changing))
            })
            .await
    }

    fn take(&mut self) -> Result<State, BucketError> {
        let reason = "the writer was given up in the middle of a write".to_owned();
        self.state.take().ok_or(BucketError::Body { reason })
    }
}
