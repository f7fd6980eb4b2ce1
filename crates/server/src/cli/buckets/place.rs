//! Places that people name: `bucket/key`, or a file.

use std::path::{Path, PathBuf};
use steadfast_web::escaped;

use super::path_of;
use crate::failure::Failure;

/// A key in a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: String,
    pub(super) key: String,
}

impl Place {
    /// Reads `bucket/key`.
    pub(super) fn blob(text: &str) -> Result<Self, Failure> {
        match text.split_once('/') {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Self { bucket: bucket.into(), key: key.into() })
            }
            _ => Err(Failure::new(format!("`{text}` names no blob; write BUCKET/KEY"))),
        }
    }

    /// The same, where the end of the key may be left to the name of a file.
    fn blob_for(text: &str, file: &Path) -> Result<Self, Failure> {
        if !text.ends_with('/') {
            return Self::blob(text);
        }
        let name = file.file_name().and_then(|it| it.to_str()).ok_or_else(|| {
            Failure::new(format!("{} has no name for a key; write BUCKET/KEY", file.display()))
        })?;
        Self::blob(&format!("{text}{name}"))
    }

    /// Where the API has it.
    pub(super) fn path(&self) -> String {
        format!("{}/objects/{}", path_of(&self.bucket), escaped(&self.key))
    }
}

/// What is copied where.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Into a bucket.
    In(PathBuf, Place),
    /// Out of a bucket.
    Out(Place, PathBuf),
}

impl Way {
    /// Finds out which of two is the file. What can only be a file is one; of two that could be
    /// either, the first is if it is there.
    pub(super) fn of(
        from: &str,
        to: &str,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Self, Failure> {
        match (is_path(from), is_path(to)) {
            (true, true) => Err(Failure::new(format!(
                "`{from}` and `{to}` are both files; write BUCKET/KEY for one of them"
            ))),
            (true, false) => Ok(Way::In(from.into(), Place::blob_for(to, from.as_ref())?)),
            (false, false) if is_there(from) => {
                Ok(Way::In(from.into(), Place::blob_for(to, from.as_ref())?))
            }
            (false, true | false) => Self::out(from, to),
        }
    }

    fn out(from: &str, to: &str) -> Result<Self, Failure> {
        let (place, file) = (Place::blob(from)?, PathBuf::from(to));
        if !to.ends_with('/') && !file.is_dir() {
            return Ok(Way::Out(place, file));
        }
        // Only a name: what a key says must not lead out of the folder.
        let name = place.key.rsplit('/').next().unwrap_or_default();
        if ["", ".", ".."].contains(&name) || name.contains('\0') {
            let text = format!("key `{}` does not end with a name; name the file", place.key);
            return Err(Failure::new(text));
        }
        let file = file.join(name);
        Ok(Way::Out(place, file))
    }
}

/// Whether this can only be a file.
fn is_path(text: &str) -> bool {
    !text.contains('/') || ["/", "./", "../"].iter().any(|it| text.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(bucket: &str, key: &str) -> Place {
        Place { bucket: bucket.into(), key: key.into() }
    }

    #[test]
    fn a_file_is_told_from_a_key() {
        let way = |from: &str, to: &str| Way::of(from, to, |it| it == "pets/dog.png").ok();
        let into = |file: &str, key: &str| Some(Way::In(file.into(), place("photos", key)));
        let out = |key: &str, file: &str| Some(Way::Out(place("photos", key), file.into()));
        assert_eq!(way("cat.png", "photos/2026/c.png"), into("cat.png", "2026/c.png"));
        assert_eq!(way("/tmp/cat.png", "photos/"), into("/tmp/cat.png", "cat.png"));
        assert_eq!(way("pets/dog.png", "photos/a/"), into("pets/dog.png", "a/dog.png"));
        assert_eq!(way("photos/a.png", "a.png"), out("a.png", "a.png"));
        assert_eq!(way("photos/a/b.png", "none/x.png"), out("a/b.png", "none/x.png"));
        assert_eq!(way("photos//a", "./x/"), out("/a", "./x/a"));
        for (from, to) in [
            ("a.png", "b.png"),
            ("cat.png", "/etc/x"),
            ("photos/..", "./"),
            ("photos/a/", "./"),
            ("photos/a\0b", "./x/"),
            ("/", "photos/"),
        ] {
            assert_eq!(way(from, to), None, "{from} {to}");
        }
    }
}
