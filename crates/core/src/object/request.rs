//! Requests to objects, each of which leads to a turn, and the idempotency keys of calls.
//!
//! The reply to a call with a key is a row of the object's own database (`transaction.rs`). The
//! store keeps replies for runs, and for requests whose key holds beyond one object (see
//! `Objects::call_once`). A call of a run leads to exactly one turn, however long the process is
//! down in between. The commit of the turn writes the reply as an entry, and the commit that
//! records the reply in the run removes it. No reply expires, and the list holds only calls that
//! are in flight. A turn without effects stores no reply: repeating it is harmless.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use steadfast_store::{
    self as store, Commit, EntryKey, EntryRange, Expect, InvalidInput, Json, Lease, Position, Put,
    Store, StoreError, Timestamp, Write, limits,
};

use super::{
    CallError,
    connection::{Caller, Closed, ConnectionId, NewConnection},
};
use crate::{RequestKey, dispatch::done};

/// The reply as JSON.
pub(super) type Reply = Result<String, CallError>;

/// A request for a turn.
pub(super) enum Request {
    /// A message, by its name.
    Call { message: Box<str>, body: Box<str>, key: Option<Key>, caller: Caller },
    /// Due alarms; this wake-up was due then.
    Wake { due_at: Timestamp },
    /// A connection to accept.
    Connected(Box<NewConnection>),
    /// A text from a connection.
    Received { id: ConnectionId, text: Box<str>, caller: Caller },
    /// A connection ended.
    Closed { id: ConnectionId, closed: Closed },
    /// Deletes the object.
    Delete,
}

impl Request {
    /// The caller of its turn.
    pub(super) fn caller(&self) -> Caller {
        match self {
            Request::Call { caller, .. } | Request::Received { caller, .. } => caller.clone(),
            Request::Connected(new) => new.params.caller(),
            Request::Wake { .. } | Request::Closed { .. } | Request::Delete => Caller::Internal,
        }
    }

    /// The name for the log.
    pub(super) fn label(&self) -> &str {
        match self {
            Request::Call { message, .. } => message,
            Request::Wake { .. } => "alarm",
            Request::Connected(_) => "connected",
            Request::Received { .. } => "received",
            Request::Closed { .. } => "closed",
            Request::Delete => "delete",
        }
    }
}

/// A delivery that ends in the commit of the turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settle {
    pub(super) position: Position,
    pub(super) lease: Option<Lease>,
}

impl Settle {
    pub(super) fn write(self) -> Write {
        done(self.position, self.lease)
    }
}

/// A hash of message name and body.
pub(super) type RequestHash = [u8; 16];

/// A key and the request that it was used for.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) text: Box<str>,
    pub(super) request: RequestHash,
    /// Set if the store keeps the reply.
    pub(super) stored: Option<Box<StoredKey>>,
}

/// A key whose reply the store keeps, in the commit of the turn.
#[derive(Clone, Debug)]
pub(super) enum StoredKey {
    RunCall(CallKey),
    Request(RequestKey),
}

/// The part of a turn's commit that stores its reply.
pub(super) struct ReplyRecord {
    pub(super) expect: Option<Expect>,
    pub(super) write: Write,
    /// An upper bound, including the escapes of a JSON string.
    pub(super) bytes: usize,
}

impl StoredKey {
    pub(super) fn record(
        &self,
        object: &store::Address,
        request: RequestHash,
        reply: &str,
    ) -> Result<ReplyRecord, CallError> {
        match self {
            Self::RunCall(call) => {
                let put = call.put(object, request, reply)?;
                // An earlier attempt of the same call may have committed its turn.
                let expect = Expect::Revision { entry: put.entry.clone(), revision: 0 };
                let bytes = put.value.as_ref().map_or(0, |it| it.as_str().len());
                Ok(ReplyRecord { expect: Some(expect), write: Write::Put(put), bytes })
            }
            Self::Request(key) => {
                let refused = |error: InvalidInput| CallError::rolled_back(object, &error);
                if limits::ENTRY_BYTES_MAX < reply.len() {
                    return Err(refused(InvalidInput::EntrySize { len: reply.len() }));
                }
                let write = key.write_answer(&reply).map_err(refused)?;
                Ok(ReplyRecord { expect: None, write, bytes: 2 * reply.len() })
            }
        }
    }
}

impl Key {
    pub(super) fn new(text: &str, message: &str, body: &str) -> Result<Self, CallError> {
        if text.is_empty() || limits::KEY_BYTES_MAX < text.len() {
            return Err(CallError::Key { len: text.len() });
        }
        let digest = Sha256::new().chain_update(message).chain_update([0]).chain_update(body);
        let mut request = [0; 16];
        request.copy_from_slice(&digest.finalize()[..16]);
        Ok(Self { text: text.into(), request, stored: None })
    }

    /// The key of a call that a run makes.
    pub(super) fn of_run(call: CallKey, message: &str, body: &str) -> Result<Self, CallError> {
        let key = Self::new(&call.text, message, body)?;
        Ok(Self { stored: Some(Box::new(StoredKey::RunCall(call))), ..key })
    }

    /// The key of a request. The caller has looked for it in the store.
    pub(super) fn of_request(key: RequestKey) -> Self {
        let stored = Some(Box::new(StoredKey::Request(key)));
        Self { text: "".into(), request: [0; 16], stored }
    }

    /// Rejects a key that was used for another request.
    pub(super) fn check(&self, request: RequestHash) -> Result<(), CallError> {
        match request == self.request {
            true => Ok(()),
            false => Err(CallError::KeyReused { key: self.text.to_string() }),
        }
    }

    /// The reply that an earlier attempt of the same call of a run left in the store.
    pub(super) async fn stored_reply(
        &self,
        store: &dyn Store,
    ) -> Result<Option<String>, CallError> {
        let Some(StoredKey::RunCall(call)) = self.stored.as_deref() else { return Ok(None) };
        let Some(json) = store.entry(&call.entry).await?.and_then(|it| it.value) else {
            return Ok(None);
        };
        let stored: StoredReply = serde_json::from_str(json.as_str()).map_err(|error| {
            StoreError::Corrupt { reason: format!("stored reply to a run: {error}") }
        })?;
        self.check(stored.request)?;
        Ok(Some(stored.reply))
    }
}

/// The list of replies that their runs have not recorded yet.
const SPACE: &str = "run-call";

/// Replies that a sweep reads at a time.
const PAGE: usize = 200;

/// Identifies one call of one run.
#[derive(Clone, Debug)]
pub(crate) struct CallKey {
    text: Box<str>,
    entry: EntryKey,
}

/// The value of the entry. The reply is a string in it, so that its depth does not matter.
#[derive(Serialize, Deserialize)]
struct StoredReply {
    request: RequestHash,
    reply: String,
}

impl CallKey {
    /// `first` is the position at which the record of the run begins.
    pub(crate) fn new(first: Position, text: &str) -> Result<Self, InvalidInput> {
        let key = [&first.to_be_bytes(), text.as_bytes()].concat();
        Ok(Self { text: text.into(), entry: EntryKey::new(SPACE, &key)? })
    }

    /// Stores a reply; add it to the commit of the turn.
    pub(super) fn put(
        &self,
        object: &store::Address,
        request: RequestHash,
        reply: &str,
    ) -> Result<Put, CallError> {
        let refused = |error: InvalidInput| CallError::rolled_back(object, &error);
        let value = Json::of(&StoredReply { request, reply: reply.into() }).map_err(refused)?;
        let len = value.as_str().len();
        if limits::ENTRY_BYTES_MAX < len {
            return Err(refused(InvalidInput::EntrySize { len }));
        }
        let (entry, reference, expires) = (self.entry.clone(), None, None);
        Ok(Put { entry, value: Some(value), reference, expires })
    }

    /// Removes the reply; add it to the commit that records the reply in the run.
    pub(crate) fn remove(&self) -> [Write; 2] {
        remove(&self.entry)
    }
}

/// Removes an entry without leaving a tombstone.
fn remove(entry: &EntryKey) -> [Write; 2] {
    let put = Put::removal(entry.clone(), std::time::Duration::ZERO);
    [Write::Put(put), Write::ExpireEntries { entries: vec![entry.clone()] }]
}

/// Removes replies that no run will ask for: their runs ended without recording them, or were
/// erased. A restarted run makes calls with other keys.
pub(crate) async fn sweep_run_replies(store: &dyn Store) -> Result<(), StoreError> {
    let (mut range, mut run) = (EntryRange::prefix(b""), None);
    loop {
        let page = store.entries(SPACE, range.clone(), PAGE).await?;
        for it in &page {
            let first = it.entry.key().first_chunk().map(|it| Position::from_be_bytes(*it));
            let Some(first) = first else { continue };
            let has_ended = match run {
                Some((known, has_ended)) if known == first => has_ended,
                Some(_) | None => has_ended(store, first).await?,
            };
            run = Some((first, has_ended));
            if has_ended {
                let [put, expire] = remove(&it.entry);
                store.commit(Commit::of(put).write(expire)).await?;
            }
        }
        let Some(last) = page.last().filter(|_| page.len() == PAGE) else { return Ok(()) };
        range = range.after(last.entry.key());
    }
}

/// Whether the run whose record begins at a position has ended or was erased.
async fn has_ended(store: &dyn Store, first: Position) -> Result<bool, StoreError> {
    let Some(message) = store.message(first).await? else { return Ok(true) };
    Ok(store.run(message.stream).await?.is_none_or(|it| it.status.is_final()))
}
