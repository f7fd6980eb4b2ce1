//! Private files: only their owner may read and write them, whatever the umask is.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// The rights of others.
const OTHERS: u32 = 0o077;

/// Creates a private folder. An existing one does not change.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        // The umask may have removed rights of the owner.
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(0o700)),
        result => result,
    }
}

/// Opens a file to read and write; a new one is private.
pub fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Removes the rights of others on a folder and the files directly in it, if this user owns them,
/// and returns the changed paths. Deeper files need no change: others cannot enter the folder.
pub fn tighten(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut tightened = Vec::new();
    let mut look = |path: &Path| -> io::Result<()> {
        let found = fs::symlink_metadata(path)?;
        let is_ours = found.uid() == rustix::process::geteuid().as_raw();
        if is_ours && !found.is_symlink() && found.mode() & OTHERS != 0 {
            fs::set_permissions(path, Permissions::from_mode(found.mode() & 0o7777 & !OTHERS))?;
            tightened.push(path.to_owned());
        }
        Ok(())
    };
    look(folder)?;
    for entry in fs::read_dir(folder)? {
        match look(&entry?.path()) {
            // SQLite removes its log when the last connection is closed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(tightened)
}
