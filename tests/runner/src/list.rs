//! Which tests there are, as the built programs list them.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use serde_json::Value;

/// Tests that build a project: they take longest in a fresh clone.
const FIRST: &[&str] = &["documents::", "newcomer::"];

/// Test programs that start whole processes.
const WHOLE: &[&str] = &["steadfast::it", "tests::it", "examples::it"];

/// Tests in them that read the files of the repository, or what one process prints.
const HOUSE: &[&str] =
    &["claims::", "imports::", "links::", "reference::", "snapshots::", "tidy::", "words::"];

/// A program with tests.
pub(crate) struct Program {
    /// The folder of its package, and its name if it has one: `core::it`.
    name: String,
    pub(crate) file: PathBuf,
    pub(crate) folder: PathBuf,
}

#[derive(Clone)]
pub(crate) struct Test {
    pub(crate) program: Arc<Program>,
    pub(crate) name: String,
    /// Where it is in line among those of which nothing is known.
    pub(crate) order: usize,
    /// Whether it may end because there is no database.
    pub(crate) is_without_database: bool,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program.name, self.name)
    }
}

/// The tests that someone wants.
pub(crate) struct Choice {
    /// Whether only what is quick: no whole processes, and laws on one store.
    pub(crate) is_quick: bool,
    /// Parts of names. All tests if there is none.
    pub(crate) names: Vec<String>,
}

impl Choice {
    fn has(&self, test: &Test) -> bool {
        let name = test.to_string();
        let is_whole = WHOLE.contains(&test.program.name.as_str());
        let is_house = HOUSE.iter().any(|it| test.name.starts_with(it));
        if self.is_quick && (is_whole && !is_house || name.contains("postgres")) {
            return false;
        }
        self.names.is_empty() || self.names.iter().any(|it| name.contains(it.as_str()))
    }
}

/// The chosen tests of all programs that cargo has built.
pub(crate) fn tests(built: &str, choice: &Choice) -> io::Result<Vec<Test>> {
    let programs: Vec<_> = built.lines().filter_map(program).map(Arc::new).collect();
    let mut tests = Vec::new();
    for program in programs {
        let mut list = Command::new(&program.file);
        list.args(["--list", "--format", "terse"]).current_dir(&program.folder);
        let listed = list.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        if !listed.status.success() {
            return Err(io::Error::other(format!("{} does not list its tests", program.name)));
        }
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            let Some(name) = line.strip_suffix(": test") else { continue };
            let first = FIRST.iter().any(|it| name.starts_with(it));
            let whole = WHOLE.contains(&program.name.as_str());
            let order = usize::from(!first) + usize::from(!whole);
            let is_without_database = choice.is_quick;
            let test =
                Test { program: program.clone(), name: name.into(), order, is_without_database };
            if choice.has(&test) {
                tests.push(test);
            }
        }
    }
    Ok(tests)
}

/// A message of cargo, if it is about a program with tests.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let file = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = folder.file_name()?.to_str()?;
    let name = match message["target"]["kind"][0].as_str()? {
        "test" => format!("{package}::{}", message["target"]["name"].as_str()?),
        _ => package.to_owned(),
    };
    Some(Program { name, file, folder })
}
