//! Converts any error into an [`Error`], with its code and whether it is terminal. It
//! is on its own because it knows the errors of all parts.

use std::any::Any;

use steadfast_store::{self as store, StoreError};

use crate::{BucketError, CallError, QueueError, RunError, error::Error};

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        let made = match is_failed_run(&error) || is_parsing(&error) || is_quota(&error) {
            true => Self::terminal(text),
            false => Self::retryable(text),
        };
        match own_code(&error) {
            Some(code) => made.with_code(code),
            None => made,
        }
    }
}

/// Whether it is the error of a run that failed with a terminal error.
fn is_failed_run(error: &dyn Any) -> bool {
    matches!(error.downcast_ref(), Some(RunError::Failed { error, .. }) if error.is_terminal())
}

/// Whether a quota refused it: attempts within minutes find the same quota.
fn is_quota(error: &dyn Any) -> bool {
    matches!(error.downcast_ref(), Some(BucketError::Quota(_)))
}

/// Whether it is a parsing error: the same text fails again.
fn is_parsing(error: &dyn Any) -> bool {
    let json = error.downcast_ref::<serde_json::Error>();
    json.is_some_and(|it| !it.is_io())
        || error.is::<std::num::ParseIntError>()
        || error.is::<std::num::ParseFloatError>()
        || error.is::<std::str::ParseBoolError>()
        || error.is::<std::char::ParseCharError>()
        || error.is::<std::str::Utf8Error>()
        || error.is::<std::string::FromUtf8Error>()
        || error.is::<std::net::AddrParseError>()
        || error.is::<store::UnknownText>()
        || error.is::<store::InvalidInput>()
        || error.is::<store::AddressError>()
}

/// The code of an error of this platform.
fn own_code(error: &dyn Any) -> Option<&str> {
    let run = || error.downcast_ref::<RunError>().map(RunError::code);
    let queue = || error.downcast_ref::<QueueError>().map(QueueError::code);
    let call = || error.downcast_ref::<CallError>().map(CallError::code);
    let bucket = || error.downcast_ref::<BucketError>().map(BucketError::code);
    let store = || error.downcast_ref::<StoreError>().map(StoreError::code);
    run().or_else(queue).or_else(call).or_else(bucket).or_else(store)
}

#[cfg(test)]
mod tests {
    use steadfast_bucket::QuotaError;

    use super::*;

    fn from<T, E: std::error::Error + 'static>(result: std::result::Result<T, E>) -> Error {
        result.err().expect("it fails").into()
    }

    #[test]
    fn text_that_cannot_be_parsed_is_not_tried_again() {
        assert!(from(serde_json::from_str::<u32>("x")).is_terminal());
        assert!(from("x".parse::<u32>()).is_terminal());
        assert!(from("x".parse::<f32>()).is_terminal());
        assert!(from(String::from_utf8(vec![0xff])).is_terminal());
        assert!(from("x".parse::<std::net::IpAddr>()).is_terminal());
        assert!(from("x".parse::<store::EntityKind>()).is_terminal());
        assert!(!from(std::fs::read("/nowhere")).is_terminal());
        let (organization, used, limit) = ("acme".to_owned(), 1, 1);
        let full = QuotaError::Objects { organization, used, limit };
        let full = from(Err::<(), _>(BucketError::from(full)));
        assert_eq!((full.is_terminal(), full.code()), (true, "quota_objects"));
        let away = Err::<(), _>(StoreError::Unavailable { reason: "away".into() });
        assert!(!from(away).is_terminal());
    }
}
