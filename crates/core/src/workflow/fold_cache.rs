//! A cache of the folds of runs. A process reads a whole record once; after that, a wake-up or a
//! change from outside reads only new messages, however long the record is.
//!
//! The cache answers nothing by itself. Each use reads the stream from the last message that the
//! cache knows, and compares its position. Positions are never reused, and a record is append-only
//! until it is erased whole; so the same position means the same record. Otherwise the id belongs
//! to another run by now, and that record is read from its beginning.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use steadfast_store::{Address, EntityId, Position, Recorded, Store, StoreError, Version};

use super::{
    Status,
    fold::{PAGE, RunFold},
    status::{RunHead, is_pending},
};

/// Approximate size of the cache.
const BYTES_MAX: usize = 64 << 20;

/// Approximate size of one head.
const HEAD_BYTES: usize = 512;

/// The head of a shorter record is not cached: one read of all of it takes as long as one of what
/// is new. Most runs are short, and nobody asks for them after their end.
const SHORT: Version = 32;

/// Evicts the least recently used run when the cache is full.
#[derive(Debug)]
pub(super) struct FoldCache {
    bytes_max: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    runs: HashMap<EntityId, CachedRun>,
    by_use: BTreeMap<u64, EntityId>,
    uses: u64,
    bytes: usize,
}

/// The head may be newer than the fold. While a run is awake, its driver has the fold, and
/// the cache only has the head.
#[derive(Debug)]
struct CachedRun {
    head: RunHead,
    fold: Option<(RunFold, usize)>,
    bytes: usize,
    used: u64,
}

impl Default for FoldCache {
    fn default() -> Self {
        Self { bytes_max: BYTES_MAX, entries: Mutex::default() }
    }
}

impl FoldCache {
    /// The current head of a run; `None` if the run does not exist.
    pub(super) async fn head(
        &self,
        store: &dyn Store,
        run: &Address,
    ) -> Result<Option<RunHead>, StoreError> {
        if let Some(mut head) = self.cached_head(run.id()) {
            if let Some(new) = NewMessages::read(store, run, &head).await? {
                head.timer = new.timer;
                for message in &new.messages {
                    head.take(message)?;
                }
                self.update_head(run.id(), &head);
                return Ok(Some(head));
            }
            self.remove(run.id());
        }
        let Some(fold) = RunFold::load(store, run).await? else { return Ok(None) };
        let head = fold.head.clone();
        self.insert(run.id(), fold);
        Ok(Some(head))
    }

    /// The fold of a run that is to be driven; `None` if the run does not exist, has ended or is
    /// paused.
    pub(super) async fn load(
        &self,
        store: &dyn Store,
        run: &Address,
    ) -> Result<Option<RunFold>, StoreError> {
        let fold = match self.take(run.id()) {
            Some(mut fold) => match NewMessages::read(store, run, &fold.head).await? {
                Some(new) => {
                    fold.head.timer = new.timer;
                    for message in &new.messages {
                        fold.take(message)?;
                    }
                    Some(fold)
                }
                None => RunFold::load(store, run).await?,
            },
            // The head of an ended or paused run is enough.
            None if self.cached_head(run.id()).is_some_and(|it| !it.can_continue()) => {
                match self.head(store, run).await? {
                    Some(head) if head.can_continue() => RunFold::load(store, run).await?,
                    Some(_) | None => None,
                }
            }
            None => RunFold::load(store, run).await?,
        };
        Ok(match fold {
            Some(fold) if fold.head.can_continue() => {
                self.update_head(run.id(), &fold.head);
                Some(fold)
            }
            Some(fold) => {
                self.insert(run.id(), fold);
                None
            }
            None => None,
        })
    }

    fn cached_head(&self, run: EntityId) -> Option<RunHead> {
        Some(self.entries.lock().runs.get(&run)?.head.clone())
    }

    /// Moves the fold of a run to its driver.
    fn take(&self, run: EntityId) -> Option<RunFold> {
        let mut entries = self.entries.lock();
        let CachedRun { head, fold, .. } = entries.remove(run)?;
        entries.insert(run, head, None);
        Some(fold?.0)
    }

    /// Caches the fold of a run that is no longer awake; of an ended run only the head.
    pub(super) fn insert(&self, run: EntityId, fold: RunFold) {
        let head = fold.head.clone();
        let sized = (!head.status.is_final()).then(|| fold.bytes());
        let fits = sized.filter(|bytes| *bytes < self.bytes_max);
        self.put(run, head, fits.map(|bytes| (fold, bytes)));
    }

    pub(super) fn update_head(&self, run: EntityId, head: &RunHead) {
        self.put(run, head.clone(), None);
    }

    pub(super) fn remove(&self, run: EntityId) {
        self.entries.lock().remove(run);
    }

    /// Keeps the newer of the cached and the given run. Of two runs with the same id, the later
    /// one has the higher first position.
    fn put(&self, run: EntityId, head: RunHead, fold: Option<(RunFold, usize)>) {
        let mut entries = self.entries.lock();
        let (head, fold) = match entries.remove(run) {
            Some(cached) if head.first < cached.head.first => (cached.head, cached.fold),
            Some(cached) if head.first == cached.head.first => {
                let is_newer = cached.head.version <= head.version;
                let head = if is_newer { head } else { cached.head };
                (head, fold.or(cached.fold))
            }
            Some(_) | None => (head, fold),
        };
        entries.insert(run, head, fold);
        while self.bytes_max < entries.bytes
            && let Some((_, oldest)) = entries.by_use.first_key_value()
        {
            let oldest = *oldest;
            entries.remove(oldest);
        }
    }
}

impl Entries {
    fn remove(&mut self, run: EntityId) -> Option<CachedRun> {
        let cached = self.runs.remove(&run)?;
        self.by_use.remove(&cached.used);
        self.bytes -= cached.bytes;
        Some(cached)
    }

    fn insert(&mut self, run: EntityId, head: RunHead, fold: Option<(RunFold, usize)>) {
        if fold.is_none() && head.version < SHORT {
            return;
        }
        let status = match &head.status {
            Status::Complete(output) => super::fold::bytes(output),
            Status::Errored(error) => error.to_string().len(),
            Status::Paused(report) => report.as_ref().map_or(0, |it| it.reason.len()),
            Status::Queued | Status::Running | Status::Waiting | Status::Terminated => 0,
        };
        let bytes = HEAD_BYTES + status + fold.as_ref().map_or(0, |it| it.1);
        self.uses += 1;
        self.bytes += bytes;
        self.by_use.insert(self.uses, run);
        self.runs.insert(run, CachedRun { head, fold, bytes, used: self.uses });
    }
}

/// The messages of a record behind a head.
struct NewMessages {
    messages: Vec<Recorded>,
    /// The timer of the head, if it is still pending.
    timer: Option<Position>,
}

impl NewMessages {
    /// Returns `None` if the record of the head was erased.
    async fn read(
        store: &dyn Store,
        run: &Address,
        head: &RunHead,
    ) -> Result<Option<Self>, StoreError> {
        let mut messages = store.read_stream(run.id(), head.version, PAGE).await?;
        let Some(known) = messages.first().filter(|it| it.position == head.last) else {
            return Ok(None);
        };
        let timer = match head.timer {
            Some(timer) if timer == known.position => is_pending(known).then_some(timer),
            Some(timer) => store.message(timer).await?.filter(is_pending).map(|_| timer),
            None => None,
        };
        let mut is_more = messages.len() == PAGE;
        while let Some(last) = messages.last().filter(|_| is_more) {
            let page = store.read_stream(run.id(), last.version + 1, PAGE).await?;
            is_more = page.len() == PAGE;
            messages.extend(page);
        }
        messages.remove(0);
        Ok(Some(Self { messages, timer }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use steadfast_store::EntityKind;

    use super::*;

    fn id(name: &str) -> EntityId {
        Address::new(EntityKind::Run, "w", name).expect("an address").id()
    }

    fn fold(first: Position, version: i64, bytes: usize) -> RunFold {
        let mut fold = RunFold::begun(first, first + version, json!("x".repeat(bytes)));
        fold.head.version = version;
        fold
    }

    fn cache(bytes_max: usize) -> FoldCache {
        FoldCache { bytes_max, entries: Mutex::default() }
    }

    #[test]
    fn the_least_recently_used_run_is_evicted_when_the_cache_is_full() {
        let cache = cache(10_000);
        for number in 0..1_000 {
            cache.insert(id(&number.to_string()), fold(1, SHORT, 2_000));
            cache.update_head(id("0"), &fold(1, SHORT, 0).head);
        }
        assert!(cache.entries.lock().bytes <= 10_000);
        assert!(cache.take(id("0")).is_some(), "it was used all the time");
        assert!(cache.take(id("999")).is_some());
        assert!(cache.take(id("990")).is_none());
        cache.insert(id("large"), fold(1, SHORT, 20_000));
        assert!(cache.cached_head(id("large")).is_some() && cache.take(id("large")).is_none());
        cache.remove(id("large"));
        (0..1_000).for_each(|it| cache.remove(id(&it.to_string())));
        let entries = cache.entries.lock();
        assert_eq!((entries.bytes, entries.runs.len(), entries.by_use.len()), (0, 0, 0));
    }

    #[test]
    fn the_newer_head_stays_in_whatever_order_they_come() {
        let cache = cache(BYTES_MAX);
        let run = id("one");
        cache.update_head(run, &fold(1, 90, 0).head);
        cache.insert(run, fold(1, 70, 0));
        assert_eq!(cache.cached_head(run).map(|it| it.version), Some(90));
        assert_eq!(cache.take(run).map(|it| it.head.version), Some(70));
        // The next run of this id.
        cache.insert(run, fold(500, 3, 0));
        cache.insert(run, fold(1, 90, 0));
        cache.update_head(run, &fold(1, 100, 0).head);
        assert_eq!(cache.cached_head(run).map(|it| (it.first, it.version)), Some((500, 3)));
        assert_eq!(cache.take(run).map(|it| it.head.first), Some(500));
    }

    #[test]
    fn short_runs_leave_nothing_behind() {
        let cache = cache(BYTES_MAX);
        let run = id("one");
        for version in 1..SHORT {
            cache.update_head(run, &fold(1, version, 0).head);
        }
        // It waits, continues, and ends.
        cache.insert(run, fold(1, 5, 0));
        assert!(cache.take(run).is_some());
        let mut ended = fold(1, 6, 0);
        ended.head.status = Status::Complete(json!(null));
        cache.update_head(run, &ended.head);
        cache.insert(run, ended);
        let entries = cache.entries.lock();
        assert_eq!((entries.bytes, entries.runs.len(), entries.by_use.len()), (0, 0, 0));
    }
}
