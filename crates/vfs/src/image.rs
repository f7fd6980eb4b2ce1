//! The pages of one database, and their state at the last `accept`.

use std::{collections::BTreeMap, fmt, mem, sync::Arc};

use crate::{
    delta::{PAGES_MAX, Writer},
    source::{Bytes, Missing, NotLoaded, PAGE_SIZE, Page, Source, ZERO, zero},
};
use parking_lot::Mutex;

/// Maximum size of a database and of one turn. Beyond it SQLite returns `SQLITE_FULL`.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Pages in the database.
    pub pages_max: u32,
    /// Pages that differ from the last `accept`.
    pub dirty_pages_max: usize,
    /// Bytes in the temporary files of one connection, together.
    pub temp_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pages_max: 65_536, dirty_pages_max: 16_384, temp_bytes_max: 64 << 20 }
    }
}

/// The changes of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageChanges {
    /// From the last `accept` to now.
    pub delta: Vec<u8>,
    /// The numbers of the pages that differ, from 1, ascending; pages that ceased to exist too.
    pub touched: Vec<u32>,
    /// The number of pages now.
    pub pages: u32,
}

/// Why a write was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A limit is reached.
    Full,
    /// Not one whole page at a page boundary.
    Unaligned,
    /// A page is not in memory and could not be read.
    NotLoaded,
}

impl From<NotLoaded> for Refusal {
    fn from(_: NotLoaded) -> Self {
        Refusal::NotLoaded
    }
}

/// The pages of one database in memory, and the changes since the last [`accept`].
///
/// [`accept`]: Image::accept
pub struct Image {
    pub(crate) limits: Limits,
    state: Mutex<State>,
}

struct State {
    /// `None` for a page that is not in memory. It is unchanged since the last `accept`: a page is
    /// read before it is written or removed.
    pages: Vec<Option<Page>>,
    missing: Option<Missing>,
    /// The number of pages at the last `accept`.
    accepted: usize,
    /// The previous state of pages written or removed since then; `None` for one that did not
    /// exist. A page that is not in here is unchanged in `pages`.
    before: BTreeMap<u32, Option<Page>>,
    writes: u64,
    connected: bool,
}

impl Image {
    /// A database of these pages; a new one if there are none.
    pub fn new(pages: Vec<Page>, limits: Limits) -> Arc<Self> {
        Self::of(pages.into_iter().map(Some).collect(), None, limits)
    }

    /// A database of these pages, some of which are not in memory: they are read from the source
    /// when they are needed.
    pub fn lazy(pages: Vec<Option<Page>>, source: Arc<dyn Source>, limits: Limits) -> Arc<Self> {
        let missing = Missing::of(&pages, source);
        Self::of(pages, missing, limits)
    }

    fn of(pages: Vec<Option<Page>>, missing: Option<Missing>, limits: Limits) -> Arc<Self> {
        let limits = Limits { pages_max: limits.pages_max.min(PAGES_MAX), ..limits };
        let accepted = pages.len();
        let before = BTreeMap::new();
        let state = State { pages, missing, accepted, before, writes: 0, connected: false };
        Arc::new(Self { limits, state: Mutex::new(state) })
    }

    /// A new database that has these pages already: all of them are part of its first delta.
    pub fn begun(pages: Vec<Page>, limits: Limits) -> Arc<Self> {
        let image = Self::new(pages, limits);
        let mut state = image.state.lock();
        state.accepted = 0;
        state.before = (1..=state.pages.len() as u32).map(|number| (number, None)).collect();
        drop(state);
        image
    }

    /// The number of pages.
    pub fn page_count(&self) -> u32 {
        self.state.lock().pages.len() as u32
    }

    /// The number of pages in memory.
    pub fn loaded(&self) -> usize {
        let state = self.state.lock();
        state.pages.len() - state.missing.as_ref().map_or(0, Missing::count)
    }

    /// Why a page could not be read, if one could not. Then the image is not valid any more.
    pub fn fault(&self) -> Option<NotLoaded> {
        self.state.lock().missing.as_ref().and_then(|it| it.fault().cloned())
    }

    /// All current pages, shared, not copied.
    pub fn pages(&self) -> Result<Vec<Page>, NotLoaded> {
        let mut state = self.state.lock();
        state.need_from(0)?;
        Ok(state.pages.iter().flatten().cloned().collect())
    }

    /// The page with this number, from 1.
    pub fn page(&self, number: u32) -> Result<Option<Page>, NotLoaded> {
        let Some(index) = (number as usize).checked_sub(1) else { return Ok(None) };
        Ok(self.state.lock().at(index)?.cloned())
    }

    /// Increases with every page changed or removed: while it is the same, so are the pages.
    pub fn writes(&self) -> u64 {
        self.state.lock().writes
    }

    /// The changes since the last [`accept`](Image::accept), or `None` if the pages are equal, byte
    /// for byte.
    pub fn changes(&self) -> Option<ImageChanges> {
        let state = self.state.lock();
        let pages = state.pages.len() as u32;
        if state.before.is_empty() && state.accepted == state.pages.len() {
            return None;
        }
        let mut writer = Writer::new(state.accepted as u32, pages);
        for (number, old) in &state.before {
            let old: &Bytes = old.as_deref().unwrap_or(&ZERO);
            let new: &Bytes = state.known(*number as usize - 1).map_or(&ZERO, |page| page);
            writer.page(*number, old, new);
        }
        let (delta, touched) = writer.finish();
        let same = touched.is_empty() && state.accepted == state.pages.len();
        (!same).then_some(ImageChanges { delta, touched, pages })
    }

    /// Makes the current state the base of the next delta.
    pub fn accept(&self) {
        let mut state = self.state.lock();
        state.before.clear();
        state.accepted = state.pages.len();
    }

    /// Restores the last [`accept`](Image::accept): the pages and their number, byte for byte.
    ///
    /// The caller has rolled SQLite back to the same state, or dropped the connection. In the first
    /// case the connection stays usable: its cache differs from the image at most in free pages,
    /// whose content SQLite never reads before it has overwritten it.
    pub fn rollback(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.before.is_empty() && state.accepted == state.pages.len() {
            return;
        }
        state.resize(state.accepted);
        for (number, old) in mem::take(&mut state.before) {
            if let (Some(place), Some(old)) = (state.pages.get_mut(number as usize - 1), old) {
                *place = Some(old);
            }
        }
        state.writes += 1;
    }

    /// Takes the only slot for a connection.
    pub(crate) fn occupy(&self) -> bool {
        !mem::replace(&mut self.state.lock().connected, true)
    }

    pub(crate) fn vacate(&self) {
        self.state.lock().connected = false;
    }

    pub(crate) fn size(&self) -> u64 {
        (self.state.lock().pages.len() * PAGE_SIZE) as u64
    }

    /// Fills `out`, with zeros beyond the end. Returns whether the database had all of it.
    pub(crate) fn read(&self, offset: u64, mut out: &mut [u8]) -> Result<bool, Refusal> {
        let mut state = self.state.lock();
        let (mut index, mut within) = (offset / PAGE_SIZE as u64, offset as usize % PAGE_SIZE);
        while !out.is_empty() {
            let Some(page) = state.at(usize::try_from(index).unwrap_or(usize::MAX))? else {
                out.fill(0);
                return Ok(false);
            };
            let (part, rest) = out.split_at_mut(out.len().min(PAGE_SIZE - within));
            part.copy_from_slice(&page[within..within + part.len()]);
            out = rest;
            (index, within) = (index + 1, 0);
        }
        Ok(true)
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let bytes: &Bytes = bytes.try_into().map_err(|_| Refusal::Unaligned)?;
        self.state.lock().write(number_after(offset)?, bytes, &self.limits)
    }

    pub(crate) fn truncate(&self, size: u64) -> Result<(), Refusal> {
        self.state.lock().truncate(number_after(size)? - 1, &self.limits)
    }
}

/// The number of the page that starts here.
fn number_after(offset: u64) -> Result<u32, Refusal> {
    if !offset.is_multiple_of(PAGE_SIZE as u64) {
        return Err(Refusal::Unaligned);
    }
    u32::try_from(offset / PAGE_SIZE as u64 + 1).map_err(|_| Refusal::Full)
}

impl State {
    /// The page at this index, read if it is not in memory.
    fn at(&mut self, index: usize) -> Result<Option<&Page>, NotLoaded> {
        if let (Some(None), Some(missing)) = (self.pages.get(index), &mut self.missing) {
            missing.load(&mut self.pages, index as u32 + 1)?;
            self.let_go();
        }
        Ok(self.known(index))
    }

    /// Reads the missing pages from this index on.
    fn need_from(&mut self, index: usize) -> Result<(), NotLoaded> {
        if let Some(missing) = &mut self.missing {
            missing.load_from(&mut self.pages, index)?;
            self.let_go();
        }
        Ok(())
    }

    /// Drops the source when all pages are in memory.
    fn let_go(&mut self) {
        self.missing.take_if(|it| it.count() == 0);
    }

    /// The page at this index, which is in memory if it exists.
    fn known(&self, index: usize) -> Option<&Page> {
        self.pages.get(index).and_then(Option::as_ref)
    }

    fn resize(&mut self, length: usize) {
        self.pages.resize_with(length, || Some(zero()));
    }

    fn write(&mut self, number: u32, bytes: &Bytes, limits: &Limits) -> Result<(), Refusal> {
        let index = number as usize - 1;
        // When SQLite rolls back it also writes pages that it never changed here. These must not
        // count: a rollback after `Full` would exceed the same limit.
        if self.at(index)?.is_some_and(|page| **page == *bytes) {
            return Ok(());
        }
        if self.is_too_long(number, limits) {
            return Err(Refusal::Full);
        }
        if let Some(old) = self.before.get(&number) {
            if let Some(old) = old.as_ref().filter(|old| ***old == *bytes) {
                let old = Arc::clone(old);
                self.grow(index + 1);
                self.pages[index] = Some(old);
                self.before.remove(&number);
                self.writes += 1;
                return Ok(());
            }
        } else {
            if self.before.len() >= limits.dirty_pages_max {
                return Err(Refusal::Full);
            }
            self.before.insert(number, self.known(index).cloned());
        }
        self.grow(index + 1);
        match self.pages[index].as_mut().and_then(Arc::get_mut) {
            Some(page) => *page = *bytes,
            None => self.pages[index] = Some(Arc::new(*bytes)),
        }
        self.writes += 1;
        Ok(())
    }

    fn grow(&mut self, length: usize) {
        if self.pages.len() < length {
            self.resize(length);
        }
    }

    /// A database that was larger before the limit was lowered may stay larger.
    fn is_too_long(&self, pages: u32, limits: &Limits) -> bool {
        pages > limits.pages_max && pages as usize > self.accepted.max(self.pages.len())
    }

    fn truncate(&mut self, pages: u32, limits: &Limits) -> Result<(), Refusal> {
        if self.is_too_long(pages, limits) {
            return Err(Refusal::Full);
        }
        let length = pages as usize;
        let removed = length + 1..=self.pages.len();
        let remembered = |number: &usize| self.before.contains_key(&(*number as u32));
        let known = removed.clone().filter(|number| *number <= self.accepted);
        let new: Vec<usize> = known.filter(|number| !remembered(number)).collect();
        if !new.is_empty() && self.before.len() + new.len() > limits.dirty_pages_max {
            return Err(Refusal::Full);
        }
        self.need_from(length)?;
        for number in new {
            self.before.insert(number as u32, self.known(number - 1).cloned());
        }
        for number in removed.filter(|number| *number > self.accepted) {
            self.before.remove(&(number as u32));
        }
        if length != self.pages.len() {
            self.resize(length);
            self.writes += 1;
        }
        Ok(())
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("pages", &self.page_count()).finish_non_exhaustive()
    }
}
