//! The VFS of one connection. Slots are reused and never freed: SQLite may keep a pointer to one
//! until the very end of a close, for which there is no callback. They are allocated in blocks:
//! single ones would fragment memory and keep it from being returned to the system.

use std::{
    cell::{Cell, UnsafeCell},
    ffi::{CStr, c_int},
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, ffi as sqlite};

use crate::{
    image::{Image, Limits},
    temp::Budget,
};

/// Returns `failed` if `f` panics.
pub(super) fn guard(failed: c_int, f: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(failed)
}

/// The name that stays registered.
const SHARED_NAME: &CStr = c"steadfast";

/// The name of every main file. The VFS determines the database.
const FILE_NAME: &str = "object.db";

/// Slots made at once.
const BLOCK: usize = 64;

static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());
static MADE: AtomicUsize = AtomicUsize::new(0);
static SHARED: OnceLock<&'static Slot> = OnceLock::new();

thread_local! {
    /// The slot whose attached temporary database is opened next on this thread.
    static ATTACHING: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}

/// One VFS, and the files that its connection opens.
pub(super) struct Slot {
    vfs: UnsafeCell<sqlite::sqlite3_vfs>,
    /// The name under which it is registered while a connection is opened; it ends with a zero.
    name: [u8; 32],
    /// SQL can no longer change the pragmas.
    settings_are_fixed: AtomicBool,
    owner: Mutex<Owner>,
}

#[derive(Default)]
struct Owner {
    /// The database to open as the main file, once.
    pending: Option<(Arc<Image>, Arc<Lease>)>,
    /// The budget of its temporary files.
    budget: Option<Arc<Budget>>,
}

// SAFETY: SQLite reads `vfs` and, while it is registered, links it under its own lock. We write to
// it only in `Slot::block`, before there are other references, and its name in `open`, while the
// slot is leased to that call alone: the previous connection has at most to finish closing, for
// which SQLite does not read the name. All else is atomic or locked.
unsafe impl Sync for Slot {}

// SAFETY: the raw pointers in `vfs` point to the slot itself, to its names, and to structures that
// SQLite has linked; none of them belongs to a thread.
unsafe impl Send for Slot {}

impl Slot {
    /// A slot without its own address.
    fn new(methods: sqlite::sqlite3_vfs, number: usize) -> Self {
        let mut name = [0; 32];
        let (text, shared) = (&mut name[..31], SHARED_NAME.to_string_lossy());
        // It is long enough for every number.
        let _ = write!(&mut *text, "{shared}-{number}");
        Self {
            vfs: UnsafeCell::new(methods),
            name,
            settings_are_fixed: AtomicBool::new(false),
            owner: Mutex::default(),
        }
    }

    /// New slots.
    fn block(methods: sqlite::sqlite3_vfs, count: usize) -> &'static [Self] {
        let first = MADE.fetch_add(count, Ordering::Relaxed);
        let slots = (first..first + count).map(|it| Self::new(methods, it));
        let block: &'static [Self] = Vec::leak(slots.collect());
        for slot in block {
            // SAFETY: the slot was created just now, and there is no other reference.
            unsafe {
                let vfs = slot.vfs.get();
                (*vfs).pAppData = std::ptr::from_ref(slot).cast_mut().cast();
                (*vfs).zName = slot.name.as_ptr().cast();
            }
        }
        block
    }

    /// The slot that a VFS is part of.
    ///
    /// # Safety
    /// `vfs` must be the VFS of a slot.
    pub(super) unsafe fn of(vfs: *mut sqlite::sqlite3_vfs) -> &'static Self {
        // SAFETY: `Slot::block` sets this field to the slot, which is never freed, and it is not
        // written again.
        unsafe { &*(*vfs).pAppData.cast::<Self>() }
    }

    /// The database that this slot's connection is being opened for.
    pub(super) fn take_pending(&self) -> Option<(Arc<Image>, Arc<Lease>)> {
        self.owner.lock().pending.take()
    }

    /// The budget of a new temporary file.
    pub(super) fn budget(&self) -> Arc<Budget> {
        let of_attached = || ATTACHING.get().and_then(|slot| slot.owner.lock().budget.clone());
        let own = self.owner.lock().budget.clone();
        own.or_else(of_attached).unwrap_or_else(|| Budget::new(Limits::default().temp_bytes_max))
    }
}

/// Records that a temporary database is about to be attached on this thread. Its VFS is looked up
/// by name, so this is how its budget is found.
pub(super) fn note_attach(slot: &'static Slot) {
    ATTACHING.set(Some(slot));
}

/// The use of a slot by one connection.
pub(crate) struct Lease {
    slot: &'static Slot,
}

impl Lease {
    fn take(methods: sqlite::sqlite3_vfs) -> Arc<Self> {
        let mut free = FREE.lock();
        let slot = free.pop().unwrap_or_else(|| {
            let block = Slot::block(methods, BLOCK);
            free.extend(&block[1..]);
            &block[0]
        });
        Arc::new(Self { slot })
    }

    pub(super) fn slot(&self) -> &'static Slot {
        self.slot
    }

    /// From now on SQL cannot change the pragmas.
    pub(crate) fn fix_settings(&self) {
        self.slot.settings_are_fixed.store(true, Ordering::Release);
    }

    pub(super) fn has_fixed_settings(&self) -> bool {
        self.slot.settings_are_fixed.load(Ordering::Acquire)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slot.settings_are_fixed.store(false, Ordering::Release);
        *self.slot.owner.lock() = Owner::default();
        FREE.lock().push(self.slot);
    }
}

/// Opens the image with a slot of its own, whose VFS has these methods. The main file keeps the
/// lease until it is closed.
pub(super) fn open(
    image: &Arc<Image>,
    methods: sqlite::sqlite3_vfs,
) -> rusqlite::Result<(Connection, Arc<Lease>)> {
    register_shared(methods)?;
    let lease = Lease::take(methods);
    let slot = lease.slot;
    *slot.owner.lock() = Owner {
        pending: Some((Arc::clone(image), Arc::clone(&lease))),
        budget: Some(Budget::new(image.limits.temp_bytes_max)),
    };
    let vfs = slot.vfs.get();
    // SAFETY: the lease is ours alone, so no connection uses the slot, and it is not registered.
    // The name lives as long as the slot: for ever. No two slots have the same name.
    let registered = unsafe {
        (*vfs).zName = slot.name.as_ptr().cast();
        sqlite::sqlite3_vfs_register(vfs, 0)
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let name = CStr::from_bytes_until_nul(&slot.name).unwrap_or_default();
    let opened = check(registered)
        .and_then(|()| Connection::open_with_flags_and_vfs(FILE_NAME, flags, name));
    // SAFETY: as above; the connection, if there is one, has not left this function. It keeps the
    // pointer to the VFS, and from now on looks up the shared one by name.
    unsafe {
        sqlite::sqlite3_vfs_unregister(vfs);
        (*vfs).zName = SHARED_NAME.as_ptr();
    }
    slot.owner.lock().pending = None;
    Ok((opened?, lease))
}

fn register_shared(methods: sqlite::sqlite3_vfs) -> rusqlite::Result<()> {
    if SHARED.get().is_some() {
        return Ok(());
    }
    // The lock ensures that it is created and registered once.
    let _free = FREE.lock();
    if SHARED.get().is_none() {
        let slot = &Slot::block(methods, 1)[0];
        // SAFETY: the VFS is complete and never freed, there is no other reference yet, and its
        // name is unique.
        check(unsafe {
            (*slot.vfs.get()).zName = SHARED_NAME.as_ptr();
            sqlite::sqlite3_vfs_register(slot.vfs.get(), 0)
        })?;
        let _ = SHARED.set(slot);
    }
    Ok(())
}

fn check(code: c_int) -> rusqlite::Result<()> {
    if code == sqlite::SQLITE_OK {
        Ok(())
    } else {
        Err(rusqlite::Error::SqliteFailure(sqlite::Error::new(code), None))
    }
}
