use std::{fs, os::unix::fs::PermissionsExt};

use tempfile::TempDir;

use super::*;
use crate::{MemoryStore, SystemClock};

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(SystemClock))
}

async fn load(store: &MemoryStore, file: SealFile) -> Seal {
    Seal::load(store, file).await.unwrap()
}

fn reason(error: SealError) -> String {
    assert_eq!(error.kind(), Code::SealKeyMissing);
    error.to_string()
}

fn in_folder(folder: &TempDir) -> SealFile {
    SealFile::in_folder(folder.path())
}

#[test]
fn a_sealed_text_is_opened_in_its_row_and_nowhere_else() {
    let seal = Seal::of_key([1; 32]);
    let sealed = seal.seal("access-key/A", "hush").unwrap();
    assert!(sealed.starts_with(PREFIX) && !sealed.contains("hush"));
    assert_ne!(sealed, seal.seal("access-key/A", "hush").unwrap(), "the nonce is another one");
    assert_eq!(seal.open("access-key/A", &sealed).unwrap().expose(), "hush");
    let changed = |text: &str| {
        let error = seal.open("access-key/A", text).unwrap_err();
        assert!(matches!(error, SealError::Changed { .. }), "{text}: {error}");
    };
    let other = seal.seal("access-key/B", "hush").unwrap();
    changed(&other);
    changed("plain");
    for end in [PREFIX.len(), PREFIX.len() + 12, sealed.len() - 1] {
        changed(&sealed[..end]);
    }
    let mut bytes = BASE64URL_NOPAD.decode(&sealed.as_bytes()[PREFIX.len()..]).unwrap();
    for at in [0, 9, 33, bytes.len() - 1] {
        bytes[at] ^= 1;
        changed(&format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes)));
        bytes[at] ^= 1;
    }
    let error = Seal::of_key([2; 32]).open("access-key/A", &sealed).unwrap_err();
    assert!(reason(error).contains(&seal.fingerprint().unwrap()));
}

#[test]
fn keys_of_other_purposes_differ() {
    let seal = Seal::of_key([1; 32]);
    let key = |purpose: &str| seal.derived(purpose).unwrap()[0];
    assert_eq!(key("a"), key("a"));
    assert_ne!(key("a"), key("b"));
    assert_ne!(key("a"), Seal::of_key([2; 32]).derived("a").unwrap()[0]);
    assert!(!format!("{seal:?}").contains("1, 1"), "{seal:?}");
}

#[test]
fn a_text_is_authenticated_for_one_purpose() {
    let (seal, other) = (Seal::of_key([1; 32]), Seal::of_key([2; 32]));
    let mac = seal.mac("a", "text").unwrap();
    assert!(seal.is_mac("a", "text", &mac));
    assert!(!seal.is_mac("b", "text", &mac) && !seal.is_mac("a", "other", &mac));
    assert!(!seal.is_mac("a", "text", "") && !seal.is_mac("a", "text", &mac[2..]));
    assert!(!other.is_mac("a", "text", &mac) && !Seal::none().is_mac("a", "text", &mac));
    assert!(Seal::none().mac("a", "text").is_err());
}

#[tokio::test]
async fn a_new_store_gets_a_private_key_file_that_the_next_process_uses() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let sealed = load(&store, in_folder(&folder)).await.seal("x", "hush").unwrap();
    let path = folder.path().join("seal.key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let next = load(&store, in_folder(&folder)).await;
    assert_eq!(next.open("x", &sealed).unwrap().expose(), "hush");
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1, "nothing else is left in the folder");
}

#[tokio::test]
async fn a_store_with_a_key_never_gets_another_one_silently() {
    let (store, folder, other) = (store(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = load(&store, in_folder(&folder)).await;
    let name = first.fingerprint().unwrap();
    let sealed = first.seal("x", "hush").unwrap();
    // Another host, without the file.
    let missing = load(&store, in_folder(&other)).await;
    let text = reason(missing.open("x", &sealed).unwrap_err());
    let path = other.path().join("seal.key");
    for shown in [&*name, path.to_str().unwrap(), "does not exist", "--seal-key-file"] {
        assert!(text.contains(shown), "{shown} is missing in {text}");
    }
    assert!(!path.exists());
    reason(missing.seal("x", "new").unwrap_err());
    // Another key, and no key at all.
    for wrong in [&"07".repeat(32), "not a key", ""] {
        fs::write(&path, wrong).unwrap();
        let text = reason(load(&store, in_folder(&other)).await.seal("x", "new").unwrap_err());
        assert!(text.contains(&name), "{text}");
    }
    // It says so only when secrets are used: the first host still works.
    assert!(load(&store, in_folder(&folder)).await.open("x", &sealed).is_ok());
    // The operator gives the lost key up.
    fs::remove_file(&path).unwrap();
    let new = load(&store, in_folder(&other).replacing()).await;
    let text = reason(new.open("x", &sealed).unwrap_err());
    assert!(text.contains(&name), "{text}");
    new.seal("x", "new").unwrap();
    assert!(load(&store, in_folder(&other)).await.fingerprint().is_ok());
}

#[tokio::test]
async fn a_named_file_and_a_read_only_one_are_not_created() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let path = folder.path().join("mounted");
    let files = [SealFile::named(&path), in_folder(&folder).read_only()];
    for file in files {
        let text = reason(load(&store, file).await.seal("x", "hush").unwrap_err());
        assert!(text.contains("does not exist"), "{text}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(&path, "0F".repeat(32)).unwrap();
    assert!(load(&store, SealFile::named(&path)).await.seal("x", "hush").is_ok());
    reason(Seal::none().seal("x", "hush").unwrap_err());
}

#[tokio::test]
async fn a_new_first_line_rotates_the_key() {
    let (store, folder) = (store(), TempDir::new().unwrap());
    let path = folder.path().join("keys");
    let (old, new) = ("01".repeat(32), "02".repeat(32));
    fs::write(&path, &old).unwrap();
    let sealed = load(&store, SealFile::named(&path)).await.seal("row", "hush").unwrap();
    fs::write(&path, format!("{new}\n{old}\n")).unwrap();
    let both = load(&store, SealFile::named(&path)).await;
    assert_eq!(both.open("row", &sealed).unwrap().expose(), "hush");
    assert_eq!(both.derived("a").unwrap().len(), 2);
    let again = both.reseal("row", &sealed).unwrap().expect("it has the earlier key");
    assert_eq!(both.reseal("row", &again).unwrap(), None);
    both.record(&store).await.unwrap();
    fs::write(&path, &new).unwrap();
    let seal = load(&store, SealFile::named(&path)).await;
    assert_eq!(seal.open("row", &again).unwrap().expose(), "hush");
    fs::write(&path, &old).unwrap();
    reason(load(&store, SealFile::named(&path)).await.seal("x", "y").unwrap_err());
}
