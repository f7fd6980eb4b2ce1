//! Live connections over WebSockets and server-sent events, and followed histories of runs.

pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod websocket;

use std::time::Duration;

use steadfast_core::Closed;

/// Maximum size of an incoming text in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// Interval of heartbeats. A client that misses two is disconnected. Heartbeats cause no turn of
/// the object.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Interval of comments: proxies close silent connections.
const COMMENT: Duration = Duration::from_secs(15);

/// A client that reads nothing for this time is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum delay before the object learns that the connection ended.
const CLOSE_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// The end of a connection whose access has ended. The code is `policy violation`.
fn access_closed() -> Closed {
    Closed::new(1008, "the session has ended, or the token was revoked or has expired")
}

/// Time for the client to receive the reason and close its side.
const CLOSE_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
