//! Live connections on the wire: a WebSocket or server-sent events, and one end of the line to an
//! object behind it; and the history of a run while it grows.

pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod websocket;

use std::time::Duration;

/// Bytes of one text that comes in.
pub(crate) const TEXT_BYTES_MAX: usize = 1 << 20;

/// A sign of life is sent so often; who gives none back twice is gone. The object does not hear
/// of it.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// Proxies cut what is silent for longer.
const COMMENT: Duration = Duration::from_secs(15);

/// A client that takes nothing for so long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The object hears of an end at the latest after this.
const GOODBYE_MOMENT: Duration = Duration::from_secs(1);

/// The other side has so long to hear why it ended, and to say goodbye as well.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(10);
