//! A WebSocket. One task reads, writes and keeps it alive.

use std::{pin::Pin, sync::Arc};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use serde_json::json;
use steadfast_core::{CallError, Closed, LiveSocket};
use steadfast_store::Clock;
use steadfast_web::Problem;

use super::{
    CLOSE_HANDSHAKE_TIMEOUT, CLOSE_NOTICE_DELAY, HEARTBEAT, TEXT_BYTES_MAX, WRITE_TIMEOUT,
};

/// The code for a close frame without one.
const NO_STATUS: u16 = 1005;
/// Close code for frames that are not text.
const UNSUPPORTED: u16 = 1003;
const TOO_BIG: u16 = 1009;
/// Maximum length of the reason in a close frame, in bytes.
const REASON_BYTES_MAX: usize = 123;

/// A text in flight to the object.
type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), CallError>> + Send + 'a>>;

/// Which side ended the connection, and why.
enum End {
    /// The server: send the reason to the client.
    Ours(Closed),
    /// The client, or the connection broke.
    Theirs(Closed),
}

/// The request, for its error messages.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) id: String,
}

/// Counts a text of the caller, or refuses it.
type CheckRate = dyn Fn() -> Result<(), Problem> + Send + Sync;

/// Serves a connection until its end.
pub(crate) async fn serve(
    mut socket: WebSocket,
    live: LiveSocket,
    clock: Arc<dyn Clock>,
    request: Request,
    check_rate: Box<CheckRate>,
    access_ended: impl Future<Output = ()>,
) {
    let open =
        OpenSocket { live: &live, clock: &*clock, request: &request, check_rate: &*check_rate };
    let end = tokio::select! {
        ended = open.run(&mut socket) => match ended {
            Ok(never) => match never {},
            Err(end) => end,
        },
        () = access_ended => End::Ours(super::access_closed()),
    };
    let (closed, frame) = match end {
        End::Ours(closed) => {
            let code = if closed.is_error() { Closed::GOING_AWAY } else { closed.code };
            let frame = CloseFrame { code, reason: shortened(&closed.reason).into() };
            (closed, Some(frame))
        }
        End::Theirs(closed) => (closed, None),
    };
    let mut close = std::pin::pin!(close(&mut socket, frame));
    // A client that reads receives it at once; the object does not wait for others.
    let said = tokio::time::timeout(CLOSE_NOTICE_DELAY, &mut close).await;
    live.close(closed).await;
    if said.is_err() {
        let _ = tokio::time::timeout(CLOSE_HANDSHAKE_TIMEOUT, close).await;
    }
}

/// Sends or answers a close frame, and waits for the client.
async fn close(socket: &mut WebSocket, frame: Option<CloseFrame>) {
    if let Some(frame) = frame {
        let _ = socket.send(Message::Close(Some(frame))).await;
    }
    // Reading also sends the answer to the client's close frame.
    while let Some(Ok(_)) = socket.recv().await {}
}

/// An open connection.
struct OpenSocket<'a> {
    live: &'a LiveSocket,
    clock: &'a dyn Clock,
    request: &'a Request,
    check_rate: &'a CheckRate,
}

enum Never {}

impl OpenSocket<'_> {
    async fn run(&self, socket: &mut WebSocket) -> Result<Never, End> {
        let mut sending: Option<Sending<'_>> = None;
        let mut is_alive = true;
        let mut beat = self.clock.sleep(HEARTBEAT);
        loop {
            // The last text is handled before the next is read, so their order is kept.
            let is_sending = sending.is_some();
            tokio::select! {
                event = self.live.next() => match event {
                    Ok(event) => self.write(socket, &event.text).await?,
                    Err(closed) => return Err(End::Ours(closed)),
                },
                sent = finished(&mut sending) => {
                    sending = None;
                    if let Err(error) = sent {
                        self.send_problem(socket, error).await?;
                    }
                }
                frame = socket.recv(), if !is_sending => {
                    is_alive = true;
                    if let Some(text) = self.take(frame)? {
                        match (self.check_rate)() {
                            Ok(()) => sending = Some(self.send(text)),
                            Err(problem) => self.write_problem(socket, &problem).await?,
                        }
                    }
                }
                () = &mut beat => {
                    if !std::mem::replace(&mut is_alive, false) && !is_sending {
                        let closed = Closed::new(Closed::BROKEN, "no pong within the timeout");
                        return Err(End::Theirs(closed));
                    }
                    self.put(socket, Message::Ping(Vec::new().into())).await?;
                    beat = self.clock.sleep(HEARTBEAT);
                }
            }
        }
    }

    /// The text of a frame, if it has one.
    fn take(&self, frame: Option<Result<Message, axum::Error>>) -> Result<Option<Utf8Bytes>, End> {
        let broke = |reason: String| End::Theirs(Closed::new(Closed::BROKEN, reason));
        match frame {
            None => Err(broke("the connection broke".into())),
            Some(Err(error)) => Err(broke(format!("the connection broke: {error}"))),
            Some(Ok(Message::Close(frame))) => Err(End::Theirs(match frame {
                Some(frame) => Closed::new(frame.code, frame.reason.as_str()),
                None => Closed::new(NO_STATUS, ""),
            })),
            Some(Ok(Message::Text(text))) if text.len() <= TEXT_BYTES_MAX => Ok(Some(text)),
            Some(Ok(Message::Text(_))) => {
                let reason = format!("a text must have at most {TEXT_BYTES_MAX} bytes");
                Err(End::Ours(Closed::new(TOO_BIG, reason)))
            }
            Some(Ok(Message::Binary(_))) => {
                Err(End::Ours(Closed::new(UNSUPPORTED, "only text messages are accepted")))
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(None),
        }
    }

    fn send(&self, text: Utf8Bytes) -> Sending<'_> {
        Box::pin(async move { self.live.send(&text).await })
    }

    /// Reports to the client why a text was refused.
    async fn send_problem(&self, socket: &mut WebSocket, error: CallError) -> Result<(), End> {
        match &error {
            // The end of the connection follows.
            CallError::NotConnected { .. } => Ok(()),
            CallError::Refused(_)
            | CallError::Malformed { .. }
            | CallError::RolledBack { .. }
            | CallError::Migration { .. }
            | CallError::Panicked { .. } => self.write_problem(socket, &Problem::from(error)).await,
            CallError::UnknownClass { .. }
            | CallError::UnknownMessage { .. }
            | CallError::Name(_)
            | CallError::Key { .. }
            | CallError::KeyReused { .. }
            | CallError::Busy { .. }
            | CallError::Nested { .. }
            | CallError::Corrupt { .. }
            | CallError::Lost { .. }
            | CallError::Reply { .. }
            | CallError::NotLive { .. }
            | CallError::TooManyConnections { .. }
            | CallError::Store(_) => {
                let again = error.is_retryable();
                let code = if again { Closed::TRY_AGAIN } else { Closed::FAILED };
                let reason = format!("{}: the last text may be lost; reconnect", error.code());
                Err(End::Ours(Closed::new(code, reason)))
            }
        }
    }

    async fn write_problem(&self, socket: &mut WebSocket, problem: &Problem) -> Result<(), End> {
        let body = problem.body(&self.request.path, &self.request.id);
        self.write(socket, &json!({ "problem": body }).to_string()).await
    }

    async fn write(&self, socket: &mut WebSocket, text: &str) -> Result<(), End> {
        self.put(socket, Message::Text(text.into())).await
    }

    /// Writes a frame, with a timeout for a client that does not read.
    async fn put(&self, socket: &mut WebSocket, frame: Message) -> Result<(), End> {
        let late = self.clock.sleep(WRITE_TIMEOUT);
        tokio::select! {
            biased;
            written = socket.send(frame) => written.map_err(|error| {
                End::Theirs(Closed::new(Closed::BROKEN, format!("the connection broke: {error}")))
            }),
            closed = self.live.ended() => Err(End::Ours(closed)),
            () = late => Err(End::Ours(Closed::new(Closed::TRY_AGAIN, "too slow: reconnect"))),
        }
    }
}

/// Waits for the text in flight; forever if there is none.
async fn finished(sending: &mut Option<Sending<'_>>) -> Result<(), CallError> {
    match sending {
        Some(it) => it.await,
        None => std::future::pending().await,
    }
}

fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use std::{net::TcpStream, sync::Mutex};

    use axum::{Router, extract::WebSocketUpgrade, routing::get};
    use steadfast_chat::Chat;
    use steadfast_core::{ConnectParams, Objects};
    use steadfast_store::{ManualClock, MemoryStore, Store, Timestamp};

    use super::*;

    /// Reads until a frame matches.
    fn read_to(
        client: &mut tungstenite::WebSocket<TcpStream>,
        wished: impl Fn(&tungstenite::Message) -> bool,
    ) {
        while !wished(&client.read().expect("the connection is open")) {}
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_without_heartbeats_is_closed_and_heartbeats_need_no_turn() {
        let clock = ManualClock::at(Timestamp(0));
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let chat = Chat { idle: HEARTBEAT * 1_000 };
        let objects = Objects::builder(store.clone()).class(chat);
        let objects = objects.start().expect("objects start");
        let arrival = ConnectParams::new().param("name", "ann");
        let live = objects.connect("chat", "a", arrival).await.expect("it is accepted");
        let (live, time) = (Arc::new(Mutex::new(Some(live))), clock.clone());
        let handler = async move |upgrade: WebSocketUpgrade| {
            let live = live.lock().expect("a lock").take().expect("one connection");
            let request = Request { path: "/".into(), id: "r".into() };
            let (time, forever) = (Arc::new(time.clone()), std::future::pending());
            let unlimited = Box::new(|| Ok::<(), Problem>(()));
            upgrade.on_upgrade(move |it| serve(it, live, time, request, unlimited, forever))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let app = Router::new().route("/", get(handler));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let (time, turns) = (clock.clone(), store.clone());
        let open = tokio::task::spawn_blocking(move || {
            let stream = TcpStream::connect(address).expect("it listens");
            let client = tungstenite::client(format!("ws://{address}/"), stream);
            let (mut client, _) = client.expect("it is accepted");
            read_to(&mut client, tungstenite::Message::is_text);
            let commits = turns.activity().commits;
            for _ in 0..5 {
                time.advance(HEARTBEAT);
                read_to(&mut client, tungstenite::Message::is_ping);
                // Its reply follows our answer to the heartbeat.
                client.send("ping".into()).expect("it is sent");
                read_to(&mut client, tungstenite::Message::is_text);
            }
            assert_eq!(turns.activity().commits, commits, "the object was left alone");
            client
        });
        let silent = open.await.expect("it stayed");
        assert_eq!(objects.connections(), 1);
        let mut pause = tokio::time::interval(std::time::Duration::from_millis(1));
        while 0 < objects.connections() {
            clock.advance(HEARTBEAT);
            pause.tick().await;
        }
        drop(silent);
    }
}
