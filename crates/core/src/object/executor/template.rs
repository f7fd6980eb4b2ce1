//! The initial image of a class: the pages of a new object after its migrations, made once and
//! copied.

use parking_lot::Mutex;
use steadfast_vfs::Page;

use super::tables::TableSet;

#[derive(Default)]
pub(in crate::object) struct Template {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pages: Option<Vec<Page>>,
    /// Tables of the runtime's own that first turns needed. To make one takes as long as a turn,
    /// and all statements have to be prepared anew then.
    tables: TableSet,
}

impl Template {
    /// The pages of a new object, shared, if they are known.
    pub(super) fn pages(&self) -> Option<Vec<Page>> {
        self.state.lock().pages.clone()
    }

    /// The tables that a new object gets beside those of its migrations.
    pub(super) fn tables(&self) -> TableSet {
        self.state.lock().tables
    }

    /// Keeps the pages of a new object, unless others need more by now.
    pub(super) fn keep(&self, pages: Vec<Page>, tables: TableSet) {
        let mut state = self.state.lock();
        if state.tables == tables {
            state.pages.get_or_insert(pages);
        }
    }

    /// Records the tables that an object has after its first turn: the next new one is made with
    /// all of them, and then copied.
    pub(super) fn learn(&self, tables: TableSet) {
        let mut state = self.state.lock();
        let all = state.tables.union(tables);
        if all != state.tables {
            (state.tables, state.pages) = (all, None);
        }
    }
}
