//! What new objects of a class look like before their first turn: made once, and copied.

use parking_lot::{Mutex, MutexGuard};
use steadfast_vfs::Page;

use super::tables::Which;

#[derive(Default)]
pub(super) struct Mould {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pages: Option<Vec<Page>>,
    /// Tables of the runtime's own that first turns needed. To make one takes as long as a turn,
    /// and all statements have to be prepared anew then.
    tables: Which,
}

impl Mould {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The pages of a new object, shared, if they are known.
    pub(super) fn pages(&self) -> Option<Vec<Page>> {
        self.state().pages.clone()
    }

    /// What a new object gets beside what its migrations make.
    pub(super) fn tables(&self) -> Which {
        self.state().tables
    }

    /// Keeps the pages of a new object, unless others need more by now.
    pub(super) fn keep(&self, pages: Vec<Page>, tables: Which) {
        let mut state = self.state();
        if state.tables == tables {
            state.pages.get_or_insert(pages);
        }
    }

    /// Takes note of the tables that an object has after its first turn: the next new one is made
    /// with all of them, and then copied.
    pub(super) fn learn(&self, tables: Which) {
        let mut state = self.state();
        let all = state.tables.and(tables);
        if all != state.tables {
            (state.tables, state.pages) = (all, None);
        }
    }
}
