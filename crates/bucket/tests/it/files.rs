//! Files: disk errors are typed errors, and affect no other blob.

use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use steadfast_bucket::{
    Blobs, ContentId, CopyOptions, FileBlobs, FileName, GetOptions, PutOptions, account,
};
use steadfast_store::{
    Answer, Commit, CommitCallback, CommitsLost, Query, SeededEntropy, Store, StoreError,
};

use crate::{
    setup::{Setup, bucket, key, open},
    wrapper::{Hook, Wrapper},
};

laws!(
    a_full_disk_at_any_call_leaves_no_file_and_no_event,
    a_put_that_was_surely_not_applied_leaves_no_file,
    a_truncated_or_missing_file_is_an_error_of_its_blob_only,
);

async fn a_full_disk_at_any_call_leaves_no_file_and_no_event(setup: Setup) {
    setup.put("kept", b"kept").await;
    setup.listen().await;
    let (setup, faulty_blobs) = setup.with_faults().await;
    let upload = setup.begin("big").await;
    let (bucket, from, to) = (bucket(), key("kept"), key("k"));
    for nth in 1..=4 {
        faulty_blobs.fail_from(nth, io::ErrorKind::StorageFull);
        let put = setup.buckets.put(&bucket, &to, b"bytes", PutOptions::default()).await;
        faulty_blobs.fail_from(nth, io::ErrorKind::StorageFull);
        let part = setup.part(&upload, 1, b"bytes").await;
        assert_eq!(put.unwrap_err().code(), "disk_full");
        assert_eq!(part.unwrap_err().code(), "disk_full");
        if nth <= 2 {
            faulty_blobs.fail_from(nth, io::ErrorKind::StorageFull);
            let places = ((&bucket, &from), (&bucket, &to));
            let copy = setup.buckets.copy(places.0, places.1, CopyOptions::default()).await;
            assert_eq!(copy.unwrap_err().code(), "disk_full");
        }
    }
    faulty_blobs.off();
    assert_eq!(setup.events().await, []);
    setup.pass(Duration::from_hours(2));
    setup.buckets.sweep().await.unwrap();
    setup.buckets.abort_upload(&bucket, &key("big"), &upload.id).await.unwrap();
    setup.buckets.sweep().await.unwrap();
    assert_eq!(setup.all_files().len(), 1, "what got its name is swept");
    assert_eq!(setup.put("k", b"bytes").await.sequence, 1);
    assert_eq!(setup.get("kept").await, b"kept");
}

/// Every commit gets this error, if there is one.
type Refusal = Mutex<Option<StoreError>>;

#[async_trait]
impl Hook<dyn Store> for Refusal {
    fn submit(&self, inner: &dyn Store, commit: Commit, answer: CommitCallback) {
        let refusal = self.lock().unwrap().clone();
        match refusal {
            Some(error) => answer(Err(error)),
            None => inner.submit(commit, answer),
        }
    }

    async fn read(&self, inner: &dyn Store, query: Query) -> Result<Answer, StoreError> {
        inner.read(query).await
    }
}

async fn a_put_that_was_surely_not_applied_leaves_no_file(mut setup: Setup) {
    let store = Wrapper::around(setup.store.clone(), Refusal::default());
    setup.store = store.clone();
    setup.buckets = open(&setup.store, setup.blobs.clone(), 3).await;
    let upload = setup.begin("big").await;
    let lost = CommitsLost { batches: (1, 2), positions: (3, 4) };
    for (error, files) in [
        (StoreError::Fenced { epoch: 1 }, 0),
        (StoreError::CommitsLost { lost }, 0),
        (StoreError::ReadOnly, 0),
        (StoreError::Unavailable { reason: "as the test wanted".into() }, 0),
        (StoreError::Unknown { reason: "as the test wanted".into() }, 2),
    ] {
        *store.lock().unwrap() = Some(error.clone());
        let put = setup.buckets.put(&bucket(), &key("k"), b"bytes", PutOptions::default()).await;
        let part = setup.part(&upload, 1, b"bytes").await;
        assert_eq!(put.unwrap_err().code(), error.code());
        assert_eq!(part.unwrap_err().code(), error.code());
        assert_eq!(setup.all_files().len(), files, "{error}");
    }
}

async fn a_truncated_or_missing_file_is_an_error_of_its_blob_only(setup: Setup) {
    if !setup.is_on_disk() {
        return;
    }
    setup.put("short", b"0123456789").await;
    let path = setup.paths().pop().unwrap();
    setup.put("gone", b"bytes").await;
    let other = setup.paths().into_iter().find(|it| *it != path).unwrap();
    setup.put("kept", b"kept").await;
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(5).unwrap();
    fs::remove_file(other).unwrap();
    for (at, code) in [("short", "blob_damaged"), ("gone", "blob_missing")] {
        let read = setup.buckets.get(&bucket(), &key(at), GetOptions::default()).await;
        assert_eq!(read.err().unwrap().code(), code);
    }
    let error = setup.buckets.get(&bucket(), &key("short"), GetOptions::default()).await.err();
    assert!(error.unwrap().to_string().contains("too short"));
    let (from, to) = (key("gone"), key("copy"));
    let copy =
        setup.buckets.copy((&bucket(), &from), (&bucket(), &to), CopyOptions::default()).await;
    assert_eq!(copy.unwrap_err().code(), "blob_missing");
    assert_eq!(setup.get("kept").await, b"kept");
    setup.put("gone", b"again").await;
    assert_eq!(setup.delete("short").await, Some(2));
    assert_eq!(setup.get("gone").await, b"again");
}

fn name(number: u8) -> FileName {
    FileName { content: ContentId([number; 16]), part: None }
}

fn write(blobs: &dyn Blobs, name: FileName, bytes: &[u8]) -> io::Result<()> {
    let mut draft = blobs.create(name)?;
    draft.write(bytes)?;
    draft.seal()
}

fn read(blobs: &dyn Blobs, name: FileName, len: u64) -> Vec<u8> {
    blobs.open(name).unwrap().read(0..len).unwrap()
}

#[test]
fn a_folder_belongs_to_one_process_and_one_store() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("new/and/deep/blobs");
    let blobs = FileBlobs::open(&place, "one").unwrap();
    let error = FileBlobs::open(&place, "one").unwrap_err().to_string();
    assert!(error.contains("used by another process"), "{error}");
    drop(blobs);
    let error = FileBlobs::open(&place, "two").unwrap_err().to_string();
    assert!(error.contains("holds the files of store one"), "{error}");
    FileBlobs::open(&place, "one").unwrap();
}

#[test]
fn a_folder_opens_after_a_crash_at_any_point_of_its_creation() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("store.new"), "on").unwrap();
    let blobs = FileBlobs::open(folder.path(), "one").unwrap();
    write(&blobs, name(1), b"whole").unwrap();
    assert_eq!(read(&blobs, name(1), 5), b"whole");
}

#[test]
fn files_of_a_killed_process_are_orphans_and_files_being_written_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = FileBlobs::open(folder.path(), "one").unwrap();
    write(&blobs, name(1), b"whole").unwrap();
    let (subfolder, _) = blobs.subfolders().unwrap().remove(0);
    fs::write(folder.path().join(&subfolder).join(name(2).to_string()), "half").unwrap();
    let mut draft = blobs.create(name(3)).unwrap();
    draft.write(b"wh").unwrap();
    let files: BTreeSet<_> = blobs.files_in(&subfolder).unwrap().into_iter().collect();
    assert_eq!(files, BTreeSet::from([name(1), name(2)]), "nobody will finish the second");
    draft.write(b"ole").unwrap();
    draft.seal().unwrap();
    assert_eq!(read(&blobs, name(3), 5), b"whole", "somebody was at it");
}

#[test]
fn content_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let blobs: [Arc<dyn Blobs>; 2] = [
        Arc::new(FileBlobs::open(folder.path(), "one").unwrap()),
        Arc::new(steadfast_bucket::MemoryBlobs::default()),
    ];
    for blobs in blobs {
        write(&*blobs, name(1), b"first").unwrap();
        write(&*blobs, name(2), b"other").unwrap();
        let again = write(&*blobs, name(1), b"again").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let linked = blobs.link(name(2), name(1)).unwrap_err();
        assert_eq!(linked.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read(&*blobs, name(1), 5), b"first");
    }
}

#[test]
fn a_removed_folder_is_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = FileBlobs::open(folder.path(), "one").unwrap();
    write(&blobs, name(1), b"bytes").unwrap();
    blobs.remove(&[name(1)]).unwrap();
    let subfolder = blobs.subfolders().unwrap().remove(0).0;
    blobs.remove_subfolder(&subfolder);
    assert!(!folder.path().join(&subfolder).exists());
    write(&blobs, name(1), b"bytes").unwrap();
    // As if the sweep had removed it in between.
    blobs.remove(&[name(1)]).unwrap();
    fs::remove_dir_all(folder.path().join(Path::new(&subfolder).parent().unwrap())).unwrap();
    write(&blobs, name(1), b"bytes").unwrap();
    assert_eq!(read(&blobs, name(1), 5), b"bytes");
}

#[tokio::test]
async fn a_store_keeps_its_name() {
    let setup = Setup::memory().await;
    let name = account(&*setup.store, &SeededEntropy::new(9)).await.unwrap();
    assert_eq!((name.as_str(), name.len()), (setup.buckets.account(), 32));
}

/// Runs itself again in a namespace with a disk of 4 MiB, which needs no permissions but a kernel
/// with user namespaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_really_full_disk_refuses_and_recovers_with_space() {
    const FOLDER: &str = "STEADFAST_TEST_SMALL_DISK";
    const NAME: &str = "files::a_really_full_disk_refuses_and_recovers_with_space";
    if let Ok(folder) = std::env::var(FOLDER) {
        return fill(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=4m none \"$0\" && exec \"$1\" --exact \"$2\"";
    let mut child = std::process::Command::new("unshare");
    child.args(["-Urm", "sh", "-c", mount]).arg(folder.path()).env(FOLDER, folder.path());
    child.arg(std::env::current_exe().unwrap()).arg(NAME);
    let probe = ["-Urm", "sh", "-c", "mount -t tmpfs none /tmp"];
    let can = std::process::Command::new("unshare").args(probe).output();
    if !can.is_ok_and(|it| it.status.success()) {
        return eprintln!("skipped: no small disk can be made here");
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

async fn fill(folder: &Path) {
    let setup = Setup::memory_with_files(folder).await;
    setup.listen().await;
    let bytes = vec![7; 700 << 10];
    let mut stored = 0;
    let error = loop {
        let at = key(&stored.to_string());
        match setup.buckets.put(&bucket(), &at, &bytes, PutOptions::default()).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.code(), stored), ("disk_full", 5));
    let mut writer = setup.buckets.writer(&bucket(), &key("large")).await.unwrap();
    let written = writer.write(&vec![0; 5 << 20]).await;
    assert_eq!(written.unwrap_err().code(), "disk_full");
    assert!(writer.finish(PutOptions::default()).await.is_err());
    assert_eq!((setup.events().await.len(), setup.all_files().len()), (5, 5));
    assert_eq!(setup.delete("0").await, Some(2));
    assert_eq!(setup.put("again", &bytes).await.sequence, 1);
    for at in ["1", "2", "3", "4", "again"] {
        assert_eq!(setup.get(at).await, bytes);
    }
}
