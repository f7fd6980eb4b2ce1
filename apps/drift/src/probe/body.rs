//! Bodies: hashed as they come, never kept.

use std::io::{self, Write};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};

use crate::envelope::ProbeErrorCode;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Not at all, or in a way that is not ours to undo: hashed as it comes.
    Plain,
    /// gzip.
    Gzip,
    /// zlib, which HTTP calls deflate.
    Deflate,
}

impl Encoding {
    /// The value of a header.
    pub(super) fn of(header: &[u8]) -> Self {
        match header.trim_ascii().to_ascii_lowercase().as_slice() {
            b"gzip" | b"x-gzip" => Encoding::Gzip,
            b"deflate" => Encoding::Deflate,
            _ => Encoding::Plain,
        }
    }
}

/// The part of the body that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Body {
    /// The hash of what was read, after decompression.
    pub(super) hash: String,
    /// How many bytes that is.
    pub(super) bytes: u64,
    /// Whether it is all there is.
    pub(super) is_whole: bool,
}

/// Hashes at most `max` bytes; one more is an error, and the end.
struct Tally {
    hasher: Sha256,
    bytes: usize,
    max: usize,
    is_full: bool,
}

impl Write for Tally {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let taken = data.len().min(self.max - self.bytes);
        self.hasher.update(&data[..taken]);
        self.bytes += taken;
        if taken < data.len() {
            self.is_full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A tally behind a decoder.
enum Sink {
    Plain(Tally),
    // Both decoders hold tens of kilobytes.
    Gzip(Box<MultiGzDecoder<Tally>>),
    Deflate(Box<ZlibDecoder<Tally>>),
}

impl Sink {
    fn new(encoding: Encoding, max: usize) -> Self {
        let tally = Tally { hasher: Sha256::new(), bytes: 0, max, is_full: false };
        match encoding {
            Encoding::Plain => Sink::Plain(tally),
            Encoding::Gzip => Sink::Gzip(MultiGzDecoder::new(tally).into()),
            Encoding::Deflate => Sink::Deflate(ZlibDecoder::new(tally).into()),
        }
    }

    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(it) => it.write_all(data),
            Sink::Gzip(it) => it.write_all(data),
            Sink::Deflate(it) => it.write_all(data),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Sink::Plain(_) => Ok(()),
            Sink::Gzip(it) => it.try_finish(),
            Sink::Deflate(it) => it.try_finish(),
        }
    }

    fn tally(&self) -> &Tally {
        match self {
            Sink::Plain(it) => it,
            Sink::Gzip(it) => it.get_ref(),
            Sink::Deflate(it) => it.get_ref(),
        }
    }

    fn body(&self, is_whole: bool) -> Body {
        let tally = self.tally();
        let hash = HEXLOWER.encode(&tally.hasher.clone().finalize());
        Body { hash, bytes: tally.bytes as u64, is_whole }
    }
}

/// Reads a body: at most `max` bytes of what is sent, and at most `max` of what that unfolds to.
pub(super) async fn read(
    mut incoming: Incoming,
    encoding: Encoding,
    max: usize,
    deadline: Instant,
) -> Result<Body, ProbeErrorCode> {
    let mut sink = Sink::new(encoding, max);
    let mut sent = 0;
    loop {
        let frame = timeout_at(deadline, incoming.frame()).await;
        let data: Bytes = match frame.map_err(|_| ProbeErrorCode::Timeout)? {
            None => break,
            Some(frame) => match frame.map_err(|_| ProbeErrorCode::FetchError)?.into_data() {
                Ok(data) => data,
                // Trailers.
                Err(_) => continue,
            },
        };
        let taken = data.len().min(max - sent);
        sent += taken;
        if let Err(error) = sink.write(&data[..taken]) {
            return stopped(&sink, &error);
        }
        if taken < data.len() {
            return Ok(sink.body(false));
        }
    }
    // An empty answer need not be a valid archive.
    if sent > 0
        && let Err(error) = sink.finish()
    {
        return stopped(&sink, &error);
    }
    Ok(sink.body(true))
}

/// A sink takes no more: it is full, or the data is broken.
fn stopped(sink: &Sink, _error: &io::Error) -> Result<Body, ProbeErrorCode> {
    match sink.tally().is_full {
        true => Ok(sink.body(false)),
        false => Err(ProbeErrorCode::FetchError),
    }
}
