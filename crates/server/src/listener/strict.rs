//! Refuses request heads in which a line ends with a bare LF. Hyper accepts them, as RFC 9112
//! allows. A proxy in front may not: where it sees one request, the server would see two.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use axum::http::{Method, Request, header};
use hyper::body::Body;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of body bytes behind the head that was read last. Hyper finds it, so that there is
/// one opinion about it.
#[derive(Clone)]
pub(super) struct Framing(Arc<AtomicU64>);

/// The end of the body is not known: chunks, or another protocol. The connection serves no further
/// request.
const OPEN_END: u64 = u64::MAX;

impl Default for Framing {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(OPEN_END)))
    }
}

impl Framing {
    /// Notes the body of a request before it is read.
    pub(super) fn note<B: Body>(&self, request: &Request<B>) {
        let is_other =
            request.headers().contains_key(header::UPGRADE) || request.method() == Method::CONNECT;
        let length = request.body().size_hint().exact().filter(|_| !is_other);
        self.0.store(length.unwrap_or(OPEN_END), Ordering::Relaxed);
    }

    /// Whether the connection must end with the response.
    pub(super) fn has_open_end(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OPEN_END
    }
}

/// The next byte of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a head: the bytes of its line so far, and whether a line came before.
    Head { line: u64, has_lines: bool, after_return: bool },
    /// Behind a head that hyper has not parsed yet.
    Parsing,
    /// In a body with this many bytes left.
    Body(u64),
    /// Behind the last head.
    End,
}

const FIRST: Place = Place::Head { line: 0, has_lines: false, after_return: false };

impl Place {
    /// Passes over bytes. Stops behind a head, and returns the number of bytes until there. A bare
    /// LF becomes a byte that no head may have: hyper answers 400 and ends the connection.
    fn pass(&mut self, bytes: &mut [u8], framing: &Framing) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            match *self {
                Place::Parsing if framing.has_open_end() => *self = Place::End,
                Place::Parsing => *self = Place::Body(framing.0.load(Ordering::Relaxed)),
                Place::Body(0) => *self = FIRST,
                Place::Body(left) => {
                    let passed = left.min((bytes.len() - at) as u64);
                    *self = Place::Body(left - passed);
                    at += usize::try_from(passed).unwrap_or(bytes.len());
                }
                Place::End => return bytes.len(),
                Place::Head { line, has_lines, after_return } => {
                    *self = match bytes[at] {
                        b'\n' if !after_return => {
                            bytes[at] = 0;
                            Place::End
                        }
                        // Empty lines before a request are ignored.
                        b'\n' if line == 0 && !has_lines => FIRST,
                        b'\n' if line == 0 => Place::Parsing,
                        b'\n' => Place::Head { line: 0, has_lines: true, after_return: false },
                        b'\r' => Place::Head { line, has_lines, after_return: true },
                        _ => Place::Head { line: line + 1, has_lines, after_return: false },
                    };
                    at += 1;
                    if *self == Place::Parsing {
                        // The body of the request before says nothing about this one.
                        framing.0.store(OPEN_END, Ordering::Relaxed);
                        return at;
                    }
                }
            }
        }
        at
    }
}

/// A connection whose heads are checked as they are read.
pub(super) struct StrictLines<S> {
    stream: S,
    framing: Framing,
    place: Place,
    /// Bytes behind a head, until hyper has parsed it.
    held: Vec<u8>,
}

impl<S> StrictLines<S> {
    pub(super) fn new(stream: S, framing: Framing) -> Self {
        Self { stream, framing, place: FIRST, held: Vec::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StrictLines<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let start = buffer.filled().len();
        if this.held.is_empty() {
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        } else {
            let count = this.held.len().min(buffer.remaining());
            buffer.put_slice(&this.held[..count]);
            this.held.drain(..count);
        }
        let read = &mut buffer.filled_mut()[start..];
        let passed = this.place.pass(read, &this.framing);
        if passed < read.len() {
            this.held.splice(..0, read[passed..].iter().copied());
            buffer.set_filled(start + passed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StrictLines<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Reads a connection whose requests have these body lengths, in pieces of this size. Returns
    /// whether nothing was changed.
    async fn passes(sent: &[u8], bodies: &[u64], piece: usize) -> bool {
        let framing = Framing::default();
        let mut stream = StrictLines::new(sent, framing.clone());
        let (mut all, mut bodies) = (Vec::new(), bodies.iter());
        loop {
            let mut read = vec![0; piece];
            match stream.read(&mut read).await.unwrap() {
                0 => break,
                count => all.extend_from_slice(&read[..count]),
            }
            if stream.place == Place::Parsing {
                framing.0.store(*bodies.next().unwrap_or(&OPEN_END), Ordering::Relaxed);
            }
        }
        assert_eq!(all.len(), sent.len());
        let is_changed = all != sent;
        assert_eq!(all.contains(&0), is_changed, "one byte was replaced");
        !is_changed
    }

    #[tokio::test]
    async fn every_line_of_every_head_ends_with_crlf() {
        let head = "\r\nPOST / HTTP/1.1\r\nHost: h\r\n\r\n";
        let two = format!("{head}a\nb\n\n{head}");
        for piece in [1, 2, 7, 1_000] {
            assert!(passes(two.as_bytes(), &[5, 0], piece).await, "{piece}");
            // The end of a body in chunks is not known here: nothing behind it is checked.
            assert!(passes(two.as_bytes(), &[OPEN_END], piece).await, "{piece}");
            for bad in ["GET / HTTP/1.1\n", "GET / HTTP/1.1\r\nX: a\n\nGET", "GET /\r\nX: a\r\n\n"]
            {
                for (before, bodies) in [("", &[][..]), (head, &[0][..]), (&*two, &[5, 0][..])] {
                    let sent = format!("{before}{bad}");
                    assert!(!passes(sent.as_bytes(), bodies, piece).await, "{bad:?} in {piece}");
                }
            }
        }
    }
}
