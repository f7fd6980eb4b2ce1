//! Reads a blob: its row, then its bytes in pieces.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use bytes::Bytes;
use crc32fast::Hasher as Crc32;

use crate::{
    Blob, BlobKey, BucketError, BucketName, Buckets, Condition,
    buckets::{Hold, Shared},
    content::{Content, FileName},
};

/// Bytes per read.
const PIECE: u64 = 256 << 10;

/// A range of bytes, as in HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteRange {
    /// From this offset to the end.
    From(u64),
    /// From one offset to another, inclusive.
    Between(u64, u64),
    /// The last bytes.
    Last(u64),
}

impl ByteRange {
    /// The range within a blob of this size, by the rules of HTTP.
    pub fn of(self, size: u64) -> Result<Range<u64>, BucketError> {
        let range = match self {
            ByteRange::From(first) => first..size,
            ByteRange::Between(first, last) => first..size.min(last.saturating_add(1)),
            ByteRange::Last(count) => size.saturating_sub(count)..size,
        };
        if range.is_empty() { Err(BucketError::Range { size }) } else { Ok(range) }
    }
}

/// Options of a read.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// The bytes to read; `None` reads all.
    pub range: Option<ByteRange>,
    /// Condition on the blob.
    pub condition: Condition,
}

/// A blob being read. A replaced or deleted blob is still read to its end. If all of it is read,
/// its bytes are checked: the read fails before the last of them if they are not those that were
/// written.
pub struct BlobReader {
    /// The blob.
    pub blob: Blob,
    /// The range that is read.
    pub range: Range<u64>,
    first: Option<Bytes>,
    rest: VecDeque<(FileName, Range<u64>)>,
    open: Option<(FileName, Arc<dyn Content>)>,
    /// The checksum of the bytes so far, if all of them are read.
    read: Option<Crc32>,
    hold: Hold,
    shared: Arc<Shared>,
}

impl Buckets {
    /// The blob under a key; an error if it does not exist.
    #[steadfast_store::boxed]
    pub async fn head(&self, bucket: &BucketName, key: &BlobKey) -> Result<Blob, BucketError> {
        self.shared.find(bucket, key).await
    }

    /// The blob under a key, if it meets the condition.
    #[steadfast_store::boxed]
    pub async fn head_if(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        condition: &Condition,
    ) -> Result<Blob, BucketError> {
        let blob = self.shared.find(bucket, key).await?;
        condition.check_read(&blob)?;
        Ok(blob)
    }

    /// Reads a blob.
    #[steadfast_store::boxed]
    pub async fn get(
        &self,
        bucket: &BucketName,
        key: &BlobKey,
        get: GetOptions,
    ) -> Result<BlobReader, BucketError> {
        let mut missing = None;
        loop {
            let blob = self.shared.find(bucket, key).await?;
            get.condition.check_read(&blob)?;
            let range = match get.range {
                Some(range) => range.of(blob.size)?,
                None => 0..blob.size,
            };
            let version = blob.version();
            match BlobReader::begin(&self.shared, blob, range).await {
                // Its other files are not open yet, and may have been removed before this reader
                // held them.
                Ok(reading) if 1 < reading.blob.parts() => {
                    if self.shared.find(bucket, key).await?.version() == version {
                        return Ok(reading);
                    }
                }
                Ok(reading) => return Ok(reading),
                // A blob with another version was replaced after its row was read: retry.
                Err(error) if missing.as_ref() == Some(&version) => {
                    self.shared.count_unreadable(&error);
                    return Err(error);
                }
                Err(_) => missing = Some(version),
            }
        }
    }
}

impl Shared {
    async fn find(&self, bucket: &BucketName, key: &BlobKey) -> Result<Blob, BucketError> {
        self.bucket(bucket).await?;
        let entry = self.store.entry(&key.entry(bucket)?).await?;
        let blob = entry.as_ref().map(Blob::read).transpose()?.flatten();
        blob.ok_or_else(|| BucketError::UnknownBlob {
            bucket: bucket.to_string(),
            key: key.to_string(),
        })
    }
}

impl BlobReader {
    /// Reads the first piece. An open file can be read to its end.
    pub(crate) async fn begin(
        shared: &Arc<Shared>,
        blob: Blob,
        range: Range<u64>,
    ) -> Result<Self, BucketError> {
        let read = (range == (0..blob.size)).then(Crc32::new);
        Self::begin_with(shared, blob, range, read).await
    }

    /// Continues to read all of a blob, behind bytes with this checksum.
    pub(crate) async fn resume(
        shared: &Arc<Shared>,
        blob: Blob,
        from: u64,
        crc32: u32,
    ) -> Result<Self, BucketError> {
        let range = from.min(blob.size)..blob.size;
        Self::begin_with(shared, blob, range, Some(Crc32::new_with_initial(crc32))).await
    }

    async fn begin_with(
        shared: &Arc<Shared>,
        blob: Blob,
        range: Range<u64>,
        read: Option<Crc32>,
    ) -> Result<Self, BucketError> {
        let hold = Hold::new(shared, blob.content);
        let (rest, shared) = (parts(&blob, &range), shared.clone());
        let (first, open) = (None, None);
        let mut reading = Self { blob, range, first, rest, open, read, hold, shared };
        reading.first = reading.read().await?;
        Ok(reading)
    }

    /// The next bytes; `None` at the end.
    #[steadfast_store::boxed]
    pub async fn next(&mut self) -> Result<Option<Bytes>, BucketError> {
        self.piece().await.inspect_err(|error| self.shared.count_unreadable(error))
    }

    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, BucketError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.read().await,
        }
    }

    /// The checksum of the bytes that were read.
    pub(crate) fn crc32(&self) -> u32 {
        self.read.clone().map_or(0, Crc32::finalize)
    }

    async fn read(&mut self) -> Result<Option<Bytes>, BucketError> {
        let Some((name, rest)) = self.rest.pop_front() else { return Ok(None) };
        let until = rest.end.min(rest.start + PIECE);
        if until < rest.end {
            self.rest.push_front((name, until..rest.end));
        }
        let range = rest.start..until;
        let open = self.open.take().filter(|it| it.0 == name).map(|it| it.1);
        let work = move |blobs: &dyn crate::content::Blobs| {
            let read = || {
                let content = match open {
                    Some(content) => content,
                    None => blobs.open(name)?,
                };
                let bytes = content.read(range)?;
                Ok((content, bytes))
            };
            // The blob says what a missing or short file means.
            Ok(read())
        };
        let read = self.shared.run_blocking(work).await?;
        let (content, bytes) = read.map_err(|error| self.blob.unreadable(error))?;
        self.open = Some((name, content));
        self.check(&bytes)?;
        Ok(Some(bytes.into()))
    }

    /// Adds bytes to the checksum. Those that complete a damaged blob are not returned.
    fn check(&mut self, bytes: &[u8]) -> Result<(), BucketError> {
        let Some(read) = &mut self.read else { return Ok(()) };
        read.update(bytes);
        if self.rest.is_empty() && read.clone().finalize() != self.blob.crc32 {
            return Err(self.blob.damaged("its CRC-32 is another one"));
        }
        Ok(())
    }

    /// Reads all bytes. Use it for blobs that are known to be small.
    #[steadfast_store::boxed]
    pub async fn bytes(mut self) -> Result<Vec<u8>, BucketError> {
        let mut all = Vec::new();
        while let Some(bytes) = self.next().await? {
            all.extend_from_slice(&bytes);
        }
        // The files were held until here.
        drop(self.hold);
        Ok(all)
    }
}

/// The files of a range, with the bytes of each.
fn parts(blob: &Blob, range: &Range<u64>) -> VecDeque<(FileName, Range<u64>)> {
    let mut parts = VecDeque::new();
    let mut begin = 0;
    for (name, size) in blob.files() {
        let end = begin + size;
        let (from, until) = (range.start.max(begin), range.end.min(end));
        if from < until {
            parts.push_back((name, from - begin..until - begin));
        }
        begin = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_to_the_blob_and_never_empty() {
        assert_eq!(ByteRange::From(3).of(10).unwrap(), 3..10);
        assert_eq!(ByteRange::Between(0, 0).of(10).unwrap(), 0..1);
        assert_eq!(ByteRange::Between(8, u64::MAX).of(10).unwrap(), 8..10);
        assert_eq!(ByteRange::Last(3).of(10).unwrap(), 7..10);
        assert_eq!(ByteRange::Last(30).of(10).unwrap(), 0..10);
        for bad in [ByteRange::From(10), ByteRange::Between(11, 12), ByteRange::Last(0)] {
            assert!(matches!(bad.of(10), Err(BucketError::Range { size: 10 })), "{bad:?}");
        }
        assert!(ByteRange::Last(1).of(0).is_err());
    }
}
