//! Secrets in files: a variable `NAME_FILE` names the file with the value of `NAME`.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The value of a secret setting.
#[derive(Clone)]
pub(crate) struct SecretFile {
    /// The variable that names the file.
    pub(crate) variable: String,
    pub(crate) path: PathBuf,
    pub(crate) value: String,
    /// Whether users outside of its group may read the file.
    pub(crate) is_open: bool,
}

/// Reads the file that the variable `NAME_FILE` names. Fails if both variables are set: nobody
/// could say which one counts.
pub(crate) fn secret_variable(
    name: &str,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<SecretFile>, String> {
    let file = format!("{name}_FILE");
    let value = |name: &str| variable(name).filter(|it| !it.is_empty());
    let Some(path) = value(&file).map(PathBuf::from) else { return Ok(None) };
    if value(name).is_some() {
        return Err(format!("{name} and {file} are both set; unset one of them"));
    }
    match read(&path) {
        Ok((value, is_open)) => Ok(Some(SecretFile { variable: file, path, value, is_open })),
        Err(error) => Err(format!("{file}: {} cannot be read: {error}", path.display())),
    }
}

/// The text of a file without one line end, and whether everybody may read it.
fn read(path: &Path) -> std::io::Result<(String, bool)> {
    let text = fs::read_to_string(path)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    Ok((line.to_owned(), is_open(path)))
}

/// Whether users outside of its group may read a file. It is no warning if the file is not there.
pub(crate) fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|it| it.permissions().mode() & 0o007 != 0)
}
