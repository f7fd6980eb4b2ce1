//! Idempotency keys of calls. They live in the object's own database: recorded with the turn,
//! looked up without asking the store. The store keeps replies to runs: see `run_call.rs`.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use sha2::{Digest, Sha256};
use steadfast_store::limits;

use super::{CallError, run_call::CallKey, transact::broken, turn::Core};

/// How long the reply to a call with a key is kept.
pub(super) const KEEP: Duration = Duration::from_hours(24);

const FIND: &str = "SELECT request, reply FROM _steadfast_key WHERE key = ?1 AND expires_at > ?2";
const KEEP_REPLY: &str = "INSERT INTO _steadfast_key (key, request, reply, expires_at) \
     VALUES (?1, ?2, ?3, ?4)";
/// Keys expire in the order in which they came: a look at the oldest is enough.
const EXPIRE: &str = "DELETE FROM _steadfast_key WHERE id IN (SELECT id FROM \
     (SELECT id, expires_at FROM _steadfast_key ORDER BY id LIMIT 8) WHERE expires_at <= ?1)";

/// A hash of message name and body.
pub(super) type RequestHash = [u8; 16];

/// A key and what it stands for.
#[derive(Clone, Debug)]
pub(super) struct Key {
    text: Box<str>,
    request: RequestHash,
    /// Set if a run makes the call.
    run_call: Option<Box<CallKey>>,
}

impl Key {
    pub(super) fn new(text: &str, message: &str, body: &str) -> Result<Self, CallError> {
        if text.is_empty() || limits::KEY_BYTES_MAX < text.len() {
            return Err(CallError::Key { len: text.len() });
        }
        let digest = Sha256::new().chain_update(message).chain_update([0]).chain_update(body);
        let mut request = [0; 16];
        request.copy_from_slice(&digest.finalize()[..16]);
        Ok(Self { text: text.into(), request, run_call: None })
    }

    /// The key of a call that a run makes.
    pub(super) fn of_run(call: CallKey, message: &str, body: &str) -> Result<Self, CallError> {
        let key = Self::new(call.text(), message, body)?;
        Ok(Self { run_call: Some(Box::new(call)), ..key })
    }

    /// Rejects a key that was used for another request.
    pub(super) fn check(&self, request: RequestHash) -> Result<(), CallError> {
        match request == self.request {
            true => Ok(()),
            false => Err(CallError::KeyReused { key: self.text.to_string() }),
        }
    }

    /// The reply that was given under this key before.
    pub(super) fn find(&self, core: &Core) -> rusqlite::Result<Option<Result<String, CallError>>> {
        if !core.tables.has_key() {
            return Ok(None);
        }
        // Earlier versions kept replies to runs here: those do not expire.
        let now = self.run_call.as_ref().map_or(core.now.0, |_| i64::MIN);
        let database = &core.database;
        let found: Option<(RequestHash, String)> = database.guard.system(|| {
            let mut find = database.connection.prepare_cached(FIND)?;
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            find.query_row(params![self.text, now], row).optional()
        })?;
        Ok(found.map(|(request, reply)| self.check(request).map(|()| reply)))
    }

    /// Records the reply with the turn.
    pub(super) fn keep(&self, core: &Core, reply: &str) -> Result<(), CallError> {
        if let Some(call) = &self.run_call {
            core.run_reply.replace(Some(call.put(&core.me, self.request, reply)?));
            return Ok(());
        }
        self.insert(core, reply).map_err(|error| broken(core, &error))
    }

    fn insert(&self, core: &Core, reply: &str) -> rusqlite::Result<()> {
        core.tables.need_key(&core.database)?;
        let database = &core.database;
        let until = core.now.after(KEEP);
        database.guard.system(|| {
            let sql = &database.connection;
            sql.prepare_cached(EXPIRE)?.execute([core.now.0])?;
            // One that has expired, but was not among the oldest.
            sql.prepare_cached("DELETE FROM _steadfast_key WHERE key = ?1")?
                .execute([&self.text])?;
            let row = params![self.text, self.request, reply, until.0];
            sql.prepare_cached(KEEP_REPLY)?.execute(row).map(|_| ())
        })
    }
}
