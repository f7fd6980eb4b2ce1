//! Every error of ours keeps its code on the wire.

use steadfast_core::{
    Error,
    process::{CodecError, Refused},
};
use steadfast_store::{AddressError, CommitsLost};

use super::*;

#[test]
fn every_error_of_a_store_keeps_its_code_and_says_whether_to_retry() {
    let reason = String::from("x");
    let check = |error: StoreError, status: u16| {
        let code = Code::of_store(&error);
        assert_eq!((code.tag(), code.http_status()), (error.code(), status));
        assert_eq!(code.retryable(), error.is_retryable(), "{error}");
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
        assert_eq!((code.tag(), code.http_status()), (error.code(), status));
        assert_eq!(code.retryable(), error.is_retryable(), "{error}");
    };
    let text = || String::from("x");
    check(InputError::Codec(CodecError::Shape), 400);
    check(InputError::Process { name: text() }, 404);
    check(InputError::Instance { belongs: text(), given: text() }, 422);
    check(InputError::Refused(Refused::because("x")), 422);
    check(InputError::KeyReused { key: text() }, 422);
    check(InputError::Contended { instance: text(), attempts: 1 }, 409);
    check(InputError::Name(AddressError::NameNul), 400);
    check(InputError::Store(StoreError::DiskFull), 507);
}

#[test]
fn every_error_of_a_look_at_objects_keeps_its_code() {
    let check = |error: InspectError, status: u16| {
        let code = Code::of_inspect(&error);
        assert_eq!((code.tag(), code.http_status()), (error.code(), status));
        assert_eq!(code.retryable(), matches!(error, InspectError::Busy { .. }), "{error}");
    };
    let text = || String::from("x");
    let forgotten = HistoryError::Forgotten { object: text(), turn: 1, oldest: 2 };
    check(InspectError::UnknownClass { class: text() }, 404);
    check(InspectError::UnknownObject { object: text() }, 404);
    check(InspectError::Name(AddressError::NameNul), 400);
    check(HistoryError::NoTurn { object: text(), turn: 2, last: 1 }.into(), 404);
    check(forgotten.into(), 410);
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
        assert_eq!((code.tag(), code.http_status()), (error.code(), status));
        let passes = matches!(error, QueueError::Full { .. });
        let passes = passes || matches!(&error, QueueError::Store(error) if error.is_retryable());
        assert_eq!(code.retryable(), passes, "{error}");
    };
    let text = || String::from("x");
    check(QueueError::UnknownQueue { queue: text() }, 404);
    check(QueueError::Name { queue: text(), reason: text() }, 400);
    check(QueueError::Setting { queue: text(), field: "x", rule: text() }, 400);
    check(QueueError::Circle { queue: text(), by: text() }, 400);
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
        let (code, retryable) = (error.code().to_owned(), error.is_retryable());
        let body = crate::api::problem::Problem::from(error).body("/", "r");
        assert_eq!((body.code, body.status), (code, status));
        assert_eq!(body.retryable, retryable, "{}", body.detail);
    };
    let text = || String::from("x");
    check(CallError::UnknownClass { class: text() }, 404);
    check(CallError::UnknownMessage { class: text(), message: text() }, 404);
    check(CallError::Name(AddressError::NameNul), 400);
    check(CallError::Malformed { message: text(), path: text(), detail: text() }, 400);
    check(CallError::Refused(Error::terminal("x").with_code("room_not_found")), 422);
    check(CallError::Refused(Error::retryable("x")), 422);
    check(CallError::Panicked { message: text(), detail: text() }, 500);
    check(CallError::RolledBack { object: text(), detail: text() }, 422);
    check(CallError::Key { len: 0 }, 400);
    check(CallError::KeyReused { key: text() }, 422);
    check(CallError::Busy { object: text() }, 429);
    check(CallError::Migration { object: text(), detail: text() }, 500);
    check(CallError::Corrupt { object: text(), detail: text() }, 500);
    check(CallError::Lost { object: text(), detail: text() }, 503);
    check(CallError::Nested { object: text() }, 500);
    check(CallError::NotLive { class: text() }, 404);
    check(CallError::TooManyConnections { object: text(), max: 1 }, 429);
    check(CallError::NotConnected { object: text(), connection: 1 }, 409);
    check(CallError::Reply { message: text(), detail: text() }, 500);
    check(CallError::Store(StoreError::Unavailable { reason: text() }), 503);
    check(CallError::Store(StoreError::Unknown { reason: text() }), 503);
}
