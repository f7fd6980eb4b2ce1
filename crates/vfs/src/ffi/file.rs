//! The functions of an open file: the main one is the image, all others are temporary.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr, slice,
    sync::Arc,
};

use rusqlite::ffi as sqlite;

use super::slot::{Lease, guard};
use crate::{
    image::{Image, Refusal},
    source::PAGE_SIZE,
    temp::TempFile,
};

/// Changing one of these would move the database out of the image, or beyond its limits.
const FIXED_PRAGMAS: [&str; 5] =
    ["journal_mode", "locking_mode", "page_size", "temp_store", "max_page_count"];

/// The memory that SQLite allocates for a file: its own part first.
#[repr(C)]
pub(super) struct File {
    base: sqlite::sqlite3_file,
    handle: *mut Handle,
}

pub(super) enum Handle {
    Main(Main),
    Temp(TempFile),
}

/// The one main file of an image.
pub(super) struct Main {
    image: Arc<Image>,
    lease: Arc<Lease>,
}

impl Main {
    /// `None` if the image is connected already.
    pub(super) fn new(image: Arc<Image>, lease: Arc<Lease>) -> Option<Self> {
        if image.occupy() { Some(Self { image, lease }) } else { None }
    }
}

impl Drop for Main {
    fn drop(&mut self) {
        self.image.vacate();
    }
}

static METHODS: sqlite::sqlite3_io_methods = sqlite::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(nothing),
    xFileSize: Some(file_size),
    xLock: Some(nothing),
    xUnlock: Some(nothing),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Makes a file that is not open.
///
/// # Safety
/// `out` must have room for a [`File`].
pub(super) unsafe fn clear(out: *mut sqlite::sqlite3_file) {
    let base = sqlite::sqlite3_file { pMethods: ptr::null() };
    // SAFETY: the caller guarantees the size.
    unsafe { out.cast::<File>().write(File { base, handle: ptr::null_mut() }) };
}

/// Makes an open file.
///
/// # Safety
/// `out` must have room for a [`File`], and nothing open in it.
pub(super) unsafe fn put(out: *mut sqlite::sqlite3_file, handle: Handle) {
    let base = sqlite::sqlite3_file { pMethods: &raw const METHODS };
    let handle = Box::into_raw(Box::new(handle));
    // SAFETY: the caller guarantees the size.
    unsafe { out.cast::<File>().write(File { base, handle }) };
}

/// The handle of an open file.
///
/// # Safety
/// `file` must have been made by [`put`] and not be closed while the handle is used.
unsafe fn handle<'a>(file: *mut sqlite::sqlite3_file) -> &'a Handle {
    // SAFETY: `put` wrote a handle of a box, which only `close` takes back. There is no mutable
    // reference.
    unsafe { &*(*file.cast::<File>()).handle }
}

unsafe extern "C" fn close(file: *mut sqlite::sqlite3_file) -> c_int {
    let file = file.cast::<File>();
    guard(sqlite::SQLITE_OK, || {
        // SAFETY: SQLite closes an open file once and does not use it afterwards. The handle is the
        // box that `put` gave away; it is null from here on.
        unsafe {
            let handle = ptr::replace(&raw mut (*file).handle, ptr::null_mut());
            (*file).base.pMethods = ptr::null();
            if !handle.is_null() {
                drop(Box::from_raw(handle));
            }
        }
        sqlite::SQLITE_OK
    })
}

unsafe extern "C" fn read(
    file: *mut sqlite::sqlite3_file,
    out: *mut c_void,
    amount: c_int,
    offset: sqlite::sqlite3_int64,
) -> c_int {
    guard(sqlite::SQLITE_IOERR_READ, || {
        let (Ok(amount), Ok(offset)) = (usize::try_from(amount), u64::try_from(offset)) else {
            return sqlite::SQLITE_IOERR_READ;
        };
        // SAFETY: SQLite passes an open file, and `amount` bytes to fill without other references.
        // They may be uninitialised, so they are zeroed first.
        let (handle, out) = unsafe {
            out.cast::<u8>().write_bytes(0, amount);
            (handle(file), slice::from_raw_parts_mut(out.cast::<u8>(), amount))
        };
        let complete = match handle {
            Handle::Main(main) => main.image.read(offset, out),
            Handle::Temp(temp) => Ok(temp.read(offset, out)),
        };
        match complete {
            Ok(true) => sqlite::SQLITE_OK,
            Ok(false) => sqlite::SQLITE_IOERR_SHORT_READ,
            Err(refusal) => answer(Err(refusal), sqlite::SQLITE_IOERR_READ),
        }
    })
}

unsafe extern "C" fn write(
    file: *mut sqlite::sqlite3_file,
    bytes: *const c_void,
    amount: c_int,
    offset: sqlite::sqlite3_int64,
) -> c_int {
    guard(sqlite::SQLITE_IOERR_WRITE, || {
        let (Ok(amount), Ok(offset)) = (usize::try_from(amount), u64::try_from(offset)) else {
            return sqlite::SQLITE_IOERR_WRITE;
        };
        // SAFETY: SQLite passes an open file, and `amount` bytes that it leaves alone meanwhile.
        let (handle, bytes) =
            unsafe { (handle(file), slice::from_raw_parts(bytes.cast::<u8>(), amount)) };
        let written = match handle {
            Handle::Main(main) => main.image.write(offset, bytes),
            Handle::Temp(temp) => temp.write(offset, bytes),
        };
        answer(written, sqlite::SQLITE_IOERR_WRITE)
    })
}

unsafe extern "C" fn truncate(
    file: *mut sqlite::sqlite3_file,
    size: sqlite::sqlite3_int64,
) -> c_int {
    guard(sqlite::SQLITE_IOERR_TRUNCATE, || {
        let Ok(size) = u64::try_from(size) else { return sqlite::SQLITE_IOERR_TRUNCATE };
        // SAFETY: SQLite passes an open file.
        let truncated = match unsafe { handle(file) } {
            Handle::Main(main) => main.image.truncate(size),
            Handle::Temp(temp) => {
                temp.truncate(size);
                Ok(())
            }
        };
        answer(truncated, sqlite::SQLITE_IOERR_TRUNCATE)
    })
}

fn answer(result: Result<(), Refusal>, failed: c_int) -> c_int {
    match result {
        Ok(()) => sqlite::SQLITE_OK,
        Err(Refusal::Full) => sqlite::SQLITE_FULL,
        Err(Refusal::Unaligned | Refusal::NotLoaded) => failed,
    }
}

unsafe extern "C" fn file_size(
    file: *mut sqlite::sqlite3_file,
    out: *mut sqlite::sqlite3_int64,
) -> c_int {
    guard(sqlite::SQLITE_IOERR_FSTAT, || {
        // SAFETY: SQLite passes an open file.
        let size = match unsafe { handle(file) } {
            Handle::Main(main) => main.image.size(),
            Handle::Temp(temp) => temp.size(),
        };
        // SAFETY: SQLite passes a valid pointer for the result.
        unsafe { *out = size as i64 };
        sqlite::SQLITE_OK
    })
}

/// Syncing and locking: nothing is on a disk, and there is one connection.
unsafe extern "C" fn nothing(_: *mut sqlite::sqlite3_file, _: c_int) -> c_int {
    sqlite::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut sqlite::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite passes a valid pointer for the result.
    unsafe { *out = 0 };
    sqlite::SQLITE_OK
}

/// Refuses to change a fixed pragma. SQLite calls this before it changes one.
unsafe extern "C" fn file_control(
    file: *mut sqlite::sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    if operation != sqlite::SQLITE_FCNTL_PRAGMA {
        return sqlite::SQLITE_NOTFOUND;
    }
    guard(sqlite::SQLITE_ERROR, || {
        // SAFETY: SQLite passes an open file.
        let Handle::Main(main) = (unsafe { handle(file) }) else { return sqlite::SQLITE_NOTFOUND };
        let strings = argument.cast::<*mut c_char>();
        // SAFETY: for this operation SQLite passes three strings: place for a message that it will
        // free, the name, and the value or null.
        let fixed = unsafe {
            let (name, value) = (*strings.add(1), *strings.add(2));
            let name = CStr::from_ptr(name).to_bytes();
            !value.is_null()
                && FIXED_PRAGMAS.iter().any(|fixed| fixed.as_bytes().eq_ignore_ascii_case(name))
        };
        if !fixed || !main.lease.has_fixed_settings() {
            return sqlite::SQLITE_NOTFOUND;
        }
        // SAFETY: the format has no arguments, and the message is from SQLite's own allocator.
        unsafe { *strings = sqlite::sqlite3_mprintf(c"this pragma is fixed".as_ptr()) };
        sqlite::SQLITE_ERROR
    })
}

unsafe extern "C" fn sector_size(_: *mut sqlite::sqlite3_file) -> c_int {
    PAGE_SIZE as c_int
}

unsafe extern "C" fn device_characteristics(_: *mut sqlite::sqlite3_file) -> c_int {
    0
}
