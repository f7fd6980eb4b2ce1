//! The verb `new`: creates a project that compiles, runs, and has a test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use steadfast::{Error, Result, web::print};

/// Create a project with one object, one workflow and one test
#[derive(Clone, Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct NewArgs {
    /// Name of the program and of its folder
    #[arg(value_parser = name)]
    name: String,
    /// Checkout of Steadfast to depend on; by default the one that this program was built from
    #[arg(long, env = "STEADFAST_PATH", value_name = "DIR")]
    path: Option<PathBuf>,
}

const HELP: &str = "\
Examples:
  steadfast new auctions
  steadfast new auctions --path ../steadfast";

/// A file of a project, and its text.
const FILES: [(&str, &str); 4] = [
    ("Cargo.toml", include_str!("new/Cargo.toml.in")),
    ("src/main.rs", include_str!("new/main.rs.in")),
    ("Dockerfile", include_str!("new/Dockerfile.in")),
    ("{name}.service", include_str!("new/unit.service.in")),
];

/// Keywords, folders of cargo, dependencies of the project, and users of a system.
const TAKEN: &[&str] = &[
    "alloc",
    "async",
    "await",
    "bin",
    "build",
    "const",
    "core",
    "crate",
    "daemon",
    "deps",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "fn",
    "for",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "mail",
    "main",
    "match",
    "mod",
    "move",
    "mut",
    "nobody",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "root",
    "self",
    "serde",
    "static",
    "std",
    "steadfast",
    "struct",
    "super",
    "sys",
    "test",
    "tokio",
    "trait",
    "true",
    "type",
    "unsafe",
    "use",
    "where",
    "while",
];

/// Checks a name: it must be valid for cargo, systemd and a Linux user.
fn name(text: &str) -> Result<String, String> {
    let is_first = text.bytes().next().is_some_and(|it| it.is_ascii_lowercase());
    let is_letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    if !is_first || !text.bytes().all(is_letter) || 31 < text.len() || text.ends_with('-') {
        return Err("write 1 to 31 characters of a-z, 0-9 and -, beginning with a letter".into());
    }
    if TAKEN.contains(&text) {
        return Err("cargo or the system reserves this name; choose another one".into());
    }
    Ok(text.into())
}

/// Writes the project.
pub(crate) fn run(args: &NewArgs) -> Result<ExitCode> {
    let (name, folder) = (&args.name, Path::new(&args.name));
    // The library is not published yet.
    let built_from = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let path = args.path.as_deref().unwrap_or(built_from);
    let library = std::path::absolute(path.join("crates/steadfast"))?;
    if !library.join("Cargo.toml").is_file() {
        let path = path.display();
        return Err(Error::terminal(format!(
            "{path} is not a checkout of Steadfast: crates/steadfast is missing; \
             name a checkout with --path DIR"
        )));
    }
    let library = library.canonicalize()?;
    let library = format!("{{ path = {:?} }}", library.display().to_string());
    if folder.exists() {
        let text = format!("{name} already exists; choose another name, or move it");
        return Err(Error::terminal(text));
    }
    fs::create_dir_all(folder.join("src"))?;
    let filled = |text: &str| text.replace("{name}", name).replace("{steadfast}", &library);
    for (path, text) in FILES {
        fs::write(folder.join(filled(path)), filled(text))?;
    }
    fs::write(folder.join(".gitignore"), "/target\n/data\n")?;
    print(&format!("created project {name}\n\nNext:\n  cd {name}\n  cargo test\n  cargo run\n"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_name_is_valid_for_cargo_and_systemd() {
        for good in ["demo", "a", "auction-house-2"] {
            assert!(name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "Demo",
            "2fast",
            "-a",
            "a-",
            "a b",
            "a/b",
            "..",
            "test",
            "match",
            "root",
            &"a".repeat(32),
        ] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
