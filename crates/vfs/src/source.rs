//! Pages and their checksums; pages that are not in memory yet, and their source.

use std::{
    ops::RangeInclusive,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
};

/// The bytes in a page of every database.
pub const PAGE_SIZE: usize = 4096;

/// One page, shared between all readers.
pub type Page = Arc<[u8; PAGE_SIZE]>;

pub(crate) type Bytes = [u8; PAGE_SIZE];

/// The value of a page that does not exist.
pub(crate) static ZERO: Bytes = [0; PAGE_SIZE];

static SHARED_ZERO: LazyLock<Page> = LazyLock::new(|| Arc::new(ZERO));

/// The page of zeros, shared, so that growing a database takes no memory until it is written.
pub(crate) fn zero() -> Page {
    Arc::clone(&SHARED_ZERO)
}

/// The CRC-32 of a page.
pub fn checksum(page: &[u8; PAGE_SIZE]) -> u32 {
    crc32fast::hash(page)
}

/// Pages read at once, when one of them is needed.
const GROUP: u32 = 16;

/// Maximum pages read at once, when they are needed one after the other.
const GROUP_MAX: u32 = 256;

/// The source of the pages of a database that are not in memory.
pub trait Source: Send + Sync {
    /// Reads these pages, all of them, in order. It is called on the thread that uses the
    /// connection, and may block.
    fn load(&self, pages: RangeInclusive<u32>) -> Result<Vec<Page>, String>;
}

/// A page could not be read. SQLite gets `SQLITE_IOERR`, now and for every other missing page: an
/// image that has failed once is not valid any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("page {page} could not be read: {detail}")]
pub struct NotLoaded {
    /// The number of the page, from 1.
    pub page: u32,
    /// The error of the source.
    pub detail: String,
}

/// The missing pages of an image.
pub(crate) struct Missing {
    source: Arc<dyn Source>,
    /// Their number.
    count: usize,
    /// The page after those that were read last, and how many these were.
    next: u32,
    group: u32,
    fault: Option<NotLoaded>,
}

impl Missing {
    /// `None` if there are none.
    pub(crate) fn of(pages: &[Option<Page>], source: Arc<dyn Source>) -> Option<Self> {
        let count = pages.iter().filter(|it| it.is_none()).count();
        (0 < count).then_some(Self { source, count, next: 0, group: GROUP, fault: None })
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn fault(&self) -> Option<&NotLoaded> {
        self.fault.as_ref()
    }

    /// Reads a missing page, and missing neighbours.
    pub(crate) fn load(
        &mut self,
        pages: &mut [Option<Page>],
        number: u32,
    ) -> Result<(), NotLoaded> {
        let group = self.group(pages, number);
        self.load_group(pages, group)
    }

    /// Reads all missing pages from this page on.
    pub(crate) fn load_from(
        &mut self,
        pages: &mut [Option<Page>],
        from: usize,
    ) -> Result<(), NotLoaded> {
        let mut from = from;
        while let Some(found) = pages.get(from..).and_then(|it| it.iter().position(Option::is_none))
        {
            let first = (from + found) as u32 + 1;
            let group = reach(pages, first, first, first.saturating_add(GROUP_MAX - 1));
            from = *group.end() as usize;
            self.load_group(pages, group)?;
        }
        Ok(())
    }

    /// The range to read: sequential reads get more and more pages at once.
    fn group(&mut self, pages: &[Option<Page>], number: u32) -> RangeInclusive<u32> {
        if number == self.next {
            self.group = (2 * self.group).min(GROUP_MAX);
            return reach(pages, number, number, number.saturating_add(self.group - 1));
        }
        self.group = GROUP;
        let first = (number - 1) / GROUP * GROUP + 1;
        reach(pages, number, first, first.saturating_add(GROUP - 1))
    }

    fn load_group(
        &mut self,
        pages: &mut [Option<Page>],
        group: RangeInclusive<u32>,
    ) -> Result<(), NotLoaded> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        let (first, last) = (*group.start() as usize, *group.end() as usize);
        let wanted = &mut pages[first - 1..last];
        let loaded = catch_unwind(AssertUnwindSafe(|| self.source.load(group.clone())));
        let loaded = loaded.unwrap_or_else(|_| Err("its source panicked".into()));
        let loaded = loaded.and_then(|it| {
            if it.len() == wanted.len() { Ok(it) } else { Err("its source gave others".into()) }
        });
        match loaded {
            Ok(loaded) => {
                wanted.iter_mut().zip(loaded).for_each(|(place, page)| *place = Some(page));
                self.count -= wanted.len();
                self.next = group.end().saturating_add(1);
                Ok(())
            }
            Err(detail) => {
                let fault = NotLoaded { page: *group.start(), detail };
                self.fault = Some(fault.clone());
                Err(fault)
            }
        }
    }
}

/// The missing pages around `number`, without a gap, from `first` to `last` at most.
fn reach(pages: &[Option<Page>], number: u32, first: u32, last: u32) -> RangeInclusive<u32> {
    let missing = |number: &u32| pages.get(*number as usize - 1).is_some_and(Option::is_none);
    let below = (first..number).rev().take_while(missing).last().unwrap_or(number);
    let above = (number..=last).take_while(missing).last().unwrap_or(number);
    below..=above
}
