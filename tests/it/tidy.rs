//! House rules about files that no lint checks.

use std::{
    fs,
    path::{Path, PathBuf},
};

const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 100;

/// The root of the repository is a closed list: no plans, reports or notes.
const ROOT: &[&str] = &[
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    // Hosting sites show reporters the way by this name in the root.
    "SECURITY.md",
    "apps",
    "bench",
    "clippy.toml",
    "crates",
    "deny.toml",
    "docs",
    "examples",
    "rustfmt.toml",
    "steadfast",
    "test",
    "tests",
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every text file of ours below a folder.
pub(crate) fn texts(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("folder is readable") {
        let path = entry.expect("entry is readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || ["target", "data", "node_modules"].contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            texts(&path, found);
        } else if path
            .extension()
            .is_some_and(|it| ["rs", "md", "sql", "css", "js"].contains(&&*it.to_string_lossy()))
        {
            let text = fs::read_to_string(&path).expect("file is UTF-8");
            found.push((path, text));
        }
    }
}

#[test]
fn files_are_short_lines_fit_and_nothing_trails() {
    let mut found = Vec::new();
    texts(&root(), &mut found);
    let mut complaints = Vec::new();
    for (path, text) in &found {
        let rust = path.extension().is_some_and(|it| it == "rs");
        let lines = text.lines().count();
        if rust && LINES_MAX < lines {
            complaints.push(format!("{}: {lines} lines, limit {LINES_MAX}", path.display()));
        }
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if rust && COLUMNS_MAX < columns && !line.contains("#[error(") {
                complaints.push(format!("{}:{}: {columns} columns", path.display(), index + 1));
            }
            if line.ends_with([' ', '\t']) {
                complaints.push(format!("{}:{}: space at line end", path.display(), index + 1));
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn the_root_has_the_listed_files_and_nothing_else() {
    let mut names: Vec<String> = fs::read_dir(root())
        .expect("root is readable")
        .map(|it| it.expect("entry").file_name().to_string_lossy().into_owned())
        .filter(|it| !it.starts_with('.') && !["target", "data"].contains(&&**it))
        .collect();
    names.sort();
    assert_eq!(names, ROOT);
}

#[test]
fn dependencies_point_downwards() {
    // From the bottom to the top: each may depend on those before it.
    let order = [
        ("crates/vfs", "steadfast-vfs"),
        ("crates/store", "steadfast-store"),
        ("crates/bucket", "steadfast-bucket"),
        ("crates/s3", "steadfast-s3"),
        ("crates/egress", "steadfast-egress"),
        ("crates/images", "steadfast-images"),
        ("crates/resnet", "steadfast-resnet"),
        ("crates/core", "steadfast-core"),
        ("crates/api", "steadfast-api"),
        ("crates/web", "steadfast-web"),
        ("crates/server", "steadfast-server"),
        ("crates/steadfast", "steadfast"),
        ("apps/chat", "steadfast-chat"),
        ("apps/checkout", "steadfast-checkout"),
        ("apps/counter", "steadfast-counter"),
        ("apps/drift", "steadfast-drift"),
        ("apps/generations", "steadfast-generations"),
        ("apps/mail", "steadfast-mail"),
        ("apps/order", "steadfast-order"),
        ("apps/uploads", "steadfast-uploads"),
        ("examples", "steadfast-examples"),
        ("steadfast", "steadfast-bin"),
        ("bench", "steadfast-bench"),
    ];
    let members = ["apps", "crates"].iter().flat_map(|it| {
        let folders = fs::read_dir(root().join(it)).expect("a folder");
        folders.map(move |entry| format!("{it}/{}", entry.expect("a name").file_name().display()))
    });
    for member in members {
        assert!(order.iter().any(|it| it.0 == member), "{member} has no place in the order");
    }
    for (level, (folder, _)) in order.iter().enumerate() {
        let manifest =
            fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("manifest");
        let (_, dependencies) = manifest.split_once("[dependencies]").expect("dependencies");
        let dependencies = dependencies.split("[dev-dependencies]").next().unwrap_or_default();
        for (_, upper) in &order[level..] {
            let known = dependencies
                .lines()
                .any(|it| it.strip_prefix(upper).is_some_and(|rest| rest.starts_with([' ', '.'])));
            assert!(!known, "{folder} knows {upper}");
        }
    }
}

/// Whether a line of code compares two texts of which one is a secret.
fn compares_secrets(line: &str) -> bool {
    let is_secret = |operand: &str| {
        let operand = operand.trim_matches([' ', '&', '*', '(', ')', ';', ',', '{']);
        let name = operand.rsplit([' ', '.', '&', '(']).next().unwrap_or_default();
        ["expose", "secret", "signature"].contains(&name)
    };
    let halves = line.split_once(" == ").or_else(|| line.split_once(" != "));
    let code = !line.trim_start().starts_with("//");
    code && halves.is_some_and(|(left, right)| {
        is_secret(left) || is_secret(right.split(" && ").next().unwrap_or(right))
    })
}

/// Tokens, sessions and links are found by their hashes; `Secret`, HMAC and the S3 library compare
/// in constant time. A comparison of two texts would not.
#[test]
fn no_comparison_of_secrets_depends_on_their_bytes() {
    for bad in
        ["if key.secret.expose() == given {", "it.secret != *other.secret", "a == signature;"]
    {
        assert!(compares_secrets(bad), "{bad}");
    }
    assert!(!compares_secrets("if secret.len() != LEN || true {"));
    let mut all = Vec::new();
    for folder in ["crates", "apps"] {
        texts(&root().join(folder), &mut all);
    }
    let is_code = |path: &Path| {
        let is_test = path.components().any(|it| it.as_os_str() == "tests");
        path.extension().is_some_and(|it| it == "rs") && !is_test
    };
    let mut found = Vec::new();
    for (path, text) in all.iter().filter(|it| is_code(&it.0)) {
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let bad = code.lines().filter(|it| compares_secrets(it));
        found.extend(bad.map(|it| format!("{}: {}", path.display(), it.trim())));
    }
    assert!(found.is_empty(), "compare with `Secret`, or find by a hash: {found:#?}");
}

#[test]
fn documents_have_one_title() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"] {
        let text = fs::read_to_string(root().join(name)).expect(name);
        let mut code = false;
        let titles = text.lines().filter(|line| {
            code ^= line.starts_with("```");
            !code && line.starts_with("# ")
        });
        assert_eq!(titles.count(), 1, "{name}");
    }
}
