//! Calls of runs: exactly one turn per call, however long the process is down in between.
//!
//! The store keeps the reply as an entry. The commit of the turn writes the entry, and the commit
//! that records the reply in the run removes it. No reply expires, and the list holds only calls
//! that are in flight. A turn without effects stores no reply: repeating it is harmless.

use serde::{Deserialize, Serialize};
use steadfast_store::{
    self as store, Commit, EntityKind, EntryKey, EntryRange, Expect, InvalidInput, Json, Position,
    Put, Store, StoreError, Write, limits,
};

use super::{
    CallError, Caller, Objects,
    key::{Key, RequestHash},
    mailbox::Input,
    transact::rolled_back,
};

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

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Stores a reply; add it to the commit of the turn.
    pub(super) fn put(
        &self,
        me: &store::Address,
        request: RequestHash,
        reply: &str,
    ) -> Result<Put, CallError> {
        let refused = |error: InvalidInput| rolled_back(me, &error.to_string());
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

/// Rejects the commit of a turn if an earlier attempt of the same call has committed its turn.
pub(super) fn expect_first(put: &Put) -> Expect {
    Expect::Revision { entry: put.entry.clone(), revision: 0 }
}

/// Removes an entry without leaving a tombstone.
fn remove(entry: &EntryKey) -> [Write; 2] {
    let (value, reference, expires) = (None, None, Some(std::time::Duration::ZERO));
    let put = Put { entry: entry.clone(), value, reference, expires };
    [Write::Put(put), Write::ExpireEntries { entries: vec![entry.clone()] }]
}

impl Objects {
    /// Calls an object for a run, or returns the reply of an earlier attempt.
    pub(crate) async fn call_for_run(
        &self,
        class: &str,
        name: &str,
        message: &str,
        body: &str,
        call: &CallKey,
    ) -> Result<String, CallError> {
        let key = Key::of_run(call.clone(), message, body)?;
        if let Some(json) = self.shared.store.entry(&call.entry).await?.and_then(|it| it.value) {
            let stored: StoredReply = serde_json::from_str(json.as_str()).map_err(|error| {
                StoreError::Corrupt { reason: format!("stored reply to a run: {error}") }
            })?;
            return key.check(stored.request).map(|()| stored.reply);
        }
        self.shared.class(class)?;
        let to = store::Address::new(EntityKind::Object, class, name)?;
        let (message, caller) = (message.into(), Caller::Internal);
        let input = Input::Call { message, body: body.into(), key: Some(key), caller };
        self.shared.give(&to, input, None).await
    }
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
