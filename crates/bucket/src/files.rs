//! Files of blobs in a folder: `{time}/{time}/{id}`.
//!
//! The name is made from the id alone, never from user input. A file has its name from the
//! beginning: ids are new, and no reader looks for one before the commit that refers to it. A file
//! that was being written when the process ended is an orphan. Ids of the same minute share a
//! folder, so that concurrent writes share one flush of it.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    ops::Range,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use steadfast_store::{Timestamp, crash, private};

use crate::{
    content::{Blobs, Content, Draft, FileName},
    folder_sync::{FlushTicket, FolderSync, sync_folder},
};

/// Files in a folder that this process holds exclusively.
pub struct FileBlobs {
    inner: Arc<Inner>,
}

struct Inner {
    folder: PathBuf,
    /// Folders that exist durably.
    subfolders: Mutex<HashMap<String, Arc<FolderSync>>>,
    /// Files being written. They are not orphans.
    drafts: Mutex<HashSet<FileName>>,
    /// Folders that changed and may be empty.
    touched: Mutex<BTreeSet<String>>,
    /// Abandoned drafts that could not be removed.
    abandoned_drafts: Mutex<Vec<FileName>>,
    /// The lock of the folder, held while this value exists; `None` if it is read-only.
    _lock: Option<File>,
}

/// Maximum number of folders to remember. Beyond it, the oldest are looked up again.
const SUBFOLDERS_MAX: usize = 64;

/// Maximum number of possibly empty folders to remember.
const TOUCHED_MAX: usize = 10_000;

impl FileBlobs {
    /// Opens or creates the folder. `store` names its store. The folder of another store is
    /// refused, because the sweep removes every file without a row.
    pub fn open(folder: impl Into<PathBuf>, store: &str) -> io::Result<Self> {
        let folder = folder.into();
        let new: Vec<&Path> = folder.ancestors().take_while(|it| !it.exists()).collect();
        make_folder(&folder)?;
        for parent in new.iter().filter_map(|it| it.parent()) {
            let here = parent.as_os_str().is_empty();
            sync_folder(if here { Path::new(".") } else { parent })?;
        }
        for path in private::tighten(&folder)? {
            tracing::warn!(path = %path.display(), "removed the permissions of other users");
        }
        let lock = private::open_file(&folder.join("lock"))?;
        lock.try_lock().map_err(|error| {
            io::Error::other(format!("{} is used by another process: {error}", folder.display()))
        })?;
        own(&folder, store)?;
        sync_folder(&folder)?;
        Ok(Self::new(folder, Some(lock)))
    }

    /// Opens a folder read-only. It need not exist, and nothing in it changes. Use it with
    /// [`BucketsBuilder::open_read_only`](crate::BucketsBuilder::open_read_only), which refuses all
    /// changes, while holding the lock of the store.
    pub fn open_read_only(folder: impl Into<PathBuf>) -> Self {
        Self::new(folder.into(), None)
    }

    fn new(folder: PathBuf, lock: Option<File>) -> Self {
        let (subfolders, drafts) = (Mutex::default(), Mutex::default());
        let (touched, abandoned_drafts) = (Mutex::default(), Mutex::default());
        let inner = Inner { folder, subfolders, drafts, touched, abandoned_drafts, _lock: lock };
        Self { inner: Arc::new(inner) }
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Records which store owns the files, or checks it.
fn own(folder: &Path, store: &str) -> io::Result<()> {
    match read_line(folder, "store")? {
        Some(owner) if owner == store => Ok(()),
        Some(owner) => Err(io::Error::other(format!(
            "{} holds the files of store {owner}, and this is store {store}; give each store a \
             folder of its own",
            folder.display(),
        ))),
        None => write_whole(folder, "store", store),
    }
}

/// Reads the line of a file; `None` if there is no such file.
fn read_line(folder: &Path, name: &str) -> io::Result<Option<String>> {
    match fs::read_to_string(folder.join(name)) {
        Ok(line) => Ok(Some(line.trim().into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a line to a file atomically.
fn write_whole(folder: &Path, name: &str, line: &str) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(new, folder.join(name))?;
    sync_folder(folder)
}

impl Inner {
    fn subfolder_of(name: FileName) -> String {
        // One folder holds the ids of 65 seconds.
        let id = name.content.to_string();
        format!("{}/{}", &id[..6], &id[6..8])
    }

    fn path(&self, name: FileName) -> PathBuf {
        self.folder.join(Self::subfolder_of(name)).join(name.to_string())
    }

    /// The folder of a file. It and its ancestors are durable when this returns.
    fn subfolder(&self, name: FileName) -> io::Result<(PathBuf, Arc<FolderSync>)> {
        let subfolder = Self::subfolder_of(name);
        let path = self.folder.join(&subfolder);
        self.touch(&subfolder);
        let mut known = self.subfolders.lock();
        if let Some(sync) = known.get(&subfolder) {
            return Ok((path, sync.clone()));
        }
        make_folder(&path)?;
        let ancestors = path.parent().map_or(Ok(()), sync_folder);
        let sync = match ancestors.and_then(|()| sync_folder(&self.folder)) {
            Ok(()) => Arc::new(FolderSync::default()),
            // A second flush would not report what the first one lost.
            Err(error) => Arc::new(FolderSync::failed(&path, &error)),
        };
        if SUBFOLDERS_MAX < known.len() {
            // Tasks that wait for one of them hold a reference to it.
            let oldest = known.keys().min().cloned();
            oldest.map(|it| known.remove(&it));
        }
        known.insert(subfolder, sync.clone());
        Ok((path, sync))
    }

    fn touch(&self, subfolder: &str) {
        let mut touched = self.touched.lock();
        if !touched.contains(subfolder) {
            touched.insert(subfolder.into());
            if TOUCHED_MAX < touched.len() {
                // Without a sweep, empty folders stay; they do no harm.
                touched.pop_first();
            }
        }
    }

    /// Runs an operation in the folder of a file.
    fn in_subfolder<T>(
        &self,
        name: FileName,
        work: impl Fn(&Path) -> io::Result<T>,
    ) -> io::Result<(T, PathBuf, Arc<FolderSync>)> {
        let (folder, sync) = self.subfolder(name)?;
        match work(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.is_dir() => {
                // The sweep removed the folder because it was empty.
                self.subfolders.lock().remove(&Self::subfolder_of(name));
                let (folder, sync) = self.subfolder(name)?;
                Ok((work(&folder)?, folder, sync))
            }
            done => Ok((done?, folder, sync)),
        }
    }
}

impl fmt::Debug for FileBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileBlobs({})", self.inner.folder.display())
    }
}

impl Blobs for FileBlobs {
    fn create(&self, name: FileName) -> io::Result<Box<dyn Draft>> {
        let inner = self.inner.clone();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        inner.drafts.lock().insert(name);
        let made = inner.in_subfolder(name, |folder| options.open(folder.join(name.to_string())));
        let (file, folder, sync) = made.inspect_err(|_| _ = inner.drafts.lock().remove(&name))?;
        crash::point("blob.named");
        let asked = sync.ask();
        Ok(Box::new(FileDraft { inner, name, file, folder, sync, asked, is_sealed: false }))
    }

    fn open(&self, name: FileName) -> io::Result<Arc<dyn Content>> {
        Ok(Arc::new(FileContent(File::open(self.inner.path(name))?)))
    }

    fn link(&self, from: FileName, to: FileName) -> io::Result<()> {
        let source = self.inner.path(from);
        let linked = self
            .inner
            .in_subfolder(to, |folder| fs::hard_link(&source, folder.join(to.to_string())));
        match linked {
            Ok(((), folder, sync)) => sync.wait(sync.ask(), &folder),
            // Some file systems cannot link, and all limit the number of links.
            Err(error) if cannot_link(&error) => {
                let mut draft = self.create(to)?;
                let content = FileContent(File::open(&source)?);
                let size = content.0.metadata()?.len();
                let mut at = 0;
                while at < size {
                    let until = size.min(at + (1 << 20));
                    draft.write(&content.read(at..until)?)?;
                    at = until;
                }
                draft.seal()
            }
            Err(error) => Err(error),
        }
    }

    fn remove(&self, names: &[FileName]) -> io::Result<()> {
        let mut removed = Ok(());
        for name in names {
            self.inner.touch(&Inner::subfolder_of(*name));
            match fs::remove_file(self.inner.path(*name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => removed = Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        removed
    }

    fn subfolders(&self) -> io::Result<Vec<(String, Timestamp)>> {
        self.subfolders_after(None, usize::MAX)
    }

    fn subfolders_after(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> io::Result<Vec<(String, Timestamp)>> {
        let is_ours = |it: &String| it.len() == 6 && it.bytes().all(|it| it.is_ascii_hexdigit());
        let mut outers = names_in(&self.inner.folder)?;
        outers.retain(|it| is_ours(it) && after.is_none_or(|after| after.get(..6) <= Some(it)));
        outers.sort();
        let mut found = Vec::new();
        for outer in outers {
            if limit <= found.len() {
                break;
            }
            let mut inner = names_in(&self.inner.folder.join(&outer))?;
            inner.sort();
            let subfolder = |inner: String| {
                let end = ended_at(&outer, &inner)?;
                Some((format!("{outer}/{inner}"), end))
            };
            let subfolders = inner.into_iter().filter_map(subfolder);
            found.extend(subfolders.filter(|it| after.is_none_or(|after| after < it.0.as_str())));
        }
        found.truncate(limit);
        Ok(found)
    }

    fn files_in(&self, subfolder: &str) -> io::Result<Vec<FileName>> {
        let folder = self.inner.folder.join(subfolder);
        let names = names_in(&folder)?;
        let names = names.iter().filter_map(|it| FileName::parse(it));
        // Read the drafts after listing the folder: a file finished in between is held by its
        // writer.
        let drafts = self.inner.drafts.lock();
        Ok(names.filter(|it| !drafts.contains(it)).collect())
    }

    fn remove_subfolder(&self, subfolder: &str) {
        let mut known = self.inner.subfolders.lock();
        // A folder that is not empty stays, as intended.
        if fs::remove_dir(self.inner.folder.join(subfolder)).is_ok() {
            known.remove(subfolder);
            if let Some((outer, _)) = subfolder.split_once('/') {
                let _ = fs::remove_dir(self.inner.folder.join(outer));
            }
        }
    }

    fn remove_empty_subfolders(&self, before: Timestamp) {
        let mut touched = self.inner.touched.lock();
        let is_over = |it: &str| {
            let end = it.split_once('/').and_then(|(outer, inner)| ended_at(outer, inner));
            end.is_none_or(|it| it <= before)
        };
        let (over, left) = std::mem::take(&mut *touched).into_iter().partition(|it| is_over(it));
        *touched = left;
        drop(touched);
        let over: BTreeSet<String> = over;
        over.iter().for_each(|it| self.remove_subfolder(it));
    }

    fn abandoned_drafts(&self) -> Vec<FileName> {
        let mut left = self.inner.abandoned_drafts.lock();
        std::mem::take(&mut *left)
    }

    fn session(&self) -> io::Result<Option<String>> {
        read_line(&self.inner.folder, "session")
    }

    fn set_session(&self, id: &str) -> io::Result<()> {
        write_whole(&self.inner.folder, "session", id)
    }

    fn is_in_memory(&self) -> bool {
        false
    }
}

fn cannot_link(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let cannot = [Errno::MLINK, Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::XDEV];
    Errno::from_io_error(error).is_some_and(|it| cannot.contains(&it))
}

/// The time after which a folder gets no new ids.
fn ended_at(outer: &str, inner: &str) -> Option<Timestamp> {
    let number = i64::from_str_radix(&format!("{outer}{inner}"), 16).ok()?;
    Some(Timestamp((number + 1) << 16))
}

fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(folder)? {
        // File names that are not UTF-8 are not ours.
        names.extend(file?.file_name().into_string());
    }
    Ok(names)
}

struct FileDraft {
    inner: Arc<Inner>,
    name: FileName,
    file: File,
    folder: PathBuf,
    sync: Arc<FolderSync>,
    /// The order in which its name was added to the folder.
    asked: FlushTicket,
    is_sealed: bool,
}

impl Draft for FileDraft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn seal(mut self: Box<Self>) -> io::Result<()> {
        crash::point("blob.written");
        self.file.sync_data()?;
        crash::point("blob.flushed");
        self.sync.wait(self.asked, &self.folder)?;
        self.is_sealed = true;
        crash::point("blob.placed");
        Ok(())
    }
}

impl Drop for FileDraft {
    fn drop(&mut self) {
        if !self.is_sealed
            && let Err(error) = fs::remove_file(self.folder.join(self.name.to_string()))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(error = %error, "an abandoned file was not removed");
            self.inner.abandoned_drafts.lock().push(self.name);
        }
        self.inner.drafts.lock().remove(&self.name);
    }
}

struct FileContent(File);

impl Content for FileContent {
    fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.0.read_exact_at(&mut bytes, range.start)?;
        Ok(bytes)
    }
}
