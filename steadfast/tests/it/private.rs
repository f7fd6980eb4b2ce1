//! Only its owner has access to the data folder.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::{Server, steadfast};

/// A folder and everything in it, with the permissions of others.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mode = fs::symlink_metadata(folder).expect("it is there").permissions().mode() & 0o777;
    let mut all = vec![(folder.to_owned(), mode)];
    if folder.is_dir() {
        for entry in fs::read_dir(folder).expect("it can be read") {
            all.extend(modes(&entry.expect("it can be read").path()));
        }
    }
    all
}

fn assert_private(folder: &Path) {
    let all = modes(folder);
    let open: Vec<_> = all.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(4 < all.len() && open.is_empty(), "others may: {open:?}");
    assert_eq!(all[0].1, 0o700);
}

#[test]
fn other_users_have_no_access_to_the_data_whatever_the_umask_and_earlier_permissions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("it is ours");
    let program = steadfast();
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(program.get_program());
    command.args(["--listen", "127.0.0.1:0"]);
    for (name, value) in program.get_envs() {
        command.env(name, value.expect("it is set"));
    }
    let Ok(server) = Server::begin(command, folder) else { panic!("it greets") };
    assert!(server.get("/v1/buckets").status < 300);
    assert_private(server.folder());

    // A folder created by hand.
    let folder = server.kill();
    let files = ["steadfast.db", "steadfast.lock", "blobs/store", "blobs"];
    for (path, mode) in files.iter().zip([0o644, 0o666, 0o604, 0o755]) {
        fs::set_permissions(folder.path().join(path), Permissions::from_mode(mode)).expect("ours");
    }
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let server = Server::on(folder);
    assert_private(server.folder());
}
