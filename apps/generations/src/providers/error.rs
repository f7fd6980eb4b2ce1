//! Errors of a generation, each kind with a stable code.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kinds of errors. They follow Runware's taxonomy, with what an output can have on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// No provider has this model.
    UnknownModel,
    /// The input is at fault.
    Input,
    /// The provider does not know the key, or it may not do this.
    Unauthorized,
    /// The account is empty.
    Credits,
    /// The provider does not make such things.
    Content,
    /// Too many at a time.
    RateLimited,
    /// The provider is down, overloaded, or failed by itself.
    Unavailable,
    /// Nothing came in time.
    Timeout,
    /// The provider refuses for a reason that fits nowhere else.
    Refused,
    /// The provider answered, but not in its protocol.
    Answer,
    /// The output is at an address that may not be asked.
    OutputAddress,
    /// The output has more bytes than allowed.
    OutputTooLarge,
    /// The output is no image and no video.
    OutputContent,
    /// The output is not there any more.
    OutputGone,
}

impl ErrorKind {
    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            ErrorKind::UnknownModel => "model_unknown",
            ErrorKind::Input => "generation_input_invalid",
            ErrorKind::Unauthorized => "provider_unauthorized",
            ErrorKind::Credits => "provider_credits_insufficient",
            ErrorKind::Content => "content_rejected",
            ErrorKind::RateLimited => "provider_rate_limited",
            ErrorKind::Unavailable => "provider_unavailable",
            ErrorKind::Timeout => "provider_timeout",
            ErrorKind::Refused => "provider_refused",
            ErrorKind::Answer => "provider_answer_invalid",
            ErrorKind::OutputAddress => "output_address_refused",
            ErrorKind::OutputTooLarge => "output_too_large",
            ErrorKind::OutputContent => "output_content_invalid",
            ErrorKind::OutputGone => "output_gone",
        }
    }

    /// Whether the same may go well later.
    pub fn is_retryable(self) -> bool {
        match self {
            ErrorKind::RateLimited
            | ErrorKind::Unavailable
            | ErrorKind::Timeout
            | ErrorKind::Answer => true,
            ErrorKind::UnknownModel
            | ErrorKind::Input
            | ErrorKind::Unauthorized
            | ErrorKind::Credits
            | ErrorKind::Content
            | ErrorKind::Refused
            | ErrorKind::OutputAddress
            | ErrorKind::OutputTooLarge
            | ErrorKind::OutputContent
            | ErrorKind::OutputGone => false,
        }
    }
}

/// Why there is no output. It can be stored.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct GenerateError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// A description for people.
    pub message: String,
    /// Which field of the input, if one is at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// How long the provider wants to be left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The response of the provider, as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Box<Value>>,
}

impl GenerateError {
    /// An error with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), field: None, retry_after: None, raw: None }
    }

    /// A field of the input is at fault.
    pub(crate) fn input(field: &str, message: impl std::fmt::Display) -> Self {
        let error = Self::new(ErrorKind::Input, format!("{field} {message}"));
        Self { field: Some(field.into()), ..error }
    }

    /// Nobody has this model.
    pub(crate) fn unknown_model(model: &str) -> Self {
        let message = format!("there is no model {:?}", shorten(model, 80));
        Self { field: Some("model".into()), ..Self::new(ErrorKind::UnknownModel, message) }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Whether the same may go well later.
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }
}

/// Shortens text of a stranger for a message, and removes control characters.
pub(crate) fn shorten(text: &str, chars_max: usize) -> String {
    text.chars().filter(|it| !it.is_control()).take(chars_max).collect()
}
