//! Files that are nobody else's business: their owner may read and write them, others nothing,
//! whatever the umask says.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// What others may do.
const OTHERS: u32 = 0o077;

/// Makes a folder for us alone. One that is there stays as it is.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        // The umask may have taken rights of our own.
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(0o700)),
        result => result,
    }
}

/// Opens a file to read and write; it is made for us alone if it is not there.
pub fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Takes the rights of others on a folder and on what lies directly in it, as far as it is ours,
/// and says of what. Others do not get past the folder, so what lies deeper needs no look.
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
