//! Each limit at its edge: the last accepted value, the first refused one, and a clear error.

use steadfast_store::{
    Commit, InvalidInput, Json, Message, Remember, StoreError, Write,
    limits::{
        DATA_BYTES_MAX, ERROR_BYTES_MAX, JSON_DEPTH_MAX, KEY_BYTES_MAX, METADATA_BYTES_MAX,
        TYPE_BYTES_MAX, WRITES_MAX,
    },
};

use crate::lab::{Lab, address, command, event, json};

fn text_of(bytes: usize) -> Json {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

crate::laws::laws!(
    data_is_taken_up_to_its_limit,
    an_over_long_error_is_cut_at_a_character,
    a_commit_with_too_many_writes_is_refused_and_loses_nothing,
    a_commit_with_too_many_bytes_is_refused_and_loses_nothing,
);

async fn data_is_taken_up_to_its_limit(lab: Lab) {
    let largest = Message::new("x", text_of(DATA_BYTES_MAX)).unwrap();
    lab.append(&address("a"), vec![largest.metadata(text_of(METADATA_BYTES_MAX)).unwrap()]).await;
    let read = lab.store.read_stream(address("a").id(), 1, 1).await.unwrap();
    assert_eq!(read[0].data.as_str().len(), DATA_BYTES_MAX);

    let error = Message::new("x", text_of(DATA_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error, InvalidInput::DataSize { len: DATA_BYTES_MAX + 1 });
    assert_eq!(
        error.to_string(),
        "message data has 1048577 bytes, limit is 1048576; keep large data in a bucket and send \
         its key"
    );
    let error = event("x").metadata(text_of(METADATA_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error, InvalidInput::MetadataSize { len: METADATA_BYTES_MAX + 1 });
}

async fn an_over_long_error_is_cut_at_a_character(lab: Lab) {
    let position = lab.command(&address("a")).await;
    let error = format!("\0{}", "ü".repeat(ERROR_BYTES_MAX));
    let after = std::time::Duration::ZERO;
    lab.committed(Commit::of(Write::Retry { position, lease: None, error, after })).await;
    let logged = &lab.store.attempts(position).await.unwrap()[0].error;
    assert!(logged.len() <= ERROR_BYTES_MAX + 2 && logged.ends_with('ü'));
}

async fn a_commit_with_too_many_writes_is_refused_and_loses_nothing(lab: Lab) {
    let messages = |count| (0..count).map(|_| event("x")).collect::<Vec<_>>();
    let stream = address("a");
    let too_many = Write::Append { stream: stream.clone(), messages: messages(WRITES_MAX + 1) };
    let error = lab.store.commit(Commit::of(too_many)).await.unwrap_err();
    assert_eq!(error.code(), "invalid_input");
    assert!(matches!(error, StoreError::Invalid(InvalidInput::CommitLength { count: 10_001 })));
    assert!(error.surely_unapplied() && !error.is_retryable());
    assert_eq!(lab.append(&stream, messages(WRITES_MAX)).await.len(), WRITES_MAX);
}

async fn a_commit_with_too_many_bytes_is_refused_and_loses_nothing(lab: Lab) {
    // The same text in each: it is counted each time.
    let largest = Message::new("x", text_of(DATA_BYTES_MAX)).unwrap().event();
    let stream = address("a");
    let append =
        |count| Write::Append { stream: stream.clone(), messages: vec![largest.clone(); count] };
    let error = lab.store.commit(Commit::of(append(32))).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid(InvalidInput::CommitSize { .. })), "{error}");
    assert_eq!(lab.committed(Commit::of(append(31))).await.appended.len(), 31);
}

#[test]
fn text_that_is_not_json_is_refused_with_its_position() {
    for (text, place) in [("{", "line 1 column 1"), ("{}x", "line 1 column 3"), ("", "column 0")] {
        let error = Json::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("data is not JSON: ") && error.contains(place), "{error}");
    }
}

#[test]
fn json_is_taken_up_to_its_depth() {
    let nested = |depth| Json::parse(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    assert!(nested(JSON_DEPTH_MAX).is_ok());
    assert_eq!(nested(JSON_DEPTH_MAX + 1), Err(InvalidInput::JsonDepth));
    assert!(Json::parse(&format!("\"{}\\\"[\"", "[{".repeat(500))).is_ok(), "in a text it is text");
}

#[test]
fn types_and_keys_end_at_their_limits() {
    assert!(Message::new(&"t".repeat(TYPE_BYTES_MAX), json("1")).is_ok());
    for bad in ["", "\0", &"t".repeat(TYPE_BYTES_MAX + 1)] {
        assert!(matches!(Message::new(bad, json("1")), Err(InvalidInput::MessageType { .. })));
    }
    let scope = address("a").id();
    assert!(Remember::new(scope, &"k".repeat(KEY_BYTES_MAX), b"").is_ok());
    for bad in ["", "\0", &"k".repeat(KEY_BYTES_MAX + 1)] {
        assert!(matches!(Remember::new(scope, bad, b""), Err(InvalidInput::Key { .. })));
    }
}

#[tokio::test]
async fn a_cause_must_precede_its_effect() {
    let lab = Lab::memory().await;
    let output = command(&address("a")).cause(steadfast_store::Cause::Sibling(0));
    let error = lab.store.commit(Commit::append(&address("a"), 0, vec![output])).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid(InvalidInput::Sibling { index: 0, sibling: 0 })));
}
