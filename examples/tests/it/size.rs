//! Examples stay small enough to be read in one go.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn sources(folder: &Path) -> Vec<(PathBuf, usize)> {
    let entries = fs::read_dir(folder).expect("the folder is readable");
    let paths = entries.map(|it| it.expect("an entry").path());
    let sources = paths.filter(|it| it.extension().is_some_and(|it| it == "rs"));
    let lines = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("the file is text");
        (path, text.lines().count())
    };
    sources.map(lines).collect()
}

#[test]
fn each_example_has_at_most_60_lines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let examples = sources(folder);
    assert_eq!(examples.len(), 8, "{examples:?}");
    for (path, lines) in &examples {
        assert!(*lines <= 60, "{} has {lines} lines", path.display());
    }
}

#[test]
fn the_auction_has_at_most_350_lines_with_its_tests() {
    let auction = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("auction"));
    let lines: usize = auction.iter().map(|it| it.1).sum();
    assert!(lines <= 350, "{lines} lines: {auction:?}");
}
