//! Every error keeps its code on the wire.

use std::{collections::BTreeSet, fs, path::Path};

use steadfast_bucket::{PartError, QuotaError};
use steadfast_core::process::{CodecError, Refused};
use steadfast_store::{AddressError, CommitsLost, SealError};

use super::*;

#[test]
fn every_error_of_a_store_keeps_its_code_and_says_whether_to_retry() {
    let reason = String::from("x");
    let check = |error: StoreError, status: u16| {
        let code = Code::of_store(&error);
        assert_eq!((code.tag(), code.status()), (error.code(), status));
        assert_eq!(code.is_retryable(), error.is_retryable(), "{error}");
        assert_eq!(code.is_surely_not_applied(), error.surely_unapplied(), "{error}");
    };
    check(StoreError::Busy { waiting: 1 }, 429);
    check(StoreError::DiskFull, 507);
    check(StoreError::Unavailable { reason: reason.clone() }, 503);
    check(StoreError::Unknown { reason: reason.clone() }, 503);
    check(StoreError::Fenced { epoch: 1 }, 503);
    let lost = CommitsLost { batches: (1, 2), positions: (3, 4) };
    check(StoreError::CommitsLost { lost }, 503);
    check(StoreError::Failed { reason: reason.clone() }, 503);
    check(StoreError::Corrupt { reason }, 500);
    check(StoreError::Closed, 503);
}

#[test]
fn every_error_of_a_process_keeps_its_code_and_says_whether_to_retry() {
    let check = |error: InputError, status: u16| {
        let code = Code::of_input(&error);
        assert_eq!((code.tag(), code.status()), (error.code(), status));
        assert_eq!(code.is_retryable(), error.is_retryable(), "{error}");
    };
    let text = || String::from("x");
    check(InputError::Codec(CodecError::Shape), 400);
    check(InputError::Process { name: text() }, 404);
    check(InputError::Instance { belongs: text(), given: text() }, 400);
    check(InputError::Refused(Refused::because("x")), 422);
    check(InputError::KeyReused { key: text() }, 409);
    check(InputError::Contended { instance: text(), attempts: 1 }, 409);
    check(InputError::Name(AddressError::NameNul), 400);
    check(InputError::Store(StoreError::DiskFull), 507);
}

#[test]
fn every_error_of_an_inspection_keeps_its_code() {
    let check = |error: InspectError, status: u16| {
        let code = Code::of_inspect(&error);
        assert_eq!((code.tag(), code.status()), (error.code(), status));
        assert_eq!(code.is_retryable(), matches!(error, InspectError::Busy { .. }), "{error}");
    };
    let text = || String::from("x");
    let forgotten = HistoryError::Forgotten { object: text(), turn: 1, oldest: 2 };
    check(InspectError::UnknownClass { class: text() }, 404);
    check(InspectError::UnknownObject { object: text() }, 404);
    check(InspectError::Name(AddressError::NameNul), 400);
    check(HistoryError::NoTurn { object: text(), turn: 2, last: 1 }.into(), 404);
    check(forgotten.into(), 404);
    check(CallError::Corrupt { object: text(), detail: text() }.into(), 500);
    check(InspectError::Refused { detail: text() }, 422);
    check(InspectError::Failed { detail: text() }, 422);
    check(InspectError::TooLong { seconds: 2 }, 422);
    check(InspectError::Busy { places: 4 }, 429);
    check(InspectError::Store(StoreError::Closed), 503);
}

#[test]
fn every_error_of_a_queue_keeps_its_code_and_says_whether_to_retry() {
    let check = |error: QueueError, status: u16| {
        let code = Code::of_queue(&error);
        assert_eq!((code.tag(), code.status()), (error.code(), status));
        let passes = matches!(error, QueueError::Full { .. });
        let passes = passes || matches!(&error, QueueError::Store(error) if error.is_retryable());
        assert_eq!(code.is_retryable(), passes, "{error}");
    };
    let text = || String::from("x");
    check(QueueError::UnknownQueue { queue: text() }, 404);
    check(QueueError::Name { queue: text(), reason: text() }, 400);
    check(QueueError::Setting { queue: text(), field: "x", rule: text() }, 400);
    check(QueueError::Cycle { queue: text(), by: text() }, 400);
    check(QueueError::Full { queue: text(), max: 1 }, 429);
    check(QueueError::TooLarge { queue: text(), index: 0, len: 2, max: 1 }, 413);
    check(QueueError::BatchLength { count: 0, max: 1 }, 400);
    check(QueueError::Argument { field: "x", rule: text() }, 400);
    check(QueueError::UnknownMessage { queue: text(), id: 1 }, 404);
    check(QueueError::KeyReused { key: text() }, 409);
    check(QueueError::Invalid(steadfast_store::InvalidInput::JsonDepth), 400);
    check(QueueError::Store(StoreError::Unavailable { reason: text() }), 503);
}

#[test]
fn every_error_of_a_call_keeps_its_code_and_says_whether_to_retry() {
    let check = |error: CallError, status: u16| {
        let code = Code::of_call(&error);
        assert_eq!((code.tag(), code.status()), (error.code(), status));
        assert_eq!(code.is_retryable(), error.is_retryable(), "{error}");
    };
    let text = || String::from("x");
    check(CallError::UnknownClass { class: text() }, 404);
    check(CallError::UnknownMessage { class: text(), message: text() }, 404);
    check(CallError::Name(AddressError::NameNul), 400);
    check(CallError::Malformed { message: text(), path: text(), detail: text() }, 400);
    check(CallError::Panicked { message: text(), detail: text() }, 500);
    check(CallError::RolledBack { object: text(), detail: text() }, 422);
    check(CallError::Key { len: 0 }, 400);
    check(CallError::KeyReused { key: text() }, 409);
    check(CallError::Busy { object: text() }, 429);
    check(CallError::Migration { object: text(), detail: text() }, 500);
    check(CallError::Corrupt { object: text(), detail: text() }, 500);
    check(CallError::Lost { object: text(), detail: text() }, 503);
    check(CallError::Nested { object: text() }, 500);
    check(CallError::NotLive { class: text() }, 409);
    check(CallError::TooManyConnections { object: text(), max: 1 }, 429);
    check(CallError::NotConnected { object: text(), connection: 1 }, 409);
    check(CallError::Reply { message: text(), detail: text() }, 500);
    check(CallError::Store(StoreError::Unavailable { reason: text() }), 503);
    check(CallError::Store(StoreError::Unknown { reason: text() }), 503);
}

#[test]
fn each_code_is_written_once_and_not_found_is_404() {
    let tags: BTreeSet<&str> = Code::ALL.iter().map(|it| it.tag()).collect();
    assert_eq!(tags.len(), Code::ALL.len());
    for code in Code::ALL {
        assert_eq!(Code::of_tag(code.tag()), Some(*code));
        assert_eq!(code.tag().ends_with("_not_found"), code.status() == 404, "{code:?}");
    }
}

#[test]
fn every_error_of_a_bucket_keeps_its_code() {
    let check = |error: BucketError, status: u16| {
        let code = Code::of_bucket(&error);
        assert_eq!((code.tag(), code.status()), (error.code(), status));
    };
    let text = || String::from("x");
    check(BucketError::Name { name: text() }, 400);
    check(BucketError::Key { len: 0 }, 400);
    check(BucketError::UnknownBucket { bucket: text() }, 404);
    check(BucketError::BucketExists { bucket: text() }, 409);
    check(BucketError::NotEmpty { bucket: text() }, 409);
    check(BucketError::UnknownBlob { bucket: text(), key: text() }, 404);
    check(BucketError::UnknownUpload { upload: text() }, 404);
    check(BucketError::UnknownRule { bucket: text(), rule: text() }, 404);
    check(BucketError::Condition { key: text(), reason: "x" }, 412);
    check(BucketError::NotModified { key: text(), etag: text() }, 304);
    check(BucketError::Range { size: 1 }, 416);
    check(BucketError::Length { expected: 1, actual: 2 }, 400);
    check(BucketError::Body { reason: text() }, 400);
    check(BucketError::Checksum { algorithm: "MD5" }, 400);
    check(BucketError::TooLarge { max: 1 }, 413);
    check(BucketError::Metadata { len: 2, max: 1 }, 413);
    check(BucketError::Part { number: 1, reason: PartError::Small }, 400);
    check(BucketError::Argument { field: "x", rule: text() }, 400);
    check(BucketError::Overlap { rule: text(), other: text(), action: "x" }, 409);
    check(BucketError::Replaced { id: text(), by: text() }, 409);
    check(BucketError::Repeated { answer: text() }, 409);
    check(BucketError::KeyReused { key: text() }, 409);
    let (used, limit) = (1, 1);
    check(QuotaError::TooLarge { organization: text(), size: 2, limit }.into(), 413);
    check(QuotaError::Bytes { organization: text(), used, added: 1, limit }.into(), 507);
    check(QuotaError::Objects { organization: text(), used, limit }.into(), 507);
    check(QuotaError::Spend { organization: text(), used, limit, seconds: 1 }.into(), 429);
    check(BucketError::DiskFull, 507);
    check(BucketError::Files { reason: text() }, 503);
    check(BucketError::Damaged { key: text(), version: text(), reason: "x" }, 500);
    check(BucketError::Missing { key: text(), version: text() }, 500);
    check(BucketError::Store(StoreError::Closed), 503);
    check(BucketError::Seal(SealError::KeyMissing { reason: text() }), 503);
    check(BucketError::Seal(SealError::Changed { identity: text() }), 500);
}

#[test]
fn the_page_of_error_codes_lists_every_code() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/errors.md");
    let page = fs::read_to_string(&file).unwrap();
    let yes = |it: bool| if it { "yes" } else { "no" };
    let row = |it: &Code| {
        let (retry, nothing) = (yes(it.is_retryable()), yes(it.is_surely_not_applied()));
        let (tag, status, meaning) = (it.tag(), it.status(), it.meaning());
        format!("| `{tag}` | {status} | {retry} | {nothing} | {meaning} |")
    };
    let rows: Vec<String> = Code::ALL.iter().map(row).collect();
    let general = page.lines().skip_while(|it| !it.starts_with("Every operation may answer"));
    let general: Vec<&str> = general.take_while(|it| !it.is_empty()).collect();
    let general = general.join(" ");
    let named: Vec<&str> = general.split('`').skip(1).step_by(2).collect();
    let expected = Code::GENERAL.iter().map(|it| it.tag());
    let expected: Vec<&str> = expected.chain(["/docs", "/openapi.json", "x-error-codes"]).collect();
    assert_eq!(named, expected, "the errors of every operation in docs/reference/errors.md");
    let written: Vec<&str> = page.lines().filter(|it| it.starts_with("| `")).collect();
    assert_eq!(
        written,
        rows,
        "write these rows into docs/reference/errors.md:\n{}",
        rows.join("\n")
    );
}
