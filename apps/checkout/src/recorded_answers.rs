//! The recorded answers of commands, by key: a repeated command gets the same answer, and nothing
//! is done twice.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::{
    Failure,
    store::{Commit, Entry, EntryKey, Expect, Json, Outcome, Put, Store, StoreError, Write},
};

/// The time that a command may be tried before it is given up. After that it may be sent again for
/// as long as it is kept, and its answer must still be there.
const TRIED: Duration = Duration::from_hours(30 * 24);

/// The answers of one executor, in memory until [`keep_in`](Self::keep_in) names a store.
pub struct RecordedAnswers {
    executor: &'static str,
    /// Where they survive the end of the process; without one they are in memory.
    /// Then also how long the store keeps them.
    store: OnceLock<(Arc<dyn Store>, Duration)>,
    memory: Mutex<BTreeMap<String, String>>,
}

impl fmt::Debug for RecordedAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordedAnswers({})", self.executor)
    }
}

impl RecordedAnswers {
    pub(crate) fn in_memory(executor: &'static str) -> Self {
        Self { executor, store: OnceLock::new(), memory: Mutex::default() }
    }

    /// Keeps them in a store from now on, so that the executor knows them after a crash; and for as
    /// long as the store keeps commands that were given up (see `Retention::keep_dead`).
    pub fn keep_in(&self, store: Arc<dyn Store>, keep_dead: Duration) {
        // A second one is the same store.
        let _ = self.store.set((store, TRIED.saturating_add(keep_dead)));
    }

    /// The recorded answer of a command.
    pub(crate) async fn find<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Failure> {
        let text = match self.store.get() {
            Some((store, keep)) => {
                let found = store.entry(&self.entry(key)?).await.map_err(later)?;
                if let Some(found) = &found {
                    keep_longer(&**store, found, *keep).await?;
                }
                found.and_then(|it| it.value).map(|it| it.as_str().to_owned())
            }
            None => self.memory.lock().get(key).cloned(),
        };
        let read = |it: String| serde_json::from_str(&it);
        text.map(read).transpose().map_err(|error| Failure::fatal(error.to_string()))
    }

    /// Keeps an answer, and gives back that which was first.
    pub(crate) async fn keep<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        answer: T,
    ) -> Result<T, Failure> {
        let json = Json::of(&answer).map_err(|error| Failure::fatal(error.to_string()))?;
        let Some((store, keep)) = self.store.get() else {
            let mut memory = self.memory.lock();
            memory.entry(key.into()).or_insert_with(|| json.as_str().to_owned());
            return Ok(answer);
        };
        let entry = self.entry(key)?;
        let expect = Expect::Revision { entry: entry.clone(), revision: 0 };
        let put = Put { entry, value: Some(json), reference: None, expires: Some(*keep) };
        match store.commit(Commit::of(Write::Put(put)).expect(expect)).await.map_err(later)? {
            Outcome::Committed(_) => Ok(answer),
            // Another attempt was faster.
            Outcome::Rejected(_) | Outcome::Duplicate(_) => {
                self.find(key).await?.ok_or_else(|| Failure::retry("the answer is not there yet"))
            }
        }
    }

    fn entry(&self, key: &str) -> Result<EntryKey, Failure> {
        let key = EntryKey::new(self.executor, key.as_bytes());
        key.map_err(|error| Failure::fatal(error.to_string()))
    }
}

fn later(error: StoreError) -> Failure {
    Failure::retry(error.to_string())
}

/// A command that is delivered again may be given up again; its retention restarts.
async fn keep_longer(store: &dyn Store, found: &Entry, keep: Duration) -> Result<(), Failure> {
    let Entry { entry, revision, value, .. } = found.clone();
    let expect = Expect::Revision { entry: entry.clone(), revision };
    let put = Put { entry, value, reference: None, expires: Some(keep) };
    // If it is rejected, another attempt has done the same.
    store.commit(Commit::of(Write::Put(put)).expect(expect)).await.map_err(later)?;
    Ok(())
}
