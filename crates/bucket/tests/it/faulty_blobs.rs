//! Files with fault injection: before each call a hook runs, which may act or make the call fail.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use steadfast_bucket::{Blobs, Content, ContentId, Draft, FileName};
use steadfast_store::Timestamp;

/// The call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Create,
    Write,
    Seal,
    /// Durable under its name; nothing refers to it yet.
    Sealed,
    Open,
    Link,
    Linked,
    Remove,
    /// Before a folder or the list of folders is read.
    List,
    /// Before the id of a session is written.
    Session,
}

/// No file.
const NONE: FileName = FileName { content: ContentId([0; 16]), part: None };

type Hook = Box<dyn FnMut(At, FileName) -> io::Result<()> + Send>;

/// Files with a hook. Clones share it.
#[derive(Clone)]
pub(crate) struct FaultyBlobs {
    inner: Arc<dyn Blobs>,
    hook: Arc<Mutex<Option<Hook>>>,
    /// Number of lists.
    lists: Arc<AtomicUsize>,
}

impl FaultyBlobs {
    pub(crate) fn new(inner: Arc<dyn Blobs>) -> Self {
        Self { inner, hook: Arc::default(), lists: Arc::default() }
    }

    /// Number of lists of folders or of their files.
    pub(crate) fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }

    fn count_list(&self) -> io::Result<()> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.ask(At::List, NONE)
    }

    /// Sets the hook.
    pub(crate) fn on(&self, hook: impl FnMut(At, FileName) -> io::Result<()> + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    /// Makes the n-th call from now on fail, and all later ones.
    pub(crate) fn fail_from(&self, nth: usize, kind: io::ErrorKind) {
        let mut calls = 0;
        self.on(move |at, _| {
            let counts = !matches!(at, At::Remove | At::List | At::Session);
            calls += usize::from(counts);
            if nth <= calls && counts { Err(kind.into()) } else { Ok(()) }
        });
    }

    pub(crate) fn off(&self) {
        *self.hook.lock().unwrap() = None;
    }

    fn ask(&self, at: At, name: FileName) -> io::Result<()> {
        // Taken meanwhile, because the hook may call this again.
        let hook = self.hook.lock().unwrap().take();
        let Some(mut hook) = hook else { return Ok(()) };
        let answer = hook(at, name);
        self.hook.lock().unwrap().get_or_insert(hook);
        answer
    }
}

impl std::fmt::Debug for FaultyBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultyBlobs({:?})", self.inner)
    }
}

impl Blobs for FaultyBlobs {
    fn create(&self, name: FileName) -> io::Result<Box<dyn Draft>> {
        self.ask(At::Create, name)?;
        let draft = self.inner.create(name)?;
        Ok(Box::new(FaultyDraft { faulty_blobs: self.clone(), name, draft }))
    }

    fn open(&self, name: FileName) -> io::Result<Arc<dyn Content>> {
        self.ask(At::Open, name)?;
        self.inner.open(name)
    }

    fn link(&self, from: FileName, to: FileName) -> io::Result<()> {
        self.ask(At::Link, from)?;
        self.inner.link(from, to)?;
        self.ask(At::Linked, to)
    }

    fn remove(&self, names: &[FileName]) -> io::Result<()> {
        names.iter().try_for_each(|it| self.ask(At::Remove, *it))?;
        self.inner.remove(names)
    }

    fn subfolders(&self) -> io::Result<Vec<(String, Timestamp)>> {
        self.count_list()?;
        self.inner.subfolders()
    }

    fn subfolders_after(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> io::Result<Vec<(String, Timestamp)>> {
        self.count_list()?;
        self.inner.subfolders_after(after, limit)
    }

    fn files_in(&self, subfolder: &str) -> io::Result<Vec<FileName>> {
        self.count_list()?;
        self.inner.files_in(subfolder)
    }

    fn remove_empty_subfolders(&self, before: Timestamp) {
        self.inner.remove_empty_subfolders(before);
    }

    fn abandoned_drafts(&self) -> Vec<FileName> {
        self.inner.abandoned_drafts()
    }

    fn session(&self) -> io::Result<Option<String>> {
        self.inner.session()
    }

    fn set_session(&self, id: &str) -> io::Result<()> {
        self.ask(At::Session, NONE)?;
        self.inner.set_session(id)
    }

    fn remove_subfolder(&self, subfolder: &str) {
        self.inner.remove_subfolder(subfolder);
    }

    fn is_in_memory(&self) -> bool {
        false
    }
}

struct FaultyDraft {
    faulty_blobs: FaultyBlobs,
    name: FileName,
    draft: Box<dyn Draft>,
}

impl Draft for FaultyDraft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.faulty_blobs.ask(At::Write, self.name)?;
        self.draft.write(bytes)
    }

    fn seal(self: Box<Self>) -> io::Result<()> {
        self.faulty_blobs.ask(At::Seal, self.name)?;
        self.draft.seal()?;
        self.faulty_blobs.ask(At::Sealed, self.name)
    }
}
