//! Links of the documents lead somewhere, and the README says where the code is.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use crate::tidy::{root, texts};

/// A document with the lines of its prose: neither blocks of code nor code in a line.
struct Document {
    path: PathBuf,
    prose: Vec<(usize, String)>,
}

impl Document {
    fn new(path: PathBuf, text: &str) -> Self {
        let (mut is_code, mut prose) = (false, Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if !is_code {
                prose.push((number, line.to_owned()));
            }
        }
        Self { path, prose }
    }

    /// The targets of its links and pictures, each with its line.
    fn links(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (number, line) in &self.prose {
            // The text of a link may be code; its target is not.
            let line: String = line.split('`').step_by(2).collect();
            let targets = line.split("](").skip(1).filter_map(|it| it.split(')').next());
            found.extend(targets.map(|it| (*number, it.to_owned())));
        }
        found
    }

    /// The anchors of its headings, as GitHub makes them.
    fn anchors(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (_, line) in self.prose.iter().filter(|it| it.1.starts_with('#')) {
            let slug = slug(line.trim_start_matches('#').trim());
            let numbered = (1..).map(|it| format!("{slug}-{it}"));
            let mut names = std::iter::once(slug.clone()).chain(numbered);
            found.extend(names.find(|it| !found.contains(it)));
        }
        found
    }
}

fn slug(heading: &str) -> String {
    let letter = |it: char| match it {
        ' ' => Some('-'),
        '-' | '_' => Some(it),
        _ => it.is_alphanumeric().then(|| it.to_ascii_lowercase()),
    };
    heading.chars().filter_map(letter).collect()
}

/// Why a link of a document leads nowhere.
fn problem(document: &Document, target: &str) -> Option<String> {
    if target.starts_with("http://") || target.starts_with("https://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |it| (it.0, Some(it.1)));
    let file = document.path.parent().unwrap_or(Path::new(".")).join(path);
    if !path.is_empty() && !file.exists() {
        return Some(format!("there is no {path}"));
    }
    let anchor = anchor?;
    let anchors = match (path, fs::read_to_string(&file)) {
        ("", _) => document.anchors(),
        (_, Ok(text)) => Document::new(file, &text).anchors(),
        (_, Err(_)) => BTreeSet::new(),
    };
    (!anchors.contains(anchor)).then(|| format!("{path} has no heading #{anchor}"))
}

fn documents() -> Vec<Document> {
    let mut found = Vec::new();
    texts(&root(), &mut found);
    let documents = found.into_iter().filter(|it| it.0.extension().is_some_and(|it| it == "md"));
    documents.map(|(path, text)| Document::new(path, &text)).collect()
}

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let (mut complaints, mut count) = (Vec::new(), 0);
    for document in documents() {
        for (line, target) in document.links() {
            count += 1;
            if let Some(problem) = problem(&document, &target) {
                complaints.push(format!("{}:{line}: {problem}", document.path.display()));
            }
        }
    }
    assert!(100 < count, "{count} links are found: look at how they are read");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let text = concat!(
        "# A title: `code`, and more\n## Twice\n## Twice\n",
        "[a](README.md) ![b](no.png) [`c`](#a-title-code-and-more) [d](#twice-1)\n",
        "[e](README.md#nothing) `[f](code.md)` [g](https://example.org/)\n",
        "```\n[h](block.md)\n```\n",
    );
    let document = Document::new(root().join("example.md"), text);
    let links = document.links();
    let is_bad = |it: &&(usize, String)| problem(&document, &it.1).is_some();
    let bad: Vec<&str> = links.iter().filter(is_bad).map(|it| it.1.as_str()).collect();
    assert_eq!((links.len(), bad), (6, vec!["no.png", "README.md#nothing"]));
}

/// The heads of the table in the README that says where the code is.
const FIND_IT: &str = "| To find | Look at |";

#[test]
fn the_functions_that_the_readme_names_are_in_their_files() {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let rows = readme.split(FIND_IT).nth(1).expect("the table");
    let rows: Vec<&str> = rows.lines().skip(2).take_while(|it| it.starts_with('|')).collect();
    assert_eq!(rows.len(), 6, "{rows:?}");
    for row in rows {
        let (mut names, mut files) = (Vec::new(), 0);
        for code in row.split('`').skip(1).step_by(2) {
            if !code.contains('/') {
                names.push(code);
                continue;
            }
            files += 1;
            let text = fs::read_to_string(root().join(code)).expect(code);
            assert!(!names.is_empty(), "{code} without a name in {row}");
            for name in names.drain(..) {
                let is_type = name.starts_with(char::is_uppercase);
                let declared = if is_type { ["struct ", "impl "] } else { ["fn ", "async fn "] };
                let ends = ["(", "<", " "];
                let is_there = declared.iter().any(|before| {
                    ends.iter().any(|end| text.contains(&format!("{before}{name}{end}")))
                });
                assert!(is_there, "{code} has no `{name}`");
            }
        }
        assert!(0 < files && names.is_empty(), "no file in {row}");
    }
}
