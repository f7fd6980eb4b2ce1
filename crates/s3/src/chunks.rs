//! Checks bodies in `aws-chunked` encoding before the library reads them. The library buffers a
//! whole chunk of up to 4 GiB, and accepts a body without its last chunk.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use futures_util::Stream;
use s3s::{Body, StdError, dto::StreamingBlob, stream::ByteStream};

/// The chunking of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// No chunks.
    None,
    /// Signed chunks: they must stay as they are.
    Signed,
    /// Unsigned chunks: they are split as they arrive.
    Unsigned,
}

/// Maximum size of a signed chunk, which is buffered as a whole.
pub(crate) const SIGNED_BYTES_MAX: u64 = 16 << 20;
/// Maximum length of the line with the size of a chunk.
const LINE_BYTES_MAX: usize = 1_024;
/// Text of the error for a chunk that is too large.
pub(crate) const TOO_LARGE: &str = "a signed chunk is too large";

/// The body with chunks that fit into memory, checked to be complete.
pub(crate) fn checked(body: Body, chunks: Chunks) -> Body {
    if chunks == Chunks::None {
        return body;
    }
    let is_signed = chunks == Chunks::Signed;
    Body::from(StreamingBlob::new(ChunkStream {
        body: StreamingBlob::from(body),
        is_signed,
        state: State::Line(Vec::new()),
        out: VecDeque::new(),
    }))
}

struct ChunkStream {
    body: StreamingBlob,
    is_signed: bool,
    state: State,
    /// Bytes to pass on.
    out: VecDeque<Bytes>,
}

enum State {
    /// In the line with the size of the next chunk.
    Line(Vec<u8>),
    /// In a chunk, with the number of remaining bytes.
    Data(u64),
    /// In the line end after a chunk, with the number of remaining bytes.
    Behind(usize),
    /// After the last chunk.
    Trailers,
    /// The body has ended, or failed.
    Ended,
}

impl ChunkStream {
    fn take(&mut self, mut bytes: Bytes) -> io::Result<()> {
        if self.is_signed {
            self.out.push_back(bytes.clone());
        }
        while !bytes.is_empty() {
            match &mut self.state {
                State::Line(line) => {
                    let end = bytes.iter().position(|it| *it == b'\n').map(|it| it + 1);
                    line.extend_from_slice(&bytes.split_to(end.unwrap_or(bytes.len())));
                    if LINE_BYTES_MAX < line.len() {
                        return Err(io::Error::other("the line of a chunk is too long"));
                    }
                    if end.is_some() {
                        let size = size_of(line, self.is_signed)?;
                        self.begin(size)?;
                    }
                }
                State::Data(left) => {
                    let len = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    let piece = bytes.split_to(len);
                    *left -= len as u64;
                    if *left == 0 {
                        self.state = State::Behind(2);
                    }
                    if !self.is_signed {
                        self.out.push_back(format!("{len:x}\r\n").into());
                        self.out.extend([piece, Bytes::from_static(b"\r\n")]);
                    }
                }
                State::Behind(left) => {
                    if bytes.get_u8() != [b'\n', b'\r'][*left - 1] {
                        return Err(io::Error::other("a chunk is longer than it says"));
                    }
                    *left -= 1;
                    if *left == 0 {
                        self.state = State::Line(Vec::new());
                    }
                }
                State::Trailers => {
                    let rest = bytes.split_off(0);
                    if !self.is_signed {
                        self.out.push_back(rest);
                    }
                    bytes.clear();
                }
                State::Ended => return Err(io::Error::other("the body continues after its end")),
            }
        }
        Ok(())
    }

    fn begin(&mut self, size: u64) -> io::Result<()> {
        if self.is_signed && SIGNED_BYTES_MAX < size {
            return Err(io::Error::other(TOO_LARGE));
        }
        self.state = State::Data(size);
        if size == 0 {
            self.state = State::Trailers;
            if !self.is_signed {
                self.out.push_back(Bytes::from_static(b"0\r\n"));
            }
        }
        Ok(())
    }
}

/// Parses the size of a chunk, which precedes its signature. The library gets signed chunks as they
/// are, reads eight digits at most and ignores the others.
fn size_of(line: &[u8], is_signed: bool) -> io::Result<u64> {
    let digits = line.split(|it| b";\r\n".contains(it)).next().unwrap_or_default();
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let is_long = is_signed && 8 < text.len();
    if is_long || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Err(io::Error::other("a chunk does not begin with its size"));
    }
    u64::from_str_radix(text, 16).map_err(io::Error::other)
}

impl Stream for ChunkStream {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(bytes) = self.out.pop_front() {
                return Poll::Ready(Some(Ok(bytes)));
            }
            if matches!(self.state, State::Ended) {
                return Poll::Ready(None);
            }
            let taken = match ready!(Pin::new(&mut self.body).poll_next(cx)) {
                Some(Ok(bytes)) => self.take(bytes).map_err(StdError::from),
                Some(Err(error)) => Err(error),
                None if matches!(self.state, State::Trailers) => {
                    self.state = State::Ended;
                    Ok(())
                }
                None => Err(io::Error::other("the last chunk is missing").into()),
            };
            if let Err(error) = taken {
                self.state = State::Ended;
                self.out.clear();
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl ByteStream for ChunkStream {}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};

    use super::*;

    /// The pieces that the library gets from a body that arrives in pieces of this size.
    async fn seen(body: &[u8], piece: usize, chunks: Chunks) -> Result<Vec<Bytes>, String> {
        let pieces: Vec<_> =
            body.chunks(piece).map(|it| Ok::<_, io::Error>(Bytes::copy_from_slice(it))).collect();
        let body = Body::from(StreamingBlob::wrap(stream::iter(pieces)));
        let mut found = Vec::new();
        let mut body = StreamingBlob::from(checked(body, chunks));
        while let Some(next) = body.next().await {
            found.push(next.map_err(|it| it.to_string())?);
        }
        Ok(found)
    }

    #[tokio::test]
    async fn an_unsigned_chunk_is_split_as_it_arrives() {
        let mut body = b"2710\r\n".to_vec();
        body.extend([7; 10_000]);
        body.extend(b"\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
        for piece in [1, 7, 1_000, 20_000] {
            let found = seen(&body, piece, Chunks::Unsigned).await.unwrap();
            let longest = found.iter().map(Bytes::len).max().unwrap();
            assert!(longest <= piece.max(34), "{longest}");
            let whole = found.concat();
            let sevens = whole.iter().filter(|it| **it == 7).count();
            assert_eq!(sevens, 10_000);
            assert!(whole.ends_with(b"\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n"));
        }
    }

    #[tokio::test]
    async fn signed_chunks_are_unchanged_and_limited() {
        let body = b"3;chunk-signature=ab\r\nabc\r\n0;chunk-signature=cd\r\n\r\n";
        for piece in [1, 5, 100] {
            let found = seen(body, piece, Chunks::Signed).await.unwrap();
            assert_eq!(found.concat(), body);
        }
        let large = b"1000001;chunk-signature=ab\r\nabc";
        assert_eq!(seen(large, 100, Chunks::Signed).await, Err(TOO_LARGE.into()));
        let long = b"0000000003;chunk-signature=ab\r\nabc\r\n0;chunk-signature=cd\r\n\r\n";
        assert!(seen(long, 100, Chunks::Signed).await.is_err(), "the library reads 0");
        assert!(seen(long, 100, Chunks::Unsigned).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_without_its_last_chunk_is_incomplete() {
        for body in ["", "3\r\nabc\r\n", "3\r\nab", "3\r\nabcd\r\n0\r\n\r\n", "x\r\n", "3"] {
            for chunks in [Chunks::Signed, Chunks::Unsigned] {
                assert!(seen(body.as_bytes(), 2, chunks).await.is_err(), "{body:?}");
            }
        }
    }
}
