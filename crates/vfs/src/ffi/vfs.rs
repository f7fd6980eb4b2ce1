//! The functions of a VFS: opening files, and the time.

use std::{
    cell::Cell,
    ffi::{CStr, c_char, c_int, c_void},
};

use rusqlite::ffi as sqlite;

use super::{
    file,
    slot::{Slot, guard},
};
use crate::temp::TempFile;

/// The start of 1970 in SQLite's day count, in milliseconds.
const EPOCH_MS: i64 = 210_866_760_000_000;
const DAY_MS: f64 = 86_400_000.0;

thread_local! {
    /// The time that [`at_time`] has set, in milliseconds since 1970.
    static NOW: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Restores the previous value, on unwinding too.
struct Restore(Option<i64>);

impl Drop for Restore {
    fn drop(&mut self) {
        NOW.set(self.0);
    }
}

/// Runs `f`; SQL on an [`Image`](crate::Image) inside it returns this as 'now':
/// `CURRENT_TIMESTAMP`, `datetime('now')`, `unixepoch()`. It applies to this thread.
pub fn at_time<R>(unix_ms: i64, f: impl FnOnce() -> R) -> R {
    let _restore = Restore(NOW.replace(Some(unix_ms)));
    f()
}

/// A VFS that lacks its name and its slot.
pub(super) const METHODS: sqlite::sqlite3_vfs = sqlite::sqlite3_vfs {
    iVersion: 2,
    szOsFile: size_of::<file::File>() as c_int,
    mxPathname: 128,
    pNext: std::ptr::null_mut(),
    zName: std::ptr::null(),
    pAppData: std::ptr::null_mut(),
    xOpen: Some(open),
    xDelete: Some(delete),
    xAccess: Some(access),
    xFullPathname: Some(full_pathname),
    xDlOpen: Some(dl_open),
    xDlError: Some(dl_error),
    xDlSym: None,
    xDlClose: None,
    xRandomness: Some(randomness),
    xSleep: Some(sleep),
    xCurrentTime: Some(current_time),
    xGetLastError: None,
    xCurrentTimeInt64: Some(current_time_ms),
    xSetSystemCall: None,
    xGetSystemCall: None,
    xNextSystemCall: None,
};

/// SQLite calls this with a buffer for a [`file::File`], because of `szOsFile`.
unsafe extern "C" fn open(
    vfs: *mut sqlite::sqlite3_vfs,
    _name: sqlite::sqlite3_filename,
    out: *mut sqlite::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    const TEMPORARY: c_int = sqlite::SQLITE_OPEN_TEMP_DB
        | sqlite::SQLITE_OPEN_TRANSIENT_DB
        | sqlite::SQLITE_OPEN_TEMP_JOURNAL
        | sqlite::SQLITE_OPEN_SUBJOURNAL;
    // SAFETY: `out` has the size of a file. Until it is open it has no methods, so that SQLite does
    // not close it.
    unsafe { file::clear(out) };
    guard(sqlite::SQLITE_IOERR, || {
        // SAFETY: this function is only in the VFS of slots.
        let slot = unsafe { Slot::of(vfs) };
        let handle = if flags & sqlite::SQLITE_OPEN_MAIN_DB != 0 {
            let Some((image, lease)) = slot.take_pending() else { return sqlite::SQLITE_CANTOPEN };
            let Some(main) = file::Main::new(image, lease) else { return sqlite::SQLITE_BUSY };
            file::Handle::Main(main)
        } else if flags & TEMPORARY != 0 {
            file::Handle::Temp(TempFile::new(slot.budget()))
        } else {
            // A journal or a log on disk: never needed, since journals are in memory.
            return sqlite::SQLITE_CANTOPEN;
        };
        // SAFETY: `out` has the size of a file; `out_flags` is null or points to an int.
        unsafe {
            file::put(out, handle);
            if let Some(out_flags) = out_flags.as_mut() {
                *out_flags = flags;
            }
        }
        sqlite::SQLITE_OK
    })
}

unsafe extern "C" fn delete(_: *mut sqlite::sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
    sqlite::SQLITE_OK
}

/// Nothing else exists: no journal to recover from.
unsafe extern "C" fn access(
    _: *mut sqlite::sqlite3_vfs,
    _: *const c_char,
    _: c_int,
    found: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a valid pointer for the result.
    unsafe { *found = 0 };
    sqlite::SQLITE_OK
}

unsafe extern "C" fn full_pathname(
    _: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a C string, and `room` bytes to write it to, which do not overlap.
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        if bytes.len() > room.max(0) as usize {
            return sqlite::SQLITE_CANTOPEN;
        }
        out.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
    }
    sqlite::SQLITE_OK
}

/// No extension is ever loaded.
unsafe extern "C" fn dl_open(_: *mut sqlite::sqlite3_vfs, _: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

unsafe extern "C" fn dl_error(_: *mut sqlite::sqlite3_vfs, room: c_int, out: *mut c_char) {
    if room > 0 {
        // SAFETY: SQLite passes `room` bytes, at least one.
        unsafe { *out = 0 };
    }
}

/// The default VFS of SQLite.
fn system() -> *mut sqlite::sqlite3_vfs {
    // SAFETY: null selects the default, which is never one of ours.
    unsafe { sqlite::sqlite3_vfs_find(std::ptr::null()) }
}

unsafe extern "C" fn randomness(
    _: *mut sqlite::sqlite3_vfs,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    let system = system();
    // SAFETY: the default VFS, if there is one, stays registered; its own arguments are passed on.
    unsafe {
        match system.as_ref().and_then(|vfs| vfs.xRandomness) {
            Some(randomness) => randomness(system, room, out),
            None => 0,
        }
    }
}

unsafe extern "C" fn sleep(_: *mut sqlite::sqlite3_vfs, microseconds: c_int) -> c_int {
    let system = system();
    // SAFETY: the default VFS, if there is one, stays registered; its own argument is passed on.
    unsafe {
        match system.as_ref().and_then(|vfs| vfs.xSleep) {
            Some(sleep) => sleep(system, microseconds),
            None => 0,
        }
    }
}

unsafe extern "C" fn current_time_ms(
    _: *mut sqlite::sqlite3_vfs,
    out: *mut sqlite::sqlite3_int64,
) -> c_int {
    if let Some(unix_ms) = NOW.get() {
        // SAFETY: SQLite passes a valid pointer for the result.
        unsafe { *out = unix_ms.saturating_add(EPOCH_MS) };
        return sqlite::SQLITE_OK;
    }
    let system = system();
    // SAFETY: the default VFS, if there is one, stays registered; its own argument is passed on.
    unsafe {
        match system.as_ref().and_then(|vfs| vfs.xCurrentTimeInt64) {
            Some(time) => time(system, out),
            None => sqlite::SQLITE_ERROR,
        }
    }
}

unsafe extern "C" fn current_time(vfs: *mut sqlite::sqlite3_vfs, out: *mut f64) -> c_int {
    let mut milliseconds = 0;
    // SAFETY: both are valid: `vfs` was passed by SQLite, and the variable is local.
    let code = unsafe { current_time_ms(vfs, &raw mut milliseconds) };
    // SAFETY: SQLite passes a valid pointer for the result.
    unsafe { *out = milliseconds as f64 / DAY_MS };
    code
}
