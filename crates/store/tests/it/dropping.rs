//! Operations whose callers go away: each is dropped after each of its first polls.
//!
//! [`check_areas`] reads the source: a new public operation must be added to one of the areas.

use std::{
    collections::BTreeMap,
    fs,
    future::{Future, poll_fn},
    path::Path,
    pin::pin,
    task::Poll,
};

/// Polls after which an operation is dropped: the first one, the first two, and so on.
const POLLS: usize = 50;

/// Comparisons until a difference is taken to last.
pub(crate) const ATTEMPTS: usize = 300;

/// Public asynchronous operations of a file.
pub(crate) struct Area {
    pub(crate) file: &'static str,
    /// Tried by the laws beside this list.
    pub(crate) tried: &'static [&'static str],
    /// They read or wait, or only call those of other areas.
    pub(crate) others: &'static [&'static str],
}

/// Polls an operation this often, and drops it. `None` if it has not ended.
pub(crate) async fn dropped<T>(polls: usize, operation: impl Future<Output = T>) -> Option<T> {
    let (mut operation, mut left) = (pin!(operation), polls);
    poll_fn(|context| {
        left -= 1;
        match operation.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Tries an operation with 1, 2, 3 polls, until it ends. The argument is that number.
pub(crate) async fn each<T>(try_once: impl AsyncFn(usize) -> Option<T>) {
    for polls in 1..=POLLS {
        if try_once(polls).await.is_some() {
            return;
        }
    }
}

/// Compares the operations of a package with those listed: in areas, or as whole files.
pub(crate) fn check_areas<'a>(
    package: &str,
    areas: impl Iterator<Item = &'a Area>,
    files: impl Iterator<Item = &'a &'static str>,
) {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    read(&Path::new(package).join("src"), "", &mut found);
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for area in areas {
        let names = area.tried.iter().chain(area.others);
        listed.entry(area.file.into()).or_default().extend(names.map(|it| (*it).to_owned()));
    }
    for file in files {
        let names = found.get(*file).cloned().unwrap_or_default();
        assert!(!names.is_empty() && listed.insert((*file).into(), names).is_none(), "{file}");
    }
    listed.values_mut().for_each(|it| it.sort_unstable());
    assert_eq!(found, listed, "found in the source, and listed in the areas");
}

/// The public asynchronous operations of each file of a folder.
fn read(folder: &Path, within: &str, found: &mut BTreeMap<String, Vec<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{within}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read(&entry.path(), &format!("{name}/"), found);
            continue;
        }
        let text = fs::read_to_string(entry.path()).unwrap();
        let begins = |it: &str| it.trim_start().strip_prefix("pub async fn ").map(str::to_owned);
        let until_name = |it: String| it.split(['(', '<']).next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = text.lines().filter_map(begins).map(until_name).collect();
        names.sort_unstable();
        if !names.is_empty() {
            found.insert(name, names);
        }
    }
}
