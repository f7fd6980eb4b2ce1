//! The arguments of `cp`: one of them is the file.

use std::path::{Path, PathBuf};

use steadfast_api::buckets::BlobPath;

use crate::failure::Failure;

fn blob(text: &str) -> Result<BlobPath, Failure> {
    text.parse().map_err(|error: String| Failure::new(error))
}

/// Parses `BUCKET/KEY`; after a slash at the end, the file name is added.
fn blob_for(text: &str, file: &Path) -> Result<BlobPath, Failure> {
    if !text.ends_with('/') {
        return blob(text);
    }
    let name = file.file_name().and_then(|it| it.to_str()).ok_or_else(|| {
        Failure::new(format!("{} has no name for a key; write BUCKET/KEY", file.display()))
    })?;
    blob(&format!("{text}{name}"))
}

/// The direction of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Into a bucket.
    In(PathBuf, BlobPath),
    /// Out of a bucket.
    Out(BlobPath, PathBuf),
}

impl Direction {
    /// Decides which argument is the file. If both could be, it is the first if it exists.
    pub(super) fn of(
        from: &str,
        to: &str,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Self, Failure> {
        match (is_path(from), is_path(to)) {
            (true, true) => Err(Failure::new(format!(
                "`{from}` and `{to}` are both files; write BUCKET/KEY for one of them"
            ))),
            (true, false) => Ok(Direction::In(from.into(), blob_for(to, from.as_ref())?)),
            (false, false) if is_there(from) => {
                Ok(Direction::In(from.into(), blob_for(to, from.as_ref())?))
            }
            (false, true | false) => Self::out(from, to),
        }
    }

    fn out(from: &str, to: &str) -> Result<Self, Failure> {
        let (blob_path, file) = (blob(from)?, PathBuf::from(to));
        if !to.ends_with('/') && !file.is_dir() {
            return Ok(Direction::Out(blob_path, file));
        }
        // Only the last segment: a key must not leave the folder.
        let name = blob_path.key.rsplit('/').next().unwrap_or_default();
        if ["", ".", ".."].contains(&name) || name.contains('\0') {
            let text = format!("key `{}` does not end with a name; name the file", blob_path.key);
            return Err(Failure::new(text));
        }
        let file = file.join(name);
        Ok(Direction::Out(blob_path, file))
    }
}

/// Whether the text can only be a file.
fn is_path(text: &str) -> bool {
    !text.contains('/') || ["/", "./", "../"].iter().any(|it| text.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob_path(bucket: &str, key: &str) -> BlobPath {
        BlobPath { bucket: bucket.into(), key: key.into() }
    }

    #[test]
    fn a_file_is_distinguished_from_a_key() {
        let direction =
            |from: &str, to: &str| Direction::of(from, to, |it| it == "pets/dog.png").ok();
        let into =
            |file: &str, key: &str| Some(Direction::In(file.into(), blob_path("photos", key)));
        let out =
            |key: &str, file: &str| Some(Direction::Out(blob_path("photos", key), file.into()));
        assert_eq!(direction("cat.png", "photos/2026/c.png"), into("cat.png", "2026/c.png"));
        assert_eq!(direction("/tmp/cat.png", "photos/"), into("/tmp/cat.png", "cat.png"));
        assert_eq!(direction("pets/dog.png", "photos/a/"), into("pets/dog.png", "a/dog.png"));
        assert_eq!(direction("photos/a.png", "a.png"), out("a.png", "a.png"));
        assert_eq!(direction("photos/a/b.png", "none/x.png"), out("a/b.png", "none/x.png"));
        assert_eq!(direction("photos//a", "./x/"), out("/a", "./x/a"));
        for (from, to) in [
            ("a.png", "b.png"),
            ("cat.png", "/etc/x"),
            ("photos/..", "./"),
            ("photos/a/", "./"),
            ("photos/a\0b", "./x/"),
            ("/", "photos/"),
        ] {
            assert_eq!(direction(from, to), None, "{from} {to}");
        }
    }
}
