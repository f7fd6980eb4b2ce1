//! Timeouts of slow clients: each byte that a client sends or reads extends its time.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep},
};

use super::Seat;

/// A client that sends and reads nothing for this time is disconnected.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Minimum average rate of a client.
const BYTES_PER_SECOND: u64 = 1_024;

/// The time that a client has left. Only waiting for the client uses it up.
struct Allowance {
    left: Duration,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Allowance {
    const FULL: Self = Self { left: PATIENCE, since: None, timer: None };

    /// Ready when the time is used up.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let deadline = since + self.left;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context)
    }

    /// Adds time for transferred bytes.
    fn moved(&mut self, bytes: usize) {
        let waited = self.since.take().map_or(Duration::ZERO, |it| it.elapsed());
        let earned = Duration::from_micros(bytes as u64 * 1_000_000 / BYTES_PER_SECOND);
        let left = self.left.saturating_sub(waited);
        self.left = (left + earned).min(PATIENCE);
    }
}

/// The body of a request with a timeout.
pub(super) struct Paced<B> {
    body: B,
    allowance: Allowance,
    seat: Seat,
}

impl<B> Paced<B> {
    pub(super) fn new(body: B, seat: Seat) -> Self {
        Self { body, allowance: Allowance::FULL, seat }
    }
}

/// The body did not arrive in time.
#[derive(Debug)]
struct SlowBody;

impl fmt::Display for SlowBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body did not arrive in time")
    }
}

impl std::error::Error for SlowBody {}

impl<B> Body for Paced<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            this.seat.has_read();
            if let Some(Ok(frame)) = &frame {
                this.allowance.moved(frame.data_ref().map_or(0, Bytes::len));
            }
            return Poll::Ready(frame.map(|it| it.map_err(Into::into)));
        }
        this.seat.waits_to_read();
        ready!(this.allowance.poll_over(context));
        this.seat.note_slow(true);
        Poll::Ready(Some(Err(SlowBody.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Paced<B> {
    fn drop(&mut self) {
        self.seat.has_read();
    }
}

/// The body of a response. At its end, the wait for the next request begins.
pub(super) struct Answer<B> {
    body: B,
    seat: Seat,
}

impl<B> Answer<B> {
    pub(super) fn new(body: B, seat: Seat) -> Self {
        Self { body, seat }
    }
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Answer<B> {
    fn drop(&mut self) {
        self.seat.waits_to_read();
    }
}

/// A socket whose client must read its data in time.
pub(super) struct PacedStream {
    stream: TcpStream,
    allowance: Allowance,
    seat: Seat,
}

impl PacedStream {
    pub(super) fn new(stream: TcpStream, seat: Seat) -> Self {
        Self { stream, allowance: Allowance::FULL, seat }
    }

    fn paced(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) {
            self.seat.has_written();
            self.allowance.moved(*written.as_ref().unwrap_or(&0));
            return Poll::Ready(written);
        }
        self.seat.waits_to_write();
        ready!(self.allowance.poll_over(context));
        let detail = "the client does not read its response";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, detail)))
    }
}

impl AsyncRead for PacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PacedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.paced(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.paced(context, |stream, context| stream.poll_write_vectored(context, slices))
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
