//! The initial image of a class: the pages of a new object after its migrations, created once and
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
    /// Tables of the runtime that first turns needed. Creating one takes as long as a turn, and
    /// invalidates all prepared statements.
    tables: TableSet,
}

impl Template {
    /// The pages of a new object, shared, if they are known.
    pub(super) fn pages(&self) -> Option<Vec<Page>> {
        self.state.lock().pages.clone()
    }

    /// The tables of a new object in addition to those of its migrations.
    pub(super) fn tables(&self) -> TableSet {
        self.state.lock().tables
    }

    /// Stores the pages of a new object, unless more tables are needed by now.
    pub(super) fn keep(&self, pages: Vec<Page>, tables: TableSet) {
        let mut state = self.state.lock();
        if state.tables == tables {
            state.pages.get_or_insert(pages);
        }
    }

    /// Records the tables of an object after its first turn: the next new object is created with
    /// all of them, and then copied.
    pub(super) fn learn(&self, tables: TableSet) {
        let mut state = self.state.lock();
        let all = state.tables.union(tables);
        if all != state.tables {
            (state.tables, state.pages) = (all, None);
        }
    }
}
