//! A proxy to PostgreSQL that can cut the connection at the worst moment.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

/// The message that is lost when the connection is cut at COMMIT.
#[derive(Clone, Copy)]
pub(crate) enum Loss {
    /// The server never sees the COMMIT.
    Commit = 1,
    /// The server has committed; the client never sees the answer.
    Answer = 2,
    /// The server has committed, then it fails, reports that instead of answering, and closes.
    Server = 3,
    /// The server has committed; before the client reconnects, another process takes over.
    Store = 4,
}

/// The message of a server whose disk fails during COMMIT.
const PANIC: &[u8] = b"E\0\0\0\x30SPANIC\0VPANIC\0C58030\0Mcould not fsync file\0\0";

pub(crate) struct Wire {
    pub(crate) url: String,
    loss: Arc<AtomicU8>,
    lost: Arc<AtomicU32>,
    refuses: Arc<AtomicBool>,
    silent: Arc<AtomicBool>,
    statements: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Wire {
    /// A proxy between the store and the server of `url`, which names a unix socket.
    pub(crate) async fn start(url: &str) -> Self {
        let real = url.to_owned();
        let (before, rest) = url.split_once("host=").expect("a socket");
        let (host, after) = rest.split_once('&').expect("parameters");
        let server = Path::new(host).join(".s.PGSQL.5432");
        let folder = tempfile::tempdir().expect("temporary folder");
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).expect("socket");
        let url = format!("{before}host={}&{after}", folder.path().display());
        let (loss, lost) = (Arc::new(AtomicU8::new(0)), Arc::new(AtomicU32::new(0)));
        let statements = Arc::default();
        let silent: Arc<AtomicBool> = Arc::default();
        let shared = (loss.clone(), lost.clone(), real, Arc::clone(&statements));
        let shared = (shared, silent.clone());
        let refuses = Arc::new(AtomicBool::new(false));
        let is_refused = refuses.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if is_refused.load(Ordering::SeqCst) {
                    continue;
                }
                tokio::spawn(carry(client, server.clone(), shared.clone()));
            }
        });
        Self { url, loss, lost, refuses, silent, statements, _folder: folder }
    }

    pub(crate) fn lose_next_commit(&self, loss: Loss) {
        self.loss.store(loss as u8, Ordering::SeqCst);
    }

    /// Whether new connections are refused; existing ones stay.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Whether everything that is sent gets lost without a word, as when a cable is cut.
    pub(crate) fn silence(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }

    /// The statements that clients have executed since the last call, in the order in which the
    /// server gets them.
    pub(crate) fn take_statements(&self) -> Vec<String> {
        std::mem::take(&mut *self.statements.lock().expect("no test panicked"))
    }

    pub(crate) fn lost(&self) -> u32 {
        self.lost.load(Ordering::SeqCst)
    }
}

type Shared = ((Arc<AtomicU8>, Arc<AtomicU32>, String, Arc<Mutex<Vec<String>>>), Arc<AtomicBool>);

/// Decodes the messages of a client.
#[derive(Default)]
struct Decoder {
    bytes: Vec<u8>,
    /// The first message has no tag.
    is_started: bool,
    prepared: HashMap<String, String>,
}

impl Decoder {
    /// The statements that a part of the stream executes.
    fn statements(&mut self, bytes: &[u8]) -> Vec<String> {
        self.bytes.extend_from_slice(bytes);
        let mut found = Vec::new();
        loop {
            let tag = usize::from(self.is_started);
            let Some(length) = self.bytes.get(tag..tag + 4) else { return found };
            let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
            let end = tag + length as usize;
            if self.bytes.len() < end {
                return found;
            }
            let message: Vec<u8> = self.bytes.drain(..end).collect();
            if self.is_started {
                found.extend(self.statement(message[0], &message[5..]));
            }
            self.is_started = true;
        }
    }

    fn statement(&mut self, tag: u8, body: &[u8]) -> Option<String> {
        let mut texts =
            body.split(|it| *it == 0).map(|it| String::from_utf8_lossy(it).into_owned());
        let mut text = || texts.next().unwrap_or_default();
        match tag {
            b'Q' => Some(text()),
            b'P' => {
                self.prepared.insert(text(), text());
                None
            }
            // The portal comes first, then the statement.
            b'B' => {
                text();
                self.prepared.get(&text()).cloned()
            }
            _ => None,
        }
    }
}

/// A statement and its answer have this text, behind five bytes.
const COMMIT: &[u8] = b"COMMIT\0";

/// A statement, and the name of its column, behind seven bytes of the answer.
const QUESTION: &[u8] = b"Q\0\0\0\x0dSELECT 1\0";
const COLUMN: &[u8] = b"?column?";

fn place(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|it| it == text)
}

/// Everything that the server sends until this text.
async fn read_until(server: &mut UnixStream, text: &[u8]) -> Vec<u8> {
    let (mut seen, mut part) = (Vec::new(), vec![0; 1 << 16]);
    while place(&seen, text).is_none() {
        let count = server.read(&mut part).await.expect("server answers");
        seen.extend_from_slice(&part[..count]);
    }
    seen
}

/// Forwards bytes in both directions until the connection is to be cut.
async fn carry(mut client: UnixStream, server: PathBuf, shared: Shared) {
    let ((loss, lost, real, statements), silent) = shared;
    let is_silent = || silent.load(Ordering::SeqCst);
    let mut decoder = Decoder::default();
    let mut server = UnixStream::connect(server).await.expect("server listens");
    let (mut from_client, mut from_server) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(count @ 1..) = read else { return };
                if is_silent() {
                    return swallow(client).await;
                }
                let bytes = &from_client[..count];
                statements.lock().expect("no test panicked").extend(decoder.statements(bytes));
                let commit = place(bytes, COMMIT);
                let cut = commit.map_or(0, |_| loss.swap(0, Ordering::SeqCst));
                if cut == Loss::Commit as u8 {
                    // The answers to all before it arrive.
                    let before = &bytes[..commit.expect("found") - 5];
                    server.write_all(before).await.expect("server reads");
                    server.write_all(QUESTION).await.expect("server reads");
                    let seen = read_until(&mut server, COLUMN).await;
                    let before = &seen[..place(&seen, COLUMN).expect("answered") - 7];
                    client.write_all(before).await.expect("client reads");
                    lost.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                server.write_all(bytes).await.expect("server reads");
                if Loss::Answer as u8 <= cut {
                    // The answer to COMMIT names it; when it is here, the commit is durable.
                    let seen = read_until(&mut server, COMMIT).await;
                    if cut == Loss::Server as u8 {
                        let before = &seen[..place(&seen, COMMIT).expect("answered") - 5];
                        client.write_all(before).await.expect("client reads");
                        client.write_all(PANIC).await.expect("client reads");
                    }
                    if cut == Loss::Store as u8 {
                        let take = "UPDATE node SET epoch = epoch + 1, process = 'another'";
                        crate::lab::execute(&real, take).await;
                    }
                    lost.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(count @ 1..) = read else { return };
                if is_silent() {
                    return swallow(client).await;
                }
                if client.write_all(&from_server[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Reads what a client sends until it gives up, and answers nothing.
async fn swallow(mut client: UnixStream) {
    let mut bytes = vec![0; 1 << 16];
    while matches!(client.read(&mut bytes).await, Ok(1..)) {}
}
