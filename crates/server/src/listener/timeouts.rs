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
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::{ConnectionSlot, peers::PeerGuard};

/// Minimum average rate of a client.
const BYTES_PER_SECOND: u64 = 1_024;

/// The time that a client has left. Only waiting for the client uses it up.
struct TimeBudget {
    full: Duration,
    left: Duration,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl TimeBudget {
    fn new(full: Duration) -> Self {
        Self { full, left: full, since: None, timer: None }
    }

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
        self.left = (left + earned).min(self.full);
    }
}

/// The body of a request with a timeout.
pub(super) struct TimedBody<B> {
    body: B,
    time: TimeBudget,
    slot: ConnectionSlot,
    /// Waits until the server needs the place of the connection.
    hurry: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl<B> TimedBody<B> {
    /// The client has this time, and more for each byte that it sends.
    pub(super) fn new(body: B, slot: ConnectionSlot, timeout: Duration) -> Self {
        Self { body, time: TimeBudget::new(timeout), slot, hurry: None }
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

impl<B> Body for TimedBody<B>
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
            this.slot.has_body();
            if let Some(Ok(frame)) = &frame {
                this.time.moved(frame.data_ref().map_or(0, Bytes::len));
            }
            return Poll::Ready(frame.map(|it| it.map_err(Into::into)));
        }
        this.slot.waits_for_body();
        let slot = &this.slot;
        let hurry = this.hurry.get_or_insert_with(|| Box::pin(slot.hurry().cancelled_owned()));
        if hurry.as_mut().poll(context).is_pending() {
            ready!(this.time.poll_over(context));
        }
        this.slot.note_slow(true);
        Poll::Ready(Some(Err(SlowBody.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for TimedBody<B> {
    fn drop(&mut self) {
        self.slot.has_body();
    }
}

/// The body of a response. At its end, the wait for the next request begins.
pub(super) struct ResponseBody<B> {
    body: B,
    slot: ConnectionSlot,
}

impl<B> ResponseBody<B> {
    pub(super) fn new(body: B, slot: ConnectionSlot) -> Self {
        Self { body, slot }
    }
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
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

impl<B> Drop for ResponseBody<B> {
    fn drop(&mut self) {
        self.slot.has_answered();
    }
}

/// A socket whose client must read its data in time.
pub(super) struct TimedStream {
    stream: TcpStream,
    time: TimeBudget,
    /// Released with the socket; `None` if the peer is exempt.
    _peer: Option<PeerGuard>,
}

impl TimedStream {
    /// The client has this time, and more for each byte that it reads.
    pub(super) fn new(stream: TcpStream, peer: Option<PeerGuard>, timeout: Duration) -> Self {
        Self { stream, time: TimeBudget::new(timeout), _peer: peer }
    }

    fn poll_timed(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) {
            self.time.moved(*written.as_ref().unwrap_or(&0));
            return Poll::Ready(written);
        }
        ready!(self.time.poll_over(context));
        let detail = "the client does not read its response";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, detail)))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_timed(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_timed(context, |stream, context| stream.poll_write_vectored(context, slices))
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
