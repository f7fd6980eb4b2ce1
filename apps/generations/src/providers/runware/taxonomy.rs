//! Runware's errors in our kinds.
//!
//! There are hundreds of codes and they change, so Runware's own clients sort them by how they are
//! written. This does the same, in the same order.

use std::time::Duration;

use serde_json::Value;

use crate::providers::error::{ErrorKind, GenerateError, shorten};

const CONTENT: [&str; 8] = [
    "contentPolicyViolation",
    "providerContentPolicyViolation",
    "sensitiveContentDetected",
    "unsafeContentDetected",
    "nsfwContentDetected",
    "promptBlocked",
    "imageBlocked",
    "moderationFailed",
];

const UNAUTHORIZED: [&str; 20] = [
    "unauthorized",
    "forbidden",
    "permissionDenied",
    "insufficientPermissions",
    "authenticationFailed",
    "authFailed",
    "authTimeout",
    "invalidAuthentication",
    "invalidCredentials",
    "missingAuthentication",
    "tokenExpired",
    "tokenInvalid",
    "tokenMissing",
    "tokenRevoked",
    "accountSuspended",
    "accountDisabled",
    "organizationSuspended",
    "organizationDisabled",
    "workspaceSuspended",
    "workspaceDisabled",
];

const UNAVAILABLE: [&str; 17] = [
    "internalServerError",
    "serviceUnavailable",
    "serverUnavailable",
    "standardError",
    "unknownError",
    "undefinedError",
    "defaultError",
    "unrecognizedResponse",
    "inferenceError",
    "processingFailed",
    "taskFailed",
    "downloadFailed",
    "uploadFailed",
    "noAvailableServer",
    "modelUnavailable",
    "modelNotReady",
    "mediaStorageFileCouldNotBeMoved",
];

/// How codes begin that are about the input.
const INPUT: [&str; 9] = [
    "invalid",
    "missing",
    "conflict",
    "duplicate",
    "unsupported",
    "value",
    "array",
    "max",
    "incompatible",
];

/// The kind of a code; `None` if it says nothing.
fn of_code(code: &str) -> Option<ErrorKind> {
    let has = |parts: &[&str]| parts.iter().any(|it| code.contains(it));
    let ends = |parts: &[&str]| parts.iter().any(|it| code.ends_with(it));
    Some(
        if has(&["Credits", "Quota", "Balance"])
            || matches!(code, "quotaExceeded" | "paymentRequired")
        {
            ErrorKind::Credits
        } else if has(&["RateLimit", "rateLimit"]) {
            ErrorKind::RateLimited
        } else if CONTENT.contains(&code) {
            ErrorKind::Content
        } else if UNAUTHORIZED.contains(&code) || has(&["ApiKey"]) {
            ErrorKind::Unauthorized
        } else if has(&["Timeout", "timeout"]) {
            ErrorKind::Timeout
        } else if matches!(code, "modelNotFound" | "unknownModel" | "modelDisabled") {
            ErrorKind::UnknownModel
        } else if matches!(code, "taskCancelled" | "taskFailedOrNotFound")
            || ends(&["NotFound", "Expired"])
        {
            ErrorKind::Refused
        } else if UNAVAILABLE.contains(&code) || code.starts_with("provider") {
            // Among them are errors of Runware's own key at a provider, which we cannot fix.
            ErrorKind::Unavailable
        } else if INPUT.iter().any(|it| code.starts_with(it)) || code == "unknownParameter" {
            ErrorKind::Input
        } else {
            return None;
        },
    )
}

/// The kind of a status.
fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        401 | 403 => ErrorKind::Unauthorized,
        402 => ErrorKind::Credits,
        408 | 504 => ErrorKind::Timeout,
        429 => ErrorKind::RateLimited,
        500.. => ErrorKind::Unavailable,
        400 | 422 => ErrorKind::Refused,
        _ => ErrorKind::Answer,
    }
}

/// An answer with nothing but its status.
pub(super) fn of_status(status: u16, retry_after: Option<Duration>) -> GenerateError {
    let kind = kind_of_status(status);
    let error = match kind == ErrorKind::Answer {
        true => nonsense(&format!("status {status}")),
        false => GenerateError::new(kind, format!("Runware answers with status {status}")),
    };
    GenerateError { retry_after, ..error }
}

/// One of the errors of an answer.
pub(super) fn of_error(raw: &Value, status: u16, retry_after: Option<Duration>) -> GenerateError {
    let text = |it: &str| raw.get(it).and_then(Value::as_str);
    let code = text("code").or_else(|| text("errorCode")).unwrap_or("unknown");
    let kind = of_code(code).unwrap_or_else(|| match status {
        // Nothing is known but that it failed, and that it is not for the status.
        0..300 => ErrorKind::Refused,
        _ => kind_of_status(status),
    });
    let said = text("message").or_else(|| text("errorMessage")).unwrap_or("no message");
    let message = format!("Runware: {} ({})", shorten(said, 300), shorten(code, 60));
    let parameter = raw.get("parameter");
    let parameter = parameter.map(|it| it.get(0).unwrap_or(it)).and_then(Value::as_str);
    GenerateError {
        field: parameter.map(|it| shorten(it, 60)),
        retry_after,
        raw: Some(Box::new(raw.clone())),
        ..GenerateError::new(kind, message)
    }
}

/// Shorthand for messages about what is not of the protocol.
pub(super) fn nonsense(reason: &str) -> GenerateError {
    GenerateError::new(ErrorKind::Answer, format!("Runware's answer makes no sense: {reason}"))
}

fn code_of(error: &GenerateError) -> &str {
    let raw = error.raw.as_deref();
    raw.and_then(|it| it.get("code")).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a task runs already under the same id.
pub(super) fn is_conflict(error: &GenerateError) -> bool {
    matches!(code_of(error), "conflictTaskUUID" | "duplicateTaskUUID")
}

/// Whether a poll found no such task.
pub(super) fn is_missing(error: &GenerateError) -> bool {
    matches!(code_of(error), "taskFailedOrNotFound" | "taskNotFound" | "taskExpired")
}

/// Whether the account's records say that they have no such task. What is expired was there.
pub(super) fn is_unknown(error: &GenerateError) -> bool {
    matches!(code_of(error), "taskFailedOrNotFound" | "taskNotFound")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn codes_are_sorted_as_runware_sorts_them() {
        for (code, kind) in [
            ("invalidApiKey", ErrorKind::Unauthorized),
            ("authTimeout", ErrorKind::Unauthorized),
            ("insufficientCredits", ErrorKind::Credits),
            ("rateLimitExceeded", ErrorKind::RateLimited),
            ("providerRateLimitExceeded", ErrorKind::RateLimited),
            ("nsfwContentDetected", ErrorKind::Content),
            ("providerContentPolicyViolation", ErrorKind::Content),
            ("timeoutProvider", ErrorKind::Timeout),
            ("inferenceTimeout", ErrorKind::Timeout),
            ("inferenceError", ErrorKind::Unavailable),
            ("providerError", ErrorKind::Unavailable),
            ("internalServerError", ErrorKind::Unavailable),
            ("modelNotFound", ErrorKind::UnknownModel),
            ("taskFailedOrNotFound", ErrorKind::Refused),
            ("invalidPositivePrompt", ErrorKind::Input),
            ("missingModel", ErrorKind::Input),
            ("somethingNew", ErrorKind::Refused),
        ] {
            let error = of_error(&json!({ "code": code, "message": "m" }), 200, None);
            assert_eq!(error.kind, kind, "{code}");
            assert!(error.message.contains(code), "{error}");
        }
    }

    #[test]
    fn a_code_nobody_knows_is_judged_by_its_status() {
        let raw = json!({ "code": "somethingNew", "parameter": ["width", "height"] });
        for (status, is_retryable) in [(400, false), (401, false), (429, true), (503, true)] {
            let error = of_error(&raw, status, None);
            assert_eq!(error.is_retryable(), is_retryable, "{status}");
            assert_eq!(error.field.as_deref(), Some("width"));
        }
        assert_eq!(of_status(402, None).kind, ErrorKind::Credits);
        assert_eq!(of_status(302, None).kind, ErrorKind::Answer);
    }
}
