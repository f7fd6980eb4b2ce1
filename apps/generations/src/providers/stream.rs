//! The bytes of an output, chunk by chunk.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    error::{ErrorKind, GenerateError},
    media::{MediaKind, SNIFF_BYTES, sniff_media},
};

/// Bytes of a chunk at most, but for the first one, which may have a few more.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Chunks buffered between the reading task and the stream.
pub(crate) const CHUNKS_WAITING: usize = 2;

/// A chunk on its way to the stream.
pub(crate) type Chunk = Result<Bytes, GenerateError>;

/// An output that is being read. Dropping it stops the reading.
#[derive(Debug)]
pub struct OutputStream {
    media: MediaKind,
    length: Option<u64>,
    first: Option<Bytes>,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Coming(mpsc::Receiver<Chunk>),
    There(Bytes),
}

impl OutputStream {
    /// Waits for the first bytes, and refuses what is no media.
    pub(crate) async fn coming(
        length: Option<u64>,
        mut chunks: mpsc::Receiver<Chunk>,
    ) -> Result<Self, GenerateError> {
        let mut first = Vec::new();
        while first.len() < SNIFF_BYTES {
            match chunks.recv().await {
                Some(chunk) => first.extend_from_slice(&chunk?),
                None => break,
            }
        }
        let media = known(&first)?;
        Ok(Self { media, length, first: Some(first.into()), rest: Rest::Coming(chunks) })
    }

    /// Of bytes that are there: for providers that have them. Refuses what is no media.
    pub fn there(bytes: Bytes) -> Result<Self, GenerateError> {
        let media = known(&bytes)?;
        let length = Some(bytes.len() as u64);
        Ok(Self { media, length, first: None, rest: Rest::There(bytes) })
    }

    /// The kind, by its first bytes.
    pub fn media(&self) -> MediaKind {
        self.media
    }

    /// How many bytes it says to have. What comes is counted all the same.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next bytes; `None` after the last ones. After an error there are no more.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, GenerateError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        match &mut self.rest {
            Rest::Coming(chunks) => chunks.recv().await.transpose(),
            Rest::There(bytes) if bytes.is_empty() => Ok(None),
            Rest::There(bytes) => Ok(Some(bytes.split_to(bytes.len().min(CHUNK_BYTES)))),
        }
    }
}

fn known(first: &[u8]) -> Result<MediaKind, GenerateError> {
    sniff_media(first).ok_or_else(|| {
        let what = if first.is_empty() { "is empty" } else { "is no image and no video" };
        GenerateError::new(ErrorKind::OutputContent, format!("the output {what}"))
    })
}
