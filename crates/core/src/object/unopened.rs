//! An object that was read, before its database is opened. That is done on a thread that runs
//! turns: SQLite looks at pages then, and may have to wait for them.

use std::sync::Arc;

use steadfast_store::{self as store, Timestamp};
use steadfast_vfs::{Image, Limits, PAGE_SIZE, Page};

use super::{database::Database, objects::Class, pages::Pages, tables::Tables, turn::Core};

pub(super) struct Unopened {
    /// `None` for one that was not read.
    pub(super) pages: Vec<Option<Page>>,
    /// It does not exist yet.
    pub(super) is_new: bool,
}

impl Unopened {
    /// Bytes of the pages that were read.
    pub(super) fn bytes(&self) -> usize {
        self.pages.iter().flatten().count() * PAGE_SIZE
    }

    /// Opens the database; also says whether it has the tables of its class for sure.
    pub(super) fn open(
        self,
        me: &store::Address,
        class: &Class,
        source: Option<Arc<Pages>>,
        limits: Limits,
    ) -> rusqlite::Result<(Core, bool)> {
        let mould = if self.is_new { class.mould.pages() } else { None };
        let is_made = mould.is_some();
        let database = match (mould, source) {
            (Some(pages), _) => Database::begun(pages, limits)?,
            (None, Some(source)) => Database::open(Image::lazy(self.pages, source, limits))?,
            (None, None) => {
                let pages = self.pages.into_iter().flatten().collect();
                Database::open(Image::new(pages, limits))?
            }
        };
        let core = Core {
            tables: Tables::of(&database)?,
            database,
            me: me.clone(),
            now: Timestamp::MIN,
            seq: 0,
            caller: Default::default(),
            ringing: Default::default(),
            out: Default::default(),
            run_reply: Default::default(),
            ops: Default::default(),
            fault: Default::default(),
            alarms_touched: Default::default(),
            deleted: Default::default(),
            served: class.served.clone(),
        };
        Ok((core, is_made))
    }
}
